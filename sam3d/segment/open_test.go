// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"context"
	"encoding/json"
	"image"
	"os"
	"path/filepath"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/weights"
)

// writeCase writes the parameters of a case to a file of the given name, changed by change.
func writeCase(t *testing.T, c *fixture.Case, name string, change func(weights.Tensor) weights.Tensor) string {
	t.Helper()
	params := paramsOf(c)
	for _, block := range []string{"0", "1"} { // as in released files
		params[trunkPrefix+"blocks."+block+".attn.freqs_cis"] = weights.Tensor{
			DType: dtypes.Complex64, Shape: []int{2, 3}, Data: make([]byte, 8*2*3),
		}
	}
	var entries []weights.Entry
	for name, p := range params {
		if p.DType == dtypes.Float32 {
			p = change(p)
		}
		entries = append(entries, weights.EntryOf(name, p))
	}
	path := filepath.Join(t.TempDir(), name)
	if filepath.Ext(name) == ".pt" {
		require.NoError(t, weights.WriteTorch(path, false, weights.TorchObject{Key: "model"}, entries))
	} else {
		require.NoError(t, weights.WriteSafetensors(path, false, entries))
	}
	return path
}

// rounded cuts float32 values to bfloat16.
func rounded(p weights.Tensor) weights.Tensor {
	cut := make([]byte, 0, len(p.Data)/2)
	for i := 0; i < len(p.Data); i += 4 {
		cut = append(cut, p.Data[i+2], p.Data[i+3])
	}
	return weights.Tensor{DType: dtypes.BFloat16, Shape: p.Shape, Data: cut}
}

