// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/weights"
)

func openCheckpoint(t *testing.T, dir string) *weights.Checkpoint {
	t.Helper()
	checkpoint, err := weights.OpenCheckpoint(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, checkpoint.Close()) })
	return checkpoint
}

func component(t *testing.T, c *weights.Checkpoint, name string) *weights.Set {
	t.Helper()
	set, err := c.Component(name)
	require.NoError(t, err, name)
	return set
}

// equalSets compares names, shapes and values, whatever the precision.
func equalSets(t *testing.T, want, got *weights.Set) {
	t.Helper()
	require.Equal(t, want.Names(), got.Names())
	require.NotZero(t, want.Len())
	for _, name := range want.Names() {
		a, _ := want.Get(name)
		b, _ := got.Get(name)
		require.Equal(t, append([]int{}, a.Shape...), append([]int{}, b.Shape...), name)
		require.Equal(t, float32s(t, a), float32s(t, b), name)
	}
}

func TestLayoutsAgree(t *testing.T) {
	official := openCheckpoint(t, filepath.Join(fixture.Dir(), "checkpoint_official_tiny"))
	mlx := openCheckpoint(t, filepath.Join(fixture.Dir(), "checkpoint_mlx_tiny"))
	require.Equal(t, weights.Official, official.Layout)
	require.Equal(t, weights.MLX, mlx.Layout)
	for _, name := range componentNames {
		require.True(t, official.Has(name), name)
		require.True(t, mlx.Has(name), name)
		if name == weights.Depth {
			continue // another model
		}
		t.Run(name, func(t *testing.T) { equalSets(t, component(t, official, name), component(t, mlx, name)) })
	}
	t.Run("depth", func(t *testing.T) {
		moge3, err := weights.Open(filepath.Join(official.Dir, "moge-3", "model.pt"))
		require.NoError(t, err)
		defer moge3.Close()
		depth := component(t, mlx, weights.Depth)
		equalSets(t, moge3, depth)
		require.NoError(t, moge3.Verify())
		require.Equal(t, mlx.Config["depth_model"], any(depth.ModelConfig))
		require.NotEmpty(t, moge3.ModelConfig)
	})
}

func TestOfficialCheckpoint(t *testing.T) {
	c := openCheckpoint(t, filepath.Join(fixture.Dir(), "checkpoint_official_tiny"))
	require.Nil(t, c.Config)
	require.EqualValues(t, 3, c.YAML["pipeline"]["ss_inference_steps"])
	for _, tree := range []string{"ss_generator", "slat_generator"} {
		module := c.YAML[tree]["module"].(map[string]any)
		generator := module["generator"].(map[string]any)["backbone"].(map[string]any)
		require.Contains(t, generator["_target_"], "sam3d_objects.model.backbone.generator")
	}
	require.EqualValues(t, 4, c.YAML["slat_decoder_gs_4"]["representation_config"].(map[string]any)["num_gaussians"])

	// One file, two components; the copy of the decoder is dropped.
	generator, embedder := component(t, c, weights.SSGenerator), component(t, c, weights.SSConditionEmbedder)
	require.Equal(t, 215, generator.Len()+embedder.Len())
	_, ok := generator.Get("latent_mapping.shape.pos_emb")
	require.True(t, ok)
	for _, name := range componentNames {
		require.NoError(t, component(t, c, name).Verify(), name)
	}

	gs, err := weights.Open(filepath.Join(c.Dir, "slat_decoder_gs.ckpt"))
	require.NoError(t, err)
	defer gs.Close()
	half, _ := gs.Get("blocks.0.attn.to_qkv.weight")
	require.Equal(t, dtypes.Float16, half.DType)

	config := component(t, c, weights.Depth).ModelConfig
	require.NotEmpty(t, config)
	_, err = json.Marshal(config) // plain values only
	require.NoError(t, err)
}

func TestLegacyEqualsZip(t *testing.T) {
	dir := filepath.Join(fixture.Dir(), "checkpoint_official_tiny")
	legacy, err := weights.Open(filepath.Join(dir, "legacy", "slat_decoder_mesh.ckpt"))
	require.NoError(t, err)
	defer legacy.Close()
	archive, err := weights.Open(filepath.Join(dir, "slat_decoder_mesh.ckpt"))
	require.NoError(t, err)
	defer archive.Close()
	equalSets(t, archive, legacy)
}

// manifestTensor is a line of the inventory of the released bundle.
type manifestTensor struct {
	Name          string `json:"name"`
	Shape         []int  `json:"shape"`
	OfficialFile  string `json:"official_file"`
	OfficialName  string `json:"official_name"`
	OfficialShape []int  `json:"official_shape"`
}

