// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/sam3d"
	"github.com/gomlx3d/image3d/weights"
)

// nowhere is a hub that nobody answers for.
var nowhere = weights.HubOptions{Endpoint: "http://127.0.0.1:1"}

// openError opens a folder that cannot be opened.
func openError(t *testing.T, folder string) error {
	t.Helper()
	hub := nowhere
	hub.CacheDir = t.TempDir()
	p, err := sam3d.Open(context.Background(), folder, sam3d.Options{Backend: backendName(), Hub: hub})
	require.Error(t, err)
	require.Nil(t, p)
	require.NotContains(t, err.Error(), "internal fault")
	return err
}

func TestOpenSources(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "file.ckpt")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	require.ErrorIs(t, openError(t, folder), weights.ErrMissing)
	require.ErrorContains(t, openError(t, file), "is a file")
	require.ErrorIs(t, openError(t, filepath.Join(folder, "none")), weights.ErrMissing)
	require.ErrorIs(t, openError(t, ""), weights.ErrMissing)
	require.ErrorIs(t, openError(t, "../../etc"), weights.ErrMissing)
	require.ErrorIs(t, openError(t, "owner/name"), weights.ErrOffline)
}

// files are the weight files of the official layout and what an error calls their component.
var files = map[string]string{
	"ss_generator.ckpt": weights.SSGenerator, "slat_generator.ckpt": weights.SLATGenerator, "ss_decoder.ckpt": weights.SSDecoder,
	"slat_decoder_gs.ckpt": weights.SLATDecoderGS, "slat_decoder_gs_4.ckpt": weights.SLATDecoderGS4,
	"slat_decoder_mesh.ckpt": weights.SLATDecoderMesh,
}

func TestMissingFiles(t *testing.T) {
	for file, component := range files {
		folder := tiny(t, "checkpoint_official_tiny")
		require.NoError(t, os.Remove(filepath.Join(folder, file)))
		err := openError(t, folder)
		require.ErrorIs(t, err, weights.ErrMissing)
		require.ErrorContains(t, err, file)
		require.ErrorContains(t, err, component)
	}
	folder := tiny(t, "checkpoint_official_tiny")
	for file := range files {
		require.NoError(t, os.Remove(filepath.Join(folder, file)))
	}
	err := openError(t, folder)
	for file := range files {
		require.ErrorContains(t, err, file, "all are named at once")
	}
}

// TestMissingYAML: without its YAML the small checkpoint is taken for the released model, and the error says so.
func TestMissingYAML(t *testing.T) {
	skipIfShort(t)
	documents, err := filepath.Glob(filepath.Join(tiny(t, "checkpoint_official_tiny"), "*.yaml"))
	require.NoError(t, err)
	require.Len(t, documents, 7)
	for _, document := range documents {
		name := filepath.Base(document)
		folder := tiny(t, "checkpoint_official_tiny")
		require.NoError(t, os.Remove(filepath.Join(folder, name)))
		if name == "pipeline.yaml" { // says only how to sample, but for the size of the picture, which fits any encoder
			open(t, folder)
			continue
		}
		err := openError(t, folder)
		require.ErrorContains(t, err, name)
	}
	folder := tiny(t, "checkpoint_official_tiny")
	for _, document := range documents {
		require.NoError(t, os.Remove(filepath.Join(folder, filepath.Base(document))))
	}
	err = openError(t, folder)
	require.ErrorIs(t, err, sam3d.ErrWeights)
	require.ErrorContains(t, err, "there is no pipeline.yaml, no slat_decoder_gs.yaml, ")
}

