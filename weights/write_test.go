// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/weights"
)

// toWrite are tensors of several dtypes and shapes, one of them without elements and one a scalar.
func toWrite() map[string]weights.Tensor {
	rng := rand.New(rand.NewPCG(1, 2))
	out := make(map[string]weights.Tensor)
	for name, t := range map[string]weights.Tensor{
		"a.weight": {DType: dtypes.Float32, Shape: []int{3, 5}}, "b": {DType: dtypes.BFloat16, Shape: []int{7}},
		"c": {DType: dtypes.Float16, Shape: []int{2, 1, 3}}, "d é": {DType: dtypes.Uint8, Shape: []int{129}},
		"scalar": {DType: dtypes.Float64}, "empty": {DType: dtypes.Int64, Shape: []int{0, 4}},
		"flag": {DType: dtypes.Bool, Shape: []int{1}},
	} {
		size := t.DType.Size()
		for _, dim := range t.Shape {
			size *= dim
		}
		t.Data = make([]byte, size)
		for i := range t.Data {
			t.Data[i] = byte(rng.UintN(2))
		}
		out[name] = t
	}
	return out
}

func entriesOf(tensors map[string]weights.Tensor) []weights.Entry {
	var entries []weights.Entry
	for name, t := range tensors {
		entries = append(entries, weights.EntryOf(name, t))
	}
	return entries
}

// requireSame compares the tensors of a file with those that were written.
func requireSame(t *testing.T, want map[string]weights.Tensor, set *weights.Set) {
	t.Helper()
	require.Equal(t, len(want), set.Len())
	require.NoError(t, set.Verify())
	for name, w := range want {
		got, ok := set.Get(name)
		require.True(t, ok, name)
		require.Equal(t, w.DType, got.DType, name)
		require.Equal(t, append([]int{}, w.Shape...), append([]int{}, got.Shape...), name)
		require.True(t, bytes.Equal(w.Data, got.Data), name)
	}
}

func TestWriteSafetensors(t *testing.T) {
	want, path := toWrite(), filepath.Join(t.TempDir(), "w.safetensors")
	require.NoError(t, weights.WriteSafetensors(path, false, entriesOf(want)))
	set, err := weights.OpenSafetensors(path)
	require.NoError(t, err)
	defer set.Close()
	requireSame(t, want, set)
	first, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, weights.WriteSafetensors(path, true, entriesOf(want)))
	second, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(first, second), "files of the same tensors differ")
}

func TestWriteTorch(t *testing.T) {
	config := map[string]any{"name": "vit", "list": []any{int64(1), 2.5, nil, true, false}, "big": int64(-1) << 40,
		"sub": map[string]any{"x": int64(-7)}}
	for _, object := range []weights.TorchObject{{}, {Key: "state_dict"}, {Key: "model", Config: config}, {Key: "model"}} {
		t.Run(object.Key, func(t *testing.T) {
			want, path := toWrite(), filepath.Join(t.TempDir(), "w.ckpt")
			require.NoError(t, weights.WriteTorch(path, false, object, entriesOf(want)))
			set, err := weights.OpenTorch(path)
			require.NoError(t, err)
			defer set.Close()
			requireSame(t, want, set)
			require.Equal(t, object.Config, set.ModelConfig)
			requireAligned(t, path)
		})
	}
}

// requireAligned checks that the entries are stored, and start at multiples of 64 bytes.
func requireAligned(t *testing.T, path string) {
	t.Helper()
	r, err := zip.OpenReader(path)
	require.NoError(t, err)
	defer r.Close()
	for _, f := range r.File {
		offset, err := f.DataOffset()
		require.NoError(t, err)
		require.Zero(t, offset%64, f.Name)
		require.Equal(t, zip.Store, f.Method)
		content, err := f.Open()
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, content) // compares the checksum
		require.NoError(t, err)
	}
}

// TestWriteFailures leaves no file, and the one that was there as it was.
func TestWriteFailures(t *testing.T) {
	good := weights.EntryOf("w", weights.Tensor{DType: dtypes.Uint8, Shape: []int{2}, Data: []byte{1, 2}})
	broken := errors.New("broken")
	failing, short, negative, nothing, odd := good, good, good, good, good
	failing.Write = func(io.Writer) error { return broken }
	short.Shape = []int{3}
	negative.Shape = []int{-1, -2}
	nothing.Write = nil
	odd.DType = dtypes.Complex128
	for name, entries := range map[string][]weights.Entry{
		"failing": {failing}, "short": {short}, "negative": {negative}, "nothing": {nothing}, "twice": {good, good},
		"dtype": {odd},
	} {
		for format, write := range writers {
			t.Run(name+"/"+format, func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "w")
				require.Error(t, write(path, entries))
				left, err := os.ReadDir(dir)
				require.NoError(t, err)
				require.Empty(t, left)

				require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
				require.Error(t, write(path, entries))
				kept, err := os.ReadFile(path)
				require.NoError(t, err)
				require.Equal(t, "old", string(kept))
			})
		}
	}
	path := filepath.Join(t.TempDir(), "w")
	require.ErrorIs(t, weights.WriteSafetensors(path, true, []weights.Entry{failing}), broken)
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.ErrorIs(t, weights.WriteSafetensors(path, false, []weights.Entry{good}), fs.ErrExist)
	require.Error(t, weights.WriteTorch(path, true, weights.TorchObject{Config: map[string]any{}}, nil))
	require.Error(t, weights.WriteTorch(path, true, weights.TorchObject{Key: "model", Config: map[string]any{"f": t}}, nil))
}

var writers = map[string]func(path string, entries []weights.Entry) error{
	"safetensors": func(path string, entries []weights.Entry) error {
		return weights.WriteSafetensors(path, true, entries)
	},
	"torch": func(path string, entries []weights.Entry) error {
		return weights.WriteTorch(path, true, weights.TorchObject{}, entries)
	},
}
