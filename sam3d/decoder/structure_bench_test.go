// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package decoder

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/weights"
)

// randomSet returns small random float32 weights for a specification.
func randomSet(spec weights.Spec) *weights.Set {
	set, rng := make(map[string]weights.Tensor), rand.New(rand.NewPCG(1, 2))
	for name, p := range spec {
		size := 1
		for _, d := range p.Shape {
			size *= d
		}
		data := make([]byte, 4*size)
		for i := range size {
			binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(float32(rng.NormFloat64()*0.02)))
		}
		set[name] = weights.Tensor{DType: dtypes.Float32, Shape: p.Shape, Data: data}
	}
	return weights.NewSet(set)
}

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
	s, err := NewStructure(fixture.Backend(b), cfg, randomSet(StructureSpec(cfg)))
	require.NoError(b, err)
	defer s.Close()
	latent := randomLatent(1, 16*16*16, 8)
	decode := func() {
		logits, err := s.Decode(b.Context(), latent)
		require.NoError(b, err)
		nn.Free(logits)
	}
	decode() // compiles
	for b.Loop() {
		decode()
	}
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