// TestSwappedDecoders: the light decoder's weights in place of the other's, and more faults at the same time.
func TestSwappedDecoders(t *testing.T) {
	folder := tiny(t, "checkpoint_official_tiny")
	path := func(name string) string { return filepath.Join(folder, name) }
	require.NoError(t, os.Rename(path("slat_decoder_gs.ckpt"), path("swap")))
	require.NoError(t, os.Rename(path("slat_decoder_gs_4.ckpt"), path("slat_decoder_gs.ckpt")))
	require.NoError(t, os.Rename(path("swap"), path("slat_decoder_gs_4.ckpt")))
	require.NoError(t, os.Remove(path("slat_decoder_mesh.ckpt")))
	err := openError(t, folder)
	require.ErrorIs(t, err, sam3d.ErrWeights)
	require.ErrorIs(t, err, weights.ErrMissing)
	for _, what := range []string{"slat_decoder_gs: ", "slat_decoder_gs_4: ", "slat_decoder_mesh.ckpt", "offset_perturbation: shape [4 3], want [32 3]"} {
		require.ErrorContains(t, err, what)
	}
}

func TestDamagedFiles(t *testing.T) {
	skipIfShort(t)
	for _, file := range append(slices.Sorted(maps.Keys(files)), "moge-vitl/model.pt") {
		folder := tiny(t, "checkpoint_official_tiny")
		path := filepath.Join(folder, file)
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, damaged := range [][]byte{{}, []byte("text"), data[:1], data[:len(data)/2], data[:len(data)-1], data[100:], bytes.Repeat(data[:64], 10)} {
			require.NoError(t, os.WriteFile(path, damaged, 0o600))
			err := openError(t, folder)
			require.ErrorIs(t, err, weights.ErrFormat, "%s of %d bytes", file, len(damaged))
			require.ErrorContains(t, err, file)
		}
	}
	for _, document := range []string{"pipeline.yaml", "ss_generator.yaml"} {
		for _, text := range []string{"a: [", "- 1\n- 2", "\x00", strings.Repeat("[", 1<<19), "a: &a [*a]", "&a {b: *a}", strings.Repeat("x", 2<<20),
			"a: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\n" +
				"e: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f]\nh: [*g,*g,*g,*g,*g,*g,*g,*g]"} {
			folder := tiny(t, "checkpoint_official_tiny")
			require.NoError(t, os.WriteFile(filepath.Join(folder, document), []byte(text), 0o600))
			err := openError(t, folder)
			require.ErrorIs(t, err, weights.ErrFormat)
			require.ErrorContains(t, err, document)
			require.Less(t, len(err.Error()), 4000)
		}
	}
}

// TestDepthModel: a depth model that is there must be right, one that cannot be had is a warning.
func TestDepthModel(t *testing.T) {
	skipIfShort(t)
	folder := model(t)
	pipelineFile := filepath.Join(folder, "pipeline.yaml")
	text, err := os.ReadFile(pipelineFile)
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(filepath.Join(folder, "moge-vitl")))
	for _, named := range []string{"owner/name", "moge-vitl/model.pt", "{}", "7", "''", "."} {
		changed := strings.Replace(string(text), "pretrained_model_name_or_path: moge-vitl/model.pt", "pretrained_model_name_or_path: "+named, 1)
		require.NoError(t, os.WriteFile(pipelineFile, []byte(changed), 0o600))
		hub := nowhere
		hub.CacheDir = t.TempDir()
		p, err := sam3d.Open(context.Background(), folder, sam3d.Options{Backend: backendName(), Hub: hub})
		if named == "{}" || named == "7" || named == "''" {
			require.ErrorIs(t, err, weights.ErrFormat)
			continue
		}
		require.NoError(t, err, named)
		r := request(t)
		result, err := p.Generate(context.Background(), r)
		require.NoError(t, err)
		require.Nil(t, result.PointMap)
		require.Len(t, result.Warnings, 1)
		require.Contains(t, result.Warnings[0], "no depth model")
		r.NoDepth = true
		result, err = p.Generate(context.Background(), r)
		require.NoError(t, err)
		require.Empty(t, result.Warnings, "it was asked for")
		require.NoError(t, p.Close())
	}
	for _, outside := range []string{"../other", "/etc/passwd"} {
		changed := strings.Replace(string(text), "pretrained_model_name_or_path: moge-vitl/model.pt", "pretrained_model_name_or_path: "+outside, 1)
		require.NoError(t, os.WriteFile(pipelineFile, []byte(changed), 0o600))
		require.ErrorIs(t, openError(t, folder), weights.ErrFormat)
	}
}

