// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/qmuntal/gltf"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/examples/internal/scenes"
	"github.com/gomlx3d/image3d/examples/internal/segmenter/tiny"
	"github.com/gomlx3d/image3d/export"
	"github.com/gomlx3d/image3d/internal/fixture"
)

// writeSegmenter writes a small segmenter with random weights and returns its folder.
func writeSegmenter(t *testing.T, kind tiny.Kind) string {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, tiny.Write(folder, kind))
	return folder
}

// writePhoto writes a colourful photograph of 64 x 48 pixels and returns its path.
func writePhoto(t *testing.T, folder string) string {
	t.Helper()
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
	return path
}

// TestSegmenter: the object is found by words and by clicks, and its mask is kept beside the result.
func TestSegmenter(t *testing.T) {
	folder := t.TempDir()
	path := writePhoto(t, folder)
	model := writeSegmenter(t, tiny.Sure)
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
		require.Equal(t, image.Rect(0, 0, 64, 48), mask.Bounds())
		status, _, stderr = generateIn(t, t.Context(), append(args, "-segmenter", model, "-image", path, "-out", out, "-formats", "mesh")...)
		require.Equal(t, 1, status)
		require.Contains(t, stderr, "mask.png")
	}
	for expected, args := range map[string][]string{
		"nothing in the picture fits": {"-text", "chair", "-segmenter", writeSegmenter(t, tiny.Blind)},
		"outside the picture":         {"-point", "64,49", "-segmenter", model},
		"none of":                     {"-point", "6,4", "-segmenter", folder},
	} {
		status, _, stderr := generateIn(t, t.Context(), append(args, "-image", path, "-out", filepath.Join(t.TempDir(), "out"))...)
		require.Equal(t, 1, status, expected)
		require.Contains(t, stderr, expected)
	}
	for expected, args := range map[string][]string{
		"need a -segmenter":  {"-all"},
		"needs an -image":    {"-segmenter", model, "-text", "chair"},
		"exclude each other": {"-segmenter", model, "-text", "chair", "-image", path, "-mask", path},
		"-boxes or -point":   {"-segmenter", model, "-image", path},
		"neither with -text": {"-segmenter", model, "-image", path, "-text", "chair", "-point", "1,2"},
		"an object of its":   {"-segmenter", model, "-image", path, "-all", "-point", "1,2,0"},
		"meshes as glb":      {"-segmenter", model, "-image", path, "-all", "-text", "chair", "-mesh-format", "obj"},
		"-threshold 1 is":    {"-segmenter", model, "-image", path, "-text", "chair", "-threshold", "1"},
		"not 2 and perhaps":  {"-point", "3"},
		"invalid syntax":     {"-point", "3,x"},
	} {
		status, _, stderr := generateIn(t, t.Context(), append(args, "-out", filepath.Join(t.TempDir(), "out"))...)
		require.Equal(t, 2, status, expected)
		require.Contains(t, stderr, expected)
	}
}

// TestAll makes a scene of what words find, goes on after an interrupt, and refuses another prompt in its folder.
func TestAll(t *testing.T) {
	folder := t.TempDir()
	path, model, out := writePhoto(t, folder), writeSegmenter(t, tiny.Sure), filepath.Join(folder, "out")
	args := []string{"-segmenter", model, "-image", path, "-out", out, "-steps", "1", "-latent-steps", "1", "-formats", "gaussian4,mesh", "-json", "-all"}
	words := append(args, "-text", "the cat")
	ctx, cancel := context.WithCancel(t.Context())
	log := &fixture.Watcher{Word: "[2/2] the-cat-2: condition", Then: cancel}
	require.Equal(t, 1, run(ctx, words, log, log))
	require.Contains(t, log.String(), "goes on from here")

	status, stdout, stderr := generateIn(t, t.Context(), words...)
	require.Zero(t, status, stderr)
	require.Contains(t, stderr, "1 of 2 objects are there already")
	require.NotContains(t, stderr, "[1/2]")
	var r scenes.Record
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	require.Equal(t, []string{"scene.ply", "scene.glb"}, r.Files)
	document, err := gltf.Open(filepath.Join(out, "scene.glb"))
	require.NoError(t, err)
	splats := 0
	for i, name := range []string{"the-cat-1", "the-cat-2"} {
		o := r.Objects[i]
		require.Equal(t, []string{name, scenes.Done}, []string{o.Name, o.State})
		require.Equal(t, name, document.Nodes[i].Name)
		mask, err := os.Open(filepath.Join(out, "objects", name, "mask.png"))
		require.NoError(t, err)
		sizes, err := png.DecodeConfig(mask)
		require.NoError(t, err)
		require.NoError(t, mask.Close())
		require.Equal(t, []int{64, 48}, []int{sizes.Width, sizes.Height})
		splats += o.Splats4.Count
	}
	file, err := os.Open(filepath.Join(out, "scene.ply"))
	require.NoError(t, err)
	defer file.Close()
	whole, err := export.ReadPLY(file)
	require.NoError(t, err)
	require.Equal(t, splats, whole.Len())

	status, _, stderr = generateIn(t, t.Context(), append(args, "-text", "a cat")...)
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "-force")
	require.NotContains(t, stderr, "segmented", "it is refused before the segmenter runs")
}

// TestAllPoints makes an object of each point. What finds nothing leaves nothing.
func TestAllPoints(t *testing.T) {
	folder := t.TempDir()
	path, model, out := writePhoto(t, folder), writeSegmenter(t, tiny.Sure), filepath.Join(folder, "out")
	args := []string{"-segmenter", model, "-image", path, "-out", out, "-steps", "1", "-latent-steps", "1", "-formats", "gaussian4", "-all"}
	status, stdout, stderr := generateIn(t, t.Context(), append(args, "-point", "30,20; 10,40", "-point", "50,8")...)
	require.Zero(t, status, stderr)
	for _, name := range []string{"object-1", "object-2", "object-3"} {
		require.Contains(t, stdout, name+": ")
	}
	for text, args := range map[string][]string{
		"nothing in the picture fits": {"-segmenter", writeSegmenter(t, tiny.Blind), "-text", "cat"},
		"outside the picture":         {"-segmenter", model, "-point", "1,1", "-point", "65,1"},
	} {
		out := filepath.Join(t.TempDir(), "out")
		status, _, stderr := generateIn(t, t.Context(), append(args, "-image", path, "-all", "-out", out)...)
		require.Equal(t, 1, status)
		require.Contains(t, stderr, text)
		entries, err := os.ReadDir(out)
		require.NoError(t, err)
		require.Empty(t, entries, "nothing is claimed")
	}
}