// TestReleasedNames builds a bundle with the tensors of the released one, without their bytes, and compares the names
// and shapes that it gives with those of the official files.
func TestReleasedNames(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(fixture.Dir(), "..", "manifest", "mlx_bundle.json"))
	if err != nil {
		t.Skip("the inventory of the released bundle is not beside the reference cases:", err)
	}
	var manifest struct {
		Tensors      []manifestTensor `json:"tensors"`
		OfficialOnly []manifestTensor `json:"official_only"`
	}
	require.NoError(t, json.Unmarshal(text, &manifest))
	require.Len(t, manifest.Tensors, 3288+607)
	require.Len(t, manifest.OfficialOnly, 74)

	bundle := make(map[string][]int)
	official := make(map[string]map[string][]int) // by file
	for _, tensor := range append(manifest.Tensors, manifest.OfficialOnly...) {
		if tensor.Name != "" {
			bundle[tensor.Name] = tensor.Shape
		}
		file := strings.Fields(tensor.OfficialFile)[0]
		if file == "MoGe-3" {
			file = "moge-vitl/model.pt"
		}
		if official[file] == nil {
			official[file] = make(map[string][]int)
		}
		official[file][tensor.OfficialName] = tensor.OfficialShape
	}
	dir := t.TempDir()
	writeBundle(t, filepath.Join(dir, "mlx"), map[string]map[string][]int{"a.safetensors": bundle},
		`{"depth_model": {"model_type": "moge3"}}`)
	for file, tensors := range official {
		writeSparse(t, filepath.Join(dir, "official", file), tensors)
	}
	mlx, original := openCheckpoint(t, filepath.Join(dir, "mlx")), openCheckpoint(t, filepath.Join(dir, "official"))
	total := 0
	for _, name := range componentNames {
		want, got := component(t, original, name), component(t, mlx, name)
		require.NoError(t, got.Check(specOf(t, original, name, official)), name)
		require.Equal(t, want.Names(), got.Names(), name)
		total += got.Len()
	}
	require.Equal(t, len(manifest.Tensors), total)
}

// specOf is the Spec of a component according to the inventory of the official files.
func specOf(t *testing.T, original *weights.Checkpoint, name string,
	official map[string]map[string][]int) weights.Spec {
	t.Helper()
	prefix := map[string]string{
		weights.SSConditionEmbedder:   "_base_models.condition_embedder.",
		weights.SLATConditionEmbedder: "_base_models.condition_embedder.",
		weights.SSGenerator:           "_base_models.generator.reverse_fn.backbone.",
		weights.SLATGenerator:         "_base_models.generator.reverse_fn.backbone.",
	}[name]
	file := map[string]string{
		weights.SSConditionEmbedder: "ss_generator.ckpt", weights.SLATConditionEmbedder: "slat_generator.ckpt",
		weights.Depth: "moge-vitl/model.pt",
	}[name]
	if file == "" {
		file = name + ".ckpt"
	}
	spec := make(weights.Spec)
	for _, tensor := range component(t, original, name).Names() {
		shape, ok := official[file][prefix+tensor]
		require.True(t, ok, tensor)
		spec[tensor] = weights.Param{Shape: shape}
	}
	return spec
}

