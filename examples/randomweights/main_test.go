// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	"os"
	"path/filepath"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/sam3d"
	"github.com/gomlx3d/image3d/weights"
)

// write runs the program for a tiny checkpoint and returns its folder.
func write(t *testing.T, args ...string) string {
	t.Helper()
	out := t.TempDir()
	var messages bytes.Buffer
	status := run(t.Context(), append([]string{"-out", out, "-scale", "tiny", "-voxels", "300", "-backend", "go"}, args...), &messages)
	require.Zero(t, status, messages.String())
	return out
}

// TestGenerate opens what was written in each layout and precision, and makes an object of it.
func TestGenerate(t *testing.T) {
	picture := image.NewNRGBA(image.Rect(0, 0, 64, 48))
	mask := image.NewGray(picture.Bounds())
	for y := range 48 {
		for x := range 64 {
			picture.SetNRGBA(x, y, color.NRGBA{uint8(4 * x), uint8(5 * y), 90, 255})
			if x > 20 && x < 50 && y > 10 && y < 40 {
				mask.SetGray(x, y, color.Gray{255})
			}
		}
	}
	for _, args := range [][]string{
		{"-layout", "official", "-dtype", "float32"}, {"-layout", "official", "-dtype", "bfloat16"}, {"-layout", "mlx", "-dtype", "float16"},
	} {
		t.Run(args[1]+"/"+args[3], func(t *testing.T) {
			p, err := sam3d.Open(t.Context(), write(t, args...), sam3d.Options{Backend: "go"})
			require.NoError(t, err)
			defer p.Close()
			r, err := p.Generate(t.Context(), sam3d.Request{Image: picture, Mask: mask, Steps: 1, LatentSteps: 1,
				Outputs: sam3d.Gaussians | sam3d.Gaussians4 | sam3d.Mesh})
			require.NoError(t, err)
			require.NotEmpty(t, r.Voxels)
			require.NoError(t, r.Gaussians.Validate())
		})
	}
}

// TestRepeatable writes the same bytes twice, and the image encoders as copies of one.
func TestRepeatable(t *testing.T) {
	a, b := write(t), write(t)
	for _, name := range []string{"ss_generator.ckpt", "slat_decoder_mesh.ckpt"} {
		first, err := os.ReadFile(filepath.Join(a, name))
		require.NoError(t, err)
		second, err := os.ReadFile(filepath.Join(b, name))
		require.NoError(t, err)
		require.True(t, bytes.Equal(first, second), name)
	}
	c, err := weights.OpenCheckpoint(a)
	require.NoError(t, err)
	defer c.Close()
	set, err := c.Component(weights.SSConditionEmbedder)
	require.NoError(t, err)
	x, _ := set.Get("module_list.0.backbone.blocks.0.attn.qkv.weight")
	y, _ := set.Get("module_list.1.backbone.blocks.0.attn.qkv.weight")
	require.NotEmpty(t, x.Data)
	require.True(t, bytes.Equal(x.Data, y.Data), "the encoders differ")
}

// TestDepthIsFloat32 keeps the depth model in float32, as it is released, whatever the others are in.
func TestDepthIsFloat32(t *testing.T) {
	depth, err := weights.Open(filepath.Join(write(t, "-dtype", "bfloat16"), "moge-vitl", "model.pt"))
	require.NoError(t, err)
	defer depth.Close()
	require.NotZero(t, depth.Len())
	for _, name := range depth.Names() {
		x, _ := depth.Get(name)
		require.Equal(t, dtypes.Float32, x.DType, name)
	}
}

func TestFailures(t *testing.T) {
	for _, args := range [][]string{
		{}, {"-out", "x", "-dtype", "int8"}, {"-out", "x", "-layout", "zip"}, {"-out", "x", "-voxels", "0"}, {"-out", "x", "-scale", "huge"},
		{"-out", "x", "more"}, {"-unknown"},
	} {
		require.Equal(t, 2, run(t.Context(), args, &bytes.Buffer{}), args)
	}
	require.Zero(t, run(t.Context(), []string{"-h"}, &bytes.Buffer{}))
	out := write(t)
	var messages bytes.Buffer
	require.Equal(t, 1, run(t.Context(), []string{"-out", out, "-scale", "tiny", "-backend", "go"}, &messages))
	require.Contains(t, messages.String(), "exist")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	require.Equal(t, 1, run(ctx, []string{"-out", t.TempDir(), "-scale", "tiny", "-backend", "go"}, &messages))
}
