// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package decoder

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/sparse"
)

// shell is a hollow sphere of about 8,000 voxels on the grid of 64, with random latents of eight channels.
func shell(tb testing.TB) (*sparse.Coords, []float32) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("full size")
	}
	var voxels []sparse.Voxel
	for cell := range int32(64 * 64 * 64) {
		x, y, z := cell>>12, cell>>6&63, cell&63
		r := math.Sqrt(math.Pow(float64(x)-31.5, 2) + math.Pow(float64(y)-31.5, 2) + math.Pow(float64(z)-31.5, 2))
		if math.Abs(r-19.3) < 0.855 {
			voxels = append(voxels, sparse.Voxel{0, x, y, z})
		}
	}
	coords, err := sparse.New(voxels, 64)
	require.NoError(tb, err)
	latents, rng := make([]float32, 8*len(voxels)), rand.New(rand.NewPCG(5, 6))
	for i := range latents {
		latents[i] = float32(rng.NormFloat64())
	}
	return coords, latents
}

// benchDecoder reports the first call, which compiles, apart from the others.
func benchDecoder(b *testing.B, voxels int, decode func() error) {
	b.Helper()
	start := time.Now()
	require.NoError(b, decode())
	first := time.Since(start)
	for b.Loop() {
		require.NoError(b, decode())
	}
	b.ReportMetric(float64(voxels), "voxels")
	b.ReportMetric(first.Seconds(), "s-first")
}

// BenchmarkGaussiansDecoder decodes at the released size.
func BenchmarkGaussiansDecoder(b *testing.B) {
	coords, latents := shell(b)
	cfg := ReleasedGaussians()
	d, err := NewGaussians(fixture.Backend(b), cfg, randomSet(GaussiansSpec(cfg)))
	require.NoError(b, err)
	defer d.Close()
	benchDecoder(b, len(coords.Voxels), func() error {
		_, err := d.Decode(b.Context(), coords, latents)
		return err
	})
}

// BenchmarkMeshDecoder decodes at the released size. Random weights make a far larger surface than a trained model.
func BenchmarkMeshDecoder(b *testing.B) {
	coords, latents := shell(b)
	cfg := ReleasedMesh()
	d, err := NewMesh(fixture.Backend(b), cfg, randomSet(MeshSpec(cfg)))
	require.NoError(b, err)
	defer d.Close()
	benchDecoder(b, len(coords.Voxels), func() error {
		_, err := d.Decode(b.Context(), coords, latents)
		return err
	})
}
