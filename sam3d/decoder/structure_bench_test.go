// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package decoder

import (
	"math/rand/v2"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/weights"
)

func randomLatent(dims ...int) *tensors.Tensor {
	rng, size := rand.New(rand.NewPCG(3, 4)), 1
	for _, d := range dims {
		size *= d
	}
	values := make([]float32, size)
	for i := range values {
		values[i] = float32(rng.NormFloat64())
	}
	return tensors.FromFlatDataAndDimensions(values, dims...)
}

// BenchmarkStructureDecoder decodes at the released size.
func BenchmarkStructureDecoder(b *testing.B) {
	if testing.Short() {
		b.Skip("full size")
	}
	cfg := ReleasedStructure()
	s, err := NewStructure(fixture.Backend(b), cfg, weights.NewSet(fixture.RandomWeights(StructureSpec(cfg))))
	require.NoError(b, err)
	defer s.Close()
	latent := randomLatent(1, 16*16*16, 8)
	fixture.Benchmark(b, func() error {
		logits, err := s.Decode(b.Context(), latent)
		nn.Free(logits)
		return err
	})
}

// sphere returns the voxels of a ball in a grid of 64.
func sphere(radius int) [][4]int32 {
	var coords [][4]int32
	for i := range int32(64 * 64 * 64) {
		x, y, z := i/4096-32, i/64%64-32, i%64-32
		if x*x+y*y+z*z <= int32(radius*radius) {
			coords = append(coords, [4]int32{0, x + 32, y + 32, z + 32})
		}
	}
	return coords
}

func BenchmarkPrune(b *testing.B) {
	coords := sphere(30)
	for b.Loop() {
		_, err := Prune(coords, 1)
		require.NoError(b, err)
	}
}

func BenchmarkDownsample(b *testing.B) {
	coords := sphere(30)
	for b.Loop() {
		_, _, err := Downsample(coords, MaxVoxels, DownsampleFactor)
		require.NoError(b, err)
	}
}