// TestFiles reads files as they are released and converted: the answers are those of the case's own weights.
func TestFiles(t *testing.T) {
	requireCases(t)
	c := fixture.Load(t, "sam3", "interactive_a")
	same := func(p weights.Tensor) weights.Tensor { return p }
	for name, test := range map[string]struct {
		file   string
		change func(weights.Tensor) weights.Tensor
		dtype  dtypes.DType
		within float64
	}{
		"PyTorch":              {"sam3.1_multiplex.pt", same, dtypes.Float32, 0},
		"safetensors":          {"model.safetensors", same, dtypes.Float32, 0},
		"safetensors bfloat16": {"model.safetensors", rounded, dtypes.BFloat16, 0.2},
	} {
		t.Run(name, func(t *testing.T) {
			path := writeCase(t, c, test.file, test.change)
			found, err := checkpointFile(t.Context(), filepath.Dir(path), weights.HubOptions{})
			require.NoError(t, err)
			require.Equal(t, path, found)
			set, err := weights.Open(path)
			require.NoError(t, err)
			defer set.Close()
			released, err := Released(set)
			require.NoError(t, err)
			require.Equal(t, MetaSAM31, released.Layout)
			require.True(t, released.Interactive && !released.Grounding)
			model, err := New(fixture.Backend(t), configOf(t, c), set)
			require.NoError(t, err)
			defer model.Close()
			for name, w := range model.weights {
				require.Equal(t, test.dtype, w.DType(), name)
			}
			prompt := ClickPrompt{Points: []Point{{X: 3, Y: 9, Label: Foreground}}, All: true}
			got, err := encodeRandom(t, model, 40, 40).Click(t.Context(), prompt)
			require.NoError(t, err)
			want, err := encodeRandom(t, modelOf(t, c), 40, 40).Click(t.Context(), prompt)
			require.NoError(t, err)
			for i := range want {
				require.InDelta(t, want[i].Score, got[i].Score, test.within)
				require.InDeltaSlice(t, want[i].Logits.Values, got[i].Logits.Values, 4*test.within)
			}

			// The released network is larger.
			_, err = Open(t.Context(), fixture.Backend(t), path, weights.HubOptions{})
			require.ErrorIs(t, err, weights.ErrMismatch)
			require.ErrorContains(t, err, path)
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(t.Context(), fixture.Backend(t), filepath.Join(dir, "none"), weights.HubOptions{})
	require.ErrorIs(t, err, weights.ErrMissing)
	_, err = Open(t.Context(), fixture.Backend(t), dir, weights.HubOptions{})
	require.ErrorIs(t, err, weights.ErrMissing)
	other := filepath.Join(dir, "sam3.pt")
	require.NoError(t, os.WriteFile(other, []byte("hello"), 0o600))
	_, err = Open(t.Context(), fixture.Backend(t), dir, weights.HubOptions{})
	require.ErrorIs(t, err, weights.ErrFormat)
	require.NoError(t, weights.WriteSafetensors(other, true, []weights.Entry{
		weights.EntryOf("head.weight", weights.Tensor{DType: dtypes.Float32, Shape: []int{1}, Data: make([]byte, 4)}),
	}))
	_, err = Open(t.Context(), fixture.Backend(t), other, weights.HubOptions{})
	require.ErrorIs(t, err, ErrConfig)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Open(ctx, fixture.Backend(t), "facebook/sam3", weights.HubOptions{})
	require.ErrorIs(t, err, context.Canceled)
}

func TestTransformersEpsilon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	epsilon, err := transformersEpsilon(path)
	require.NoError(t, err)
	require.Equal(t, 1e-6, epsilon)
	for text, want := range map[string]float64{
		`{"vision_config": {"backbone_config": {"layer_norm_eps": 1e-5}}}`:                      1e-5,
		`{"detector_config": {"vision_config": {"backbone_config": {"layer_norm_eps": 1e-4}}}}`: 1e-4,
		`{"layer_norm_eps": 1}`: 1e-6,
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		epsilon, err := transformersEpsilon(path)
		require.NoError(t, err)
		require.Equal(t, want, epsilon, text)
	}
	for _, text := range []string{"", "[", `{"vision_config": 3}`} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := transformersEpsilon(path)
		require.ErrorIs(t, err, ErrConfig, text)
	}
	_, err = transformersEpsilon(filepath.Dir(path))
	require.ErrorIs(t, err, ErrConfig)
}

// TestOpenOtherSizes opens a small network, whose sizes and vocabulary lie beside it.
func TestOpenOtherSizes(t *testing.T) {
	cfg := smallGrounding()
	cfg.Interactive = true
	set := randomSet(cfg, 3)
	var entries []weights.Entry
	for _, name := range set.Names() {
		p, _ := set.Get(name)
		entries = append(entries, weights.EntryOf(name, p))
	}
	dir := t.TempDir()
	require.NoError(t, weights.WriteSafetensors(filepath.Join(dir, "sam3.safetensors"), false, entries))
	_, err := Open(t.Context(), fixture.Backend(t), dir, weights.HubOptions{})
	require.ErrorIs(t, err, weights.ErrMismatch)
	sizes := filepath.Join(dir, sizesFile)
	for _, text := range []string{"{", `{"vit_dimension": 3}`, `{"vit_dim": 3}`} {
		require.NoError(t, os.WriteFile(sizes, []byte(text), 0o600))
		_, err = Open(t.Context(), fixture.Backend(t), dir, weights.HubOptions{})
		require.ErrorIs(t, err, ErrConfig, text)
	}
	data, err := json.Marshal(cfg)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(sizes, data, 0o600))

	ask := func() error {
		model, err := Open(t.Context(), fixture.Backend(t), dir, weights.HubOptions{})
		require.NoError(t, err)
		defer model.Close()
		require.Equal(t, cfg, model.Config())
		encoding, err := model.Encode(t.Context(), image.NewGray(image.Rect(0, 0, 9, 7)))
		require.NoError(t, err)
		defer encoding.Close()
		_, err = encoding.Click(t.Context(), ClickPrompt{Points: []Point{{X: 1, Y: 1, Label: Foreground}}})
		require.NoError(t, err, "clicks need no vocabulary")
		_, err = encoding.Segment(t.Context(), Prompt{Text: "cat"})
		return err
	}
	err = ask()
	require.ErrorIs(t, err, ErrVocabulary)
	require.ErrorContains(t, err, dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "merges.txt"), []byte(smallMerges), 0o600))
	require.NoError(t, ask())
}
