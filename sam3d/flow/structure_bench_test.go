// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flow

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/weights"
)

// randomSet returns small random weights for a specification, in the same precision as float32 files.
func randomSet(spec weights.Spec) *weights.Set {
	set, noise := make(map[string]weights.Tensor), NewNoise(1, StructureStage)
	for name, p := range spec {
		size := 1
		for _, d := range p.Shape {
			size *= d
		}
		values, data := make([]float32, size), make([]byte, 4*size)
		noise.Fill(values)
		for i, v := range values {
			binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(v*0.02))
		}
		set[name] = weights.Tensor{DType: dtypes.Float32, Shape: p.Shape, Data: data}
	}
	return weights.NewSet(set)
}

// benchmarkStructure evaluates a model of the released widths with one block of 24.
func benchmarkStructure(b *testing.B, conditional bool) {
	if testing.Short() {
		b.Skip("full size")
	}
	cfg := ReleasedStructure()
	cfg.Blocks = 1
	s, err := NewStructure(fixture.Backend(b), cfg, randomSet(StructureSpec(cfg)))
	require.NoError(b, err)
	defer s.Close()
	noise, err := cfg.Noise(1, 1)
	require.NoError(b, err)
	defer noise.Free()
	var c *Context
	if conditional {
		const tokens = 7528
		values := make([]float32, tokens*cfg.CondWidth)
		NewNoise(2, StructureStage).Fill(values)
		c, err = s.Condition(b.Context(), tensors.FromFlatDataAndDimensions(values, 1, tokens, cfg.CondWidth))
		require.NoError(b, err)
		defer c.Free()
	}
	evaluate := func() {
		v, err := s.Velocity(b.Context(), noise, []float32{500}, []float32{0}, c)
		require.NoError(b, err)
		v.Free()
	}
	evaluate() // compiles
	for b.Loop() {
		evaluate()
	}
}

func BenchmarkStructureBlockConditional(b *testing.B)   { benchmarkStructure(b, true) }
func BenchmarkStructureBlockUnconditional(b *testing.B) { benchmarkStructure(b, false) }
