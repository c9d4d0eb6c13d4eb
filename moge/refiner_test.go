// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"math"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/imageio"
	"github.com/gomlx3d/image3d/internal/nn"
)

// newTestRefiner is a refiner of random weights.
func newTestRefiner(t testing.TB, cfg RefinerConfig) *refiner {
	t.Helper()
	w, err := randomTensors(cfg.spec()).Upload(fixture.Backend(t))
	require.NoError(t, err)
	r := newRefiner(fixture.Backend(t), cfg)
	r.weights = w
	t.Cleanup(func() {
		r.close()
		nn.Weights(w).Free()
	})
	return r
}

// BenchmarkRefiner runs a round of the released refiner above a grid of 20 x 20 patches, on a slanted bumpy wall.
func BenchmarkRefiner(b *testing.B) {
	const side = 20
	r := newTestRefiner(b, *V3().Refiner)
	points := imageio.NewPlanes(3, 16*side, 16*side)
	features := tensors.FromFlatDataAndDimensions(make([]float32, side*side*1026), 1, side, side, 1026)
	for b.Loop() {
		for y := range points.H {
			for x := range points.W {
				points.Row(2, y)[x] = float32(0.003*float64(x) + 0.1*math.Sin(float64(y)/20) + 0.4*float64(x/40%2))
			}
		}
		require.NoError(b, r.refine(b.Context(), features, points, 1))
	}
}
