// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flow

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/sparse"
	"github.com/gomlx3d/image3d/weights"
)

// latentTokens is the number of condition tokens of stage 2: four pictures.
const latentTokens = 4 * 1374

// spheres are the radii of hollow spheres of 8,216 and 19,976 voxels on the grid of 64.
var spheres = map[int]float64{8000: 19.3, 20000: 30.5}

// sphere returns the voxels of a hollow sphere.
func sphere(b *testing.B, radius float64) *sparse.Coords {
	var list []sparse.Voxel
	for cell := range int32(64 * 64 * 64) {
		x, y, z := cell>>12, cell>>6&63, cell&63
		r := math.Sqrt(math.Pow(float64(x)-31.5, 2) + math.Pow(float64(y)-31.5, 2) + math.Pow(float64(z)-31.5, 2))
		if math.Abs(r-radius) < 0.855 {
			list = append(list, sparse.Voxel{0, x, y, z})
		}
	}
	coords, err := sparse.New(list, 64)
	require.NoError(b, err)
	return coords
}

// releasedLatent is a model of the released size whose 24 blocks share the weights of one, to take less memory.
func releasedLatent(b *testing.B) *Latent {
	if testing.Short() {
		b.Skip("full size")
	}
	cfg := ReleasedLatent()
	depth := cfg.Blocks
	cfg.Blocks = 1
	l, err := NewLatent(fixture.Backend(b), cfg, weights.NewSet(fixture.RandomWeights(LatentSpec(cfg))))
	require.NoError(b, err)
	b.Cleanup(l.Close)
	l.blocks = slices.Repeat(l.blocks, depth)
	return l
}

// benchmarkLatent evaluates the model once, without the projections of the condition tokens, for some voxels.
func benchmarkLatent(b *testing.B, conditional bool) {
	for _, size := range []int{8000, 20000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			l, coords := releasedLatent(b), sphere(b, spheres[size])
			v, err := l.Voxels(coords)
			require.NoError(b, err)
			defer v.Free()
			x, err := v.Layout.UploadFeatures(l.backend, l.cfg.Noise(1, coords.Layout.Count), l.cfg.Channels)
			require.NoError(b, err)
			defer nn.Free(x)
			var c *Context
			if conditional {
				depth := len(l.blocks)
				l.blocks = l.blocks[:1]
				c, err = l.Condition(b.Context(), randomTokens(latentTokens, l.cfg.CondWidth))
				require.NoError(b, err)
				defer c.Free()
				l.blocks, c.blocks = slices.Repeat(l.blocks, depth), slices.Repeat(c.blocks, depth)
			}
			fixture.Benchmark(b, func() error {
				y, err := l.Velocity(b.Context(), x, []float32{500}, nil, v, c)
				nn.Free(y)
				return err
			})
			b.ReportMetric(float64(coords.Layout.Count), "voxels")
		})
	}
}

func BenchmarkLatentConditional(b *testing.B)   { benchmarkLatent(b, true) }
func BenchmarkLatentUnconditional(b *testing.B) { benchmarkLatent(b, false) }

// BenchmarkLatentContext projects the condition tokens for one block of 24, which is done once an object.
func BenchmarkLatentContext(b *testing.B) {
	l := releasedLatent(b)
	l.blocks = l.blocks[:1]
	tokens := randomTokens(latentTokens, l.cfg.CondWidth)
	fixture.Benchmark(b, func() error {
		c, err := l.Condition(b.Context(), tokens)
		c.Free()
		return err
	})
}
