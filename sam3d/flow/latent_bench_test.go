// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flow

import (
	"math"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/sparse"
)

// benchmarkLatent evaluates a model of the released widths, with one block of 24, for a hollow sphere of about 20,000
// voxels.
func benchmarkLatent(b *testing.B, conditional bool) {
	if testing.Short() {
		b.Skip("full size")
	}
	cfg := ReleasedLatent()
	cfg.Blocks = 1
	l, err := NewLatent(fixture.Backend(b), cfg, randomSet(LatentSpec(cfg)))
	require.NoError(b, err)
	defer l.Close()
	var list []sparse.Voxel
	for cell := range int32(64 * 64 * 64) {
		x, y, z := cell>>12, cell>>6&63, cell&63
		r := math.Sqrt(math.Pow(float64(x)-31.5, 2) + math.Pow(float64(y)-31.5, 2) + math.Pow(float64(z)-31.5, 2))
		if math.Abs(r-30.5) < 0.855 {
			list = append(list, sparse.Voxel{0, x, y, z})
		}
	}
	coords, err := sparse.New(list, 64)
	require.NoError(b, err)
	v, err := l.Voxels(coords)
	require.NoError(b, err)
	defer v.Free()
	x, err := v.Layout.UploadFeatures(fixture.Backend(b), cfg.Noise(1, coords.Layout.Count), cfg.Channels)
	require.NoError(b, err)
	defer nn.Free(x)
	var c *Context
	if conditional {
		const tokens = 5496
		values := make([]float32, tokens*cfg.CondWidth)
		NewNoise(2, LatentStage).Fill(values)
		c, err = l.Condition(b.Context(), tensors.FromFlatDataAndDimensions(values, 1, tokens, cfg.CondWidth))
		require.NoError(b, err)
		defer c.Free()
	}
	evaluate := func() {
		y, err := l.Velocity(b.Context(), x, []float32{500}, nil, v, c)
		require.NoError(b, err)
		nn.Free(y)
	}
	evaluate() // compiles
	for b.Loop() {
		evaluate()
	}
}

func BenchmarkLatentConditional(b *testing.B)   { benchmarkLatent(b, true) }
func BenchmarkLatentUnconditional(b *testing.B) { benchmarkLatent(b, false) }
