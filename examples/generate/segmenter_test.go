// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"encoding/json"
	"image"
	"image/color"
	"image/png"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/sam3d/segment"
	"github.com/gomlx3d/image3d/weights"
)

// writeSegmenter writes a small segmenter with random weights that is sure of whatever it sees, or sees nothing, and
// returns its folder.
func writeSegmenter(t *testing.T, sure bool) string {
	t.Helper()
	cfg := segment.SAM3()
	cfg.ImageSize, cfg.PatchSize, cfg.PretrainSize, cfg.WindowSize = 32, 4, 16, 4
	cfg.ViTDim, cfg.ViTDepth, cfg.ViTHeads, cfg.ViTMLP, cfg.GlobalBlocks = 16, 1, 2, 24, nil
	cfg.ModelDim, cfg.Heads, cfg.HeadMLP, cfg.Queries, cfg.MaskChannels = 16, 2, 24, 3, 8
	cfg.EncoderLayers, cfg.DecoderLayers, cfg.GeometryLayers = 1, 1, 1
	cfg.TextDim, cfg.TextHeads, cfg.TextLayers, cfg.TextProjection, cfg.ContextLength = 8, 2, 1, 8, 6
	cfg.VocabularySize, cfg.BeginToken, cfg.EndToken = 514, 512, 513
	random, spec := rand.New(rand.NewPCG(9, 9)), segment.Spec(cfg)
	var entries []weights.Entry
	for _, name := range slices.Sorted(maps.Keys(spec)) {
		shape := spec[name].Shape
		n := 1
		for _, dim := range shape {
			n *= dim
		}
		var data []byte
		for range n {
			v := random.Float32() - 0.5
			if strings.HasSuffix(name, "_proj.bias") && strings.Contains(name, "dot_prod_scoring") || strings.HasSuffix(name, "presence_token_head.layers.2.bias") {
				v = map[bool]float32{true: 9, false: -9}[sure || !strings.Contains(name, "presence")]
			}
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		}
		if !spec[name].Optional {
			entries = append(entries, weights.EntryOf(name, weights.Tensor{DType: dtypes.Float32, Shape: shape, Data: data}))
		}
	}
	folder := t.TempDir()
	require.NoError(t, weights.WriteSafetensors(filepath.Join(folder, "sam3.safetensors"), false, entries))
	sizes, err := json.Marshal(cfg)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "sam3_config.json"), sizes, 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "merges.txt"), []byte("#version\n"), 0o666))
	return folder
}

// TestSegmenter: the object is found by words and by clicks, and its mask is kept beside the result.
func TestSegmenter(t *testing.T) {
	folder := t.TempDir()
	photo := image.NewNRGBA(image.Rect(0, 0, 64, 48))
	for y := range 48 {
		for x := range 64 {
			photo.Set(x, y, color.NRGBA{uint8(4 * x), uint8(5 * y), uint8(x * y), 255})
		}
	}
	path := filepath.Join(folder, "photo.png")
	file, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, png.Encode(file, photo))
	require.NoError(t, file.Close())
	model := writeSegmenter(t, true)
	for name, args := range map[string][]string{
		"words":  {"-text", "the chair"},
		"clicks": {"-point", "30,20", "-point", "33.5, 24"},
	} {
		out := filepath.Join(folder, name)
		status, stdout, stderr := generateIn(t, t.Context(), append(args, "-segmenter", model, "-image", path, "-out", out, "-json",
			"-steps", "1", "-latent-steps", "1", "-formats", "gaussian4")...)
		require.Zero(t, status, stderr)
		require.Contains(t, stderr, "segmented the ")
		var s summary
		require.NoError(t, json.Unmarshal([]byte(stdout), &s))
		require.Equal(t, []string{filepath.Join(out, "gaussians4.ply"), filepath.Join(out, "mask.png"), filepath.Join(out, "pose.json")}, s.Files)
		file, err := os.Open(filepath.Join(out, "mask.png"))
		require.NoError(t, err)
		mask, err := png.Decode(file)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		require.Equal(t, photo.Rect, mask.Bounds())
		status, _, stderr = generateIn(t, t.Context(), append(args, "-segmenter", model, "-image", path, "-out", out, "-formats", "mesh")...)
		require.Equal(t, 1, status)
		require.Contains(t, stderr, "mask.png")
	}
	for expected, args := range map[string][]string{
		`finds no "chair"`:    {"-text", "chair", "-segmenter", writeSegmenter(t, false)},
		"outside the picture": {"-point", "64,49", "-segmenter", model},
		"none of":             {"-point", "6,4", "-segmenter", folder},
	} {
		status, _, stderr := generateIn(t, t.Context(), append(args, "-image", path, "-out", filepath.Join(t.TempDir(), "out"))...)
		require.Equal(t, 1, status, expected)
		require.Contains(t, stderr, expected)
	}
	for expected, args := range map[string][]string{
		"need a -segmenter":  {"-text", "chair"},
		"needs an -image":    {"-segmenter", model, "-text", "chair"},
		"exclude each other": {"-segmenter", model, "-text", "chair", "-image", path, "-mask", path},
		"-text or -point":    {"-segmenter", model, "-image", path},
		"and not both":       {"-segmenter", model, "-image", path, "-text", "chair", "-point", "1,2"},
		`"3" is not x,y`:     {"-point", "3"},
		"invalid syntax":     {"-point", "3,x"},
	} {
		status, _, stderr := generateIn(t, t.Context(), append(args, "-out", filepath.Join(t.TempDir(), "out"))...)
		require.Equal(t, 2, status, expected)
		require.Contains(t, stderr, expected)
	}
}
