// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/weights"
)

// clicksOnly returns the released network with the interactive head alone, of some blocks.
func clicksOnly(b *testing.B, depth int, global ...int) *Model {
	b.Helper()
	cfg := SAM3()
	cfg.Grounding, cfg.ViTDepth, cfg.GlobalBlocks = false, depth, global
	return fullSize(b, cfg)
}

// fullSize returns a network of random weights in float32.
func fullSize(b *testing.B, cfg Config) *Model {
	b.Helper()
	if testing.Short() {
		b.Skip("full size")
	}
	model, err := New(fixture.Backend(b), cfg, weights.NewSet(fixture.RandomWeights(Spec(cfg))))
	require.NoError(b, err)
	b.Cleanup(model.Close)
	return model
}

// benchmarkTrunk encodes a picture of the full size, without the necks.
func benchmarkTrunk(b *testing.B, depth int, global ...int) {
	model := clicksOnly(b, depth, global...)
	input := tensors.FromShape(shapes.Make(dtypes.Float32, 1, 3, model.cfg.ImageSize, model.cfg.ImageSize))
	fixture.Benchmark(b, func() error {
		features, err := model.vision.trunk(b.Context(), input)
		nn.Free(features)
		return err
	})
}

func BenchmarkTrunk(b *testing.B)            { benchmarkTrunk(b, 32, 7, 15, 23, 31) }
func BenchmarkTrunkWindowBlock(b *testing.B) { benchmarkTrunk(b, 1) }
func BenchmarkTrunkGlobalBlock(b *testing.B) { benchmarkTrunk(b, 1, 0) }

// BenchmarkEncode makes what clicks need of a picture: the image encoder and one of its necks.
func BenchmarkEncode(b *testing.B) {
	model := clicksOnly(b, 32, 7, 15, 23, 31)
	input := tensors.FromShape(shapes.Make(dtypes.Float32, 1, 3, model.cfg.ImageSize, model.cfg.ImageSize))
	fixture.Benchmark(b, func() error {
		encoding, err := model.encode(b.Context(), input)
		if err == nil {
			encoding.Close()
		}
		return err
	})
}

// BenchmarkNeck makes the feature maps of a head and what clicks need of them.
func BenchmarkNeck(b *testing.B) {
	model := clicksOnly(b, 1)
	grid := model.cfg.grid()
	features := tensors.FromShape(shapes.Make(dtypes.Float32, 1, grid, grid, model.cfg.ViTDim))
	neck := func() {
		levels, err := model.vision.neck(b.Context(), interactiveNeck, features)
		require.NoError(b, err)
		defer nn.Free(levels...)
		clicks, err := model.interactive.features(levels)
		require.NoError(b, err)
		clicks.free()
	}
	neck()
	for b.Loop() {
		neck()
	}
}

// BenchmarkClick asks for the object under a point, the picture being encoded.
func BenchmarkClick(b *testing.B) {
	model := clicksOnly(b, 1)
	input := tensors.FromShape(shapes.Make(dtypes.Float32, 1, 3, model.cfg.ImageSize, model.cfg.ImageSize))
	encoding, err := model.encode(b.Context(), input)
	require.NoError(b, err)
	defer encoding.Close()
	encoding.Width, encoding.Height = 1920, 1080
	click := func() {
		_, err := encoding.Click(b.Context(), ClickPrompt{Points: []Point{{X: 500, Y: 300, Label: Foreground}}})
		require.NoError(b, err)
	}
	click()
	for b.Loop() {
		click()
	}
}
