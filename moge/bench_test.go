// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/weights"
)

// sharedWeights are weights of the released size that all look into one array of random numbers, so that they take room
// on the device alone.
func sharedWeights(cfg Config) *weights.Set {
	spec, size := Spec(cfg), func(p weights.Param) int {
		n := 4
		for _, dim := range p.Shape {
			n *= dim
		}
		return n
	}
	largest := 0
	for _, p := range spec {
		largest = max(largest, size(p))
	}
	r := rand.New(rand.NewPCG(1, 2))
	values := make([]byte, 0, largest)
	for range largest / 4 {
		values = binary.LittleEndian.AppendUint32(values, math.Float32bits(float32(0.02*r.NormFloat64())))
	}
	set := make(map[string]weights.Tensor)
	for name, p := range spec {
		set[name] = weights.Tensor{DType: dtypes.Float32, Shape: p.Shape, Data: values[:size(p)]}
	}
	return weights.NewSet(set)
}

// BenchmarkInfer runs the released networks, of random weights, on a picture of 518 x 518 pixels at the coarsest and at
// the finest level. The weights take up to 1.5 GB.
func BenchmarkInfer(b *testing.B) {
	for version, cfg := range []Config{1: V1(), 2: V2(), 3: V3()} {
		for _, level := range []int{0, 9} {
			if version == 0 {
				continue
			}
			b.Run(fmt.Sprintf("v%d/level%d", version, level), func(b *testing.B) {
				m, err := New(fixture.Backend(b), cfg, sharedWeights(cfg))
				require.NoError(b, err)
				defer m.Close()
				infer := func() {
					_, err := m.Infer(b.Context(), testImage(518, 518), Options{ResolutionLevel: &level, FOVX: 60})
					require.NoError(b, err)
				}
				infer() // compiles
				for b.Loop() {
					infer()
				}
			})
		}
	}
}