func TestConcurrentComponents(t *testing.T) {
	c := openCheckpoint(t, filepath.Join(fixture.Dir(), "checkpoint_official_tiny"))
	var group sync.WaitGroup
	for range 4 {
		for _, name := range componentNames {
			group.Go(func() {
				if set, err := c.Component(name); err != nil || set.Len() == 0 || !c.Has(name) || set.Verify() != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
	}
	group.Wait()
}

func TestCheckpointClosed(t *testing.T) {
	c, err := weights.OpenCheckpoint(filepath.Join(fixture.Dir(), "checkpoint_mlx_tiny"))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	_, err = c.Component(weights.SSDecoder)
	require.Error(t, err)
}

func TestFolderFaults(t *testing.T) {
	state := map[string][]int{"x": {1}}
	generator := map[string][]int{
		"_base_models.generator.reverse_fn.backbone.x": {1}, "_base_models.condition_embedder.y": {2},
	}
	alone := map[string][]int{"_base_models.generator.reverse_fn.backbone.x": {1}}
	open := func(t *testing.T, name string, files map[string]any) error {
		c, err := weights.OpenCheckpoint(writeFolder(t, files))
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Component(name)
		return err
	}
	pipeline := func(line string) map[string]any {
		return map[string]any{"pipeline.yaml": line, "ss_decoder.ckpt": state}
	}
	generator["optimizer.z"] = []int{1}
	// bundle is a folder with an index and perhaps a shard "s.safetensors" with one tensor.
	bundle := func(config, index, tensor string) map[string]any {
		files := map[string]any{"config.json": config, "model.safetensors.index.json": `{"weight_map": ` + index + `}`}
		if tensor != "" {
			files["s.safetensors"] = map[string][]int{tensor: {1}}
		}
		return files
	}
	for _, c := range []struct {
		name, component string
		files           map[string]any
		kind            error
		words           string
	}{
		{"empty folder", weights.Depth, nil, weights.ErrMissing, "holds neither"},
		{"no such component", "sofa", pipeline(""), nil, "no component"},
		{"missing file", weights.SSGenerator, pipeline(""), weights.ErrMissing, "ss_generator.ckpt not found in"},
		{"missing depth", weights.Depth, pipeline(""), weights.ErrMissing, "moge-vitl/model.pt"},
		{"yaml is a list", weights.SSDecoder, pipeline("- a\n"), weights.ErrFormat, "invalid YAML"},
		{"yaml is broken", weights.SSDecoder, pipeline("a: [\n"), weights.ErrFormat, "invalid YAML"},
		{"yaml is huge", weights.SSDecoder, pipeline(strings.Repeat("#", 2<<20)), weights.ErrFormat, "too many"},
		{"yaml is an alias bomb", weights.SSDecoder, pipeline(aliasBomb()), weights.ErrFormat, "invalid YAML"},
		{"yaml leaves the folder", weights.SSDecoder, pipeline("ss_decoder_ckpt_path: ../ss_decoder.ckpt\n"),
			weights.ErrFormat, "stay inside"},
		{"yaml names a root", weights.SSDecoder, pipeline("slat_generator_config_path: /etc/passwd\n"),
			weights.ErrFormat, "stay inside"},
		{"yaml names no string", weights.SSDecoder, pipeline("ss_decoder_ckpt_path: [1]\n"),
			weights.ErrFormat, "not a file name"},
		{"depth leaves the folder", weights.Depth,
			pipeline("depth_model: {model: {pretrained_model_name_or_path: ../../m}}\n"),
			weights.ErrFormat, "stay inside"},
		{"stray tensor in generator", weights.SSGenerator, map[string]any{"ss_generator.ckpt": generator},
			weights.ErrMismatch, "optimizer.z"},
		{"generator without embedder", weights.SSGenerator, map[string]any{"ss_generator.ckpt": alone},
			weights.ErrMismatch, "_base_models.condition_embedder.*"},
		{"bundle without config", weights.Depth, map[string]any{"model.safetensors.index.json": `{"weight_map": {}}`},
			weights.ErrMissing, "config.json not found"},
		{"bundle without tensors", weights.Depth, bundle("{}", `{}`, ""), weights.ErrMismatch, "ss_generator.*"},
		{"index maps to a number", weights.Depth, bundle("{}", `{"a": 1}`, ""),
			weights.ErrFormat, "invalid model.safetensors.index.json"},
		{"index names a tensor twice", weights.Depth, bundle("{}", `{"a": "x", "a": "y"}`, ""),
			weights.ErrFormat, "duplicate"},
		{"index names the folder", weights.Depth, bundle("{}", `{"a": "."}`, ""),
			weights.ErrFormat, "plain file names"},
		{"index names another tensor", weights.SSDecoder, bundle("{}", `{"ss_decoder.b": "s.safetensors"}`, "ss_decoder.a"),
			weights.ErrMismatch, "1 missing (ss_decoder.b in s.safetensors); 1 unexpected (ss_decoder.a in s.safetensors)"},
		{"depth without configuration", weights.Depth,
			bundle(`{"depth_model": null}`, `{"depth_model.a": "s.safetensors"}`, "depth_model.a"),
			weights.ErrFormat, "no configuration"},
		{"bundle without the component", weights.SSGenerator,
			bundle("{}", `{"ss_decoder.a": "s.safetensors"}`, "ss_decoder.a"),
			weights.ErrMissing, "ss_generator.*"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := open(t, c.component, c.files)
			require.ErrorContains(t, err, c.words)
			if c.kind != nil {
				require.ErrorIs(t, err, c.kind)
			}
		})
	}
}

// aliasBomb is a small YAML file whose value is huge.
func aliasBomb() string {
	text := "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := range 9 {
		was, is := string(rune('0'+i)), string(rune('1'+i))
		text += "a" + is + ": &a" + is + " [" + strings.Repeat("*a"+was+",", 9) + "*a" + was + "]\n"
	}
	return text
}

func TestFolderVariants(t *testing.T) {
	state := map[string][]int{"x": {1}}
	// Below checkpoints/, without YAML, in another format.
	c := openCheckpoint(t, writeFolder(t, map[string]any{"checkpoints/ss_decoder.safetensors": state, "README.md": "#"}))
	require.Equal(t, 1, component(t, c, weights.SSDecoder).Len())
	require.Nil(t, c.YAML["pipeline"])
	require.Equal(t, "checkpoints", filepath.Base(c.Dir))
	require.False(t, c.Has(weights.SSGenerator))

	// Names that pipeline.yaml gives; a depth model that it names as a repository.
	c = openCheckpoint(t, writeFolder(t, map[string]any{
		"pipeline.yaml": "ss_decoder_ckpt_path: sub/d.ckpt\nss_decoder_config_path: sub/d.yaml\n" +
			"depth_model: {model: {pretrained_model_name_or_path: Owner/moge-x}}\n",
		"sub/d.ckpt": state, "sub/d.yaml": "out_channels: 7\n", "ss_decoder.ckpt": map[string][]int{"other": {1}},
		"moge-x/model.pt": state, "moge-vitl/model.pt": map[string][]int{"other": {1}},
	}))
	require.Equal(t, []string{"x"}, component(t, c, weights.SSDecoder).Names())
	require.Equal(t, []string{"x"}, component(t, c, weights.Depth).Names())
	require.EqualValues(t, 7, c.YAML["ss_decoder"]["out_channels"])
}
