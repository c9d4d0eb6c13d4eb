// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package decoder

import (
	"encoding/binary"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/sparse"
	"github.com/gomlx3d/image3d/weights"
)

// randomWeights returns random float32 weights for a specification, small enough that activations stay small.
func randomWeights(spec weights.Spec) *weights.Set {
	list, rng := make(map[string]weights.Tensor), rand.New(rand.NewPCG(7, 8))
	for _, name := range slices.Sorted(maps.Keys(spec)) {
		shape, size := spec[name].Shape, 1
		for _, d := range shape {
			size *= d
		}
		data := make([]byte, 0, 4*size)
		for range size {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits((rng.Float32()-0.5)/14))
		}
		list[name] = weights.Tensor{DType: dtypes.Float32, Shape: shape, Data: data}
	}
	return weights.NewSet(list)
}

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
	d, err := NewGaussians(fixture.Backend(b), cfg, randomWeights(GaussiansSpec(cfg)))
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
	d, err := NewMesh(fixture.Backend(b), cfg, randomWeights(MeshSpec(cfg)))
	require.NoError(b, err)
	defer d.Close()
	benchDecoder(b, len(coords.Voxels), func() error {
		_, err := d.Decode(b.Context(), coords, latents)
		return err
	})
}