// shard is a safetensors file in parts.
type shard struct {
	entries map[string]shardEntry
	data    []byte
}

type shardEntry struct {
	DType   string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets [2]int `json:"data_offsets"`
}

func readShard(t *testing.T, path string) shard {
	t.Helper()
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	size := binary.LittleEndian.Uint64(file)
	var raw map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(file[8:8+size], &raw))
	s := shard{make(map[string]shardEntry), file[8+size:]}
	for name, text := range raw {
		if name != "__metadata__" {
			var e shardEntry
			require.NoError(t, json.Unmarshal(text, &e))
			s.entries[name] = e
		}
	}
	return s
}

func (s shard) write(t *testing.T, path string) {
	t.Helper()
	header, err := json.Marshal(s.entries)
	require.NoError(t, err)
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	require.NoError(t, os.WriteFile(path, slices.Concat(file, header, s.data), 0o600))
}

// TestWrongTensors changes tensors of the shard that holds a norm of the structure flow.
func TestWrongTensors(t *testing.T) {
	const tensor = "ss_generator.blocks.0.norm2.shape.weight" // [32]
	for name, test := range map[string]struct {
		change  func(s shard, index map[string]string, shardName string)
		mention string
	}{
		"shape": {func(s shard, _ map[string]string, _ string) {
			e := s.entries[tensor]
			e.Shape = []int{4, 8}
			s.entries[tensor] = e
		}, "blocks.0.norm2.shape.weight: shape [4 8], want [32]"},
		"dtype": {func(s shard, _ map[string]string, _ string) {
			e := s.entries[tensor]
			e.DType = "I16"
			s.entries[tensor] = e
		}, "blocks.0.norm2.shape.weight: dtype Int16, want one of"},
		"name": {func(s shard, index map[string]string, shardName string) {
			s.entries["ss_generator.blocks.9.extra"] = s.entries[tensor]
			index["ss_generator.blocks.9.extra"] = shardName
			delete(s.entries, tensor)
			delete(index, tensor)
		}, "1 missing (blocks.0.norm2.shape.weight); 1 unexpected (blocks.9.extra)"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := tiny(t, "checkpoint_mlx_tiny")
			indexFile := filepath.Join(folder, "model.safetensors.index.json")
			text, err := os.ReadFile(indexFile)
			require.NoError(t, err)
			var index struct {
				WeightMap map[string]string `json:"weight_map"`
			}
			require.NoError(t, json.Unmarshal(text, &index))
			path := filepath.Join(folder, index.WeightMap[tensor])
			s := readShard(t, path)
			test.change(s, index.WeightMap, filepath.Base(path))
			s.write(t, path)
			text, err = json.Marshal(index)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(indexFile, text, 0o600))
			err = openError(t, folder)
			require.ErrorIs(t, err, sam3d.ErrWeights)
			require.ErrorContains(t, err, "ss_generator: ")
			require.ErrorContains(t, err, test.mention)
		})
	}
}

// TestOpenOften opens and closes: a pipeline that failed leaves nothing, and one that did not works.
func TestOpenOften(t *testing.T) {
	skipIfShort(t)
	good, bad := model(t), model(t)
	require.NoError(t, os.Remove(filepath.Join(bad, "slat_decoder_mesh.ckpt")))
	for range 3 {
		_ = openError(t, bad)
		p, err := sam3d.Open(context.Background(), good, sam3d.Options{Backend: backendName()})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(good, "unrelated.bin"), []byte("x"), 0o600))
		require.NoError(t, p.Close())
	}
	// The weights are copied: the files may go away.
	p := open(t, good)
	require.NoError(t, os.RemoveAll(good))
	_, err := p.Generate(context.Background(), request(t))
	require.NoError(t, err)
}
