// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flow

import (
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/weights"
)

// structureTokens is the number of condition tokens of stage 1: four pictures and two point maps.
const structureTokens = 4*1370 + 2*1024

// oneBlock is a model of the released widths with one block of 24, and condition tokens for it.
func oneBlock(b *testing.B) (*Structure, *tensors.Tensor) {
	if testing.Short() {
		b.Skip("full size")
	}
	cfg := ReleasedStructure()
	cfg.Blocks = 1
	s, err := NewStructure(fixture.Backend(b), cfg, weights.NewSet(fixture.RandomWeights(StructureSpec(cfg))))
	require.NoError(b, err)
	b.Cleanup(s.Close)
	return s, randomTokens(structureTokens, cfg.CondWidth)
}

// randomTokens are condition tokens [1, n, width].
func randomTokens(n, width int) *tensors.Tensor {
	values := make([]float32, n*width)
	NewNoise(2, StructureStage).Fill(values)
	return tensors.FromFlatDataAndDimensions(values, 1, n, width)
}

// benchmarkStructure evaluates a model of one block. A step has 24 of them, and the layers before and after them, which
// are counted here once and so weigh 24 times what they should: that is 0.1 GFLOP beside 300.
func benchmarkStructure(b *testing.B, conditional bool) {
	s, tokens := oneBlock(b)
	noise, err := s.cfg.Noise(1, 1)
	require.NoError(b, err)
	defer noise.Free()
	var c *Context
	if conditional {
		c, err = s.Condition(b.Context(), tokens)
		require.NoError(b, err)
		defer c.Free()
	}
	fixture.Benchmark(b, func() error {
		v, err := s.Velocity(b.Context(), noise, []float32{500}, []float32{0}, c)
		v.Free()
		return err
	})
}

func BenchmarkStructureBlockConditional(b *testing.B)   { benchmarkStructure(b, true) }
func BenchmarkStructureBlockUnconditional(b *testing.B) { benchmarkStructure(b, false) }

// BenchmarkStructureContext projects the condition tokens for one block, which is done once an object.
func BenchmarkStructureContext(b *testing.B) {
	s, tokens := oneBlock(b)
	fixture.Benchmark(b, func() error {
		c, err := s.Condition(b.Context(), tokens)
		c.Free()
		return err
	})
}
