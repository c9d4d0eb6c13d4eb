// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights_test

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/dtypes/float16"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/weights"
)

var componentNames = []string{weights.SSGenerator, weights.SSConditionEmbedder, weights.SLATGenerator,
	weights.SLATConditionEmbedder, weights.SSDecoder, weights.SLATDecoderGS, weights.SLATDecoderGS4,
	weights.SLATDecoderMesh, weights.Depth}

// float32s returns the values of a tensor of floats.
func float32s(t *testing.T, w weights.Tensor) []float32 {
	t.Helper()
	local, err := tensors.FromRaw(nil, 0, shapes.Make(w.DType, w.Shape...), w.Data)
	require.NoError(t, err)
	out := make([]float32, 0, local.Size())
	local.MustConstFlatData(func(flat any) {
		switch flat := flat.(type) {
		case []float32:
			out = append(out, flat...)
		case []float16.Float16:
			for _, v := range flat {
				out = append(out, v.Float32())
			}
		case []bfloat16.BFloat16:
			for _, v := range flat {
				out = append(out, v.Float32())
			}
		default:
			require.Fail(t, "not floats", "%T", flat)
		}
	})
	return out
}

// writeFolder makes a folder of texts (string) and of weight files in safetensors form, whatever their names (shapes of
// tensors that are all zero).
func writeFolder(t *testing.T, files map[string]any) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if tensors, ok := content.(map[string][]int); ok {
			writeSparse(t, path, tensors)
			continue
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content.(string)), 0o644))
	}
	return dir
}

// writeSparse writes a safetensors file of bfloat16 zeros that takes no space on the disk.
func writeSparse(t *testing.T, path string, tensors map[string][]int) {
	t.Helper()
	type entry struct {
		DType   string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets []int  `json:"data_offsets"`
	}
	header, end := make(map[string]entry), 0
	for name, shape := range tensors {
		size := 2
		for _, dim := range shape {
			size *= dim
		}
		header[name] = entry{"BF16", append([]int{}, shape...), []int{end, end + size}}
		end += size
	}
	text, err := json.Marshal(header)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	require.NoError(t, os.WriteFile(path, file, 0o644))
	require.NoError(t, os.Truncate(path, int64(8+len(text)+end)))
}

// writeBundle writes an MLX bundle of zeros.
func writeBundle(t *testing.T, dir string, shards map[string]map[string][]int, config string) {
	t.Helper()
	index := map[string]map[string]string{"weight_map": {}}
	for shard, tensors := range shards {
		writeSparse(t, filepath.Join(dir, shard), tensors)
		for name := range tensors {
			index["weight_map"][name] = shard
		}
	}
	text, err := json.Marshal(index)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "model.safetensors.index.json"), text, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o644))
}
