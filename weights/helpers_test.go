// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights_test

import (
	"testing"

	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"
	"github.com/x448/float16"

	"github.com/gomlx3d/image3d/weights"
)

var componentNames = []string{weights.SSGenerator, weights.SSConditionEmbedder, weights.SLATGenerator,
	weights.SLATConditionEmbedder, weights.SSDecoder, weights.SLATDecoderGS, weights.SLATDecoderGS4,
	weights.SLATDecoderMesh, weights.Depth}

// float32s returns the values of a tensor of floats.
func float32s(t *testing.T, w weights.Tensor) []float32 {
	t.Helper()
	local, err := tensors.FromRaw(nil, 0, shapes.Make(w.DType, w.Shape...), w.Data)
	require.NoError(t, err)
	out := make([]float32, 0, local.Size())
	local.MustConstFlatData(func(flat any) {
		switch flat := flat.(type) {
		case []float32:
			out = append(out, flat...)
		case []float16.Float16:
			for _, v := range flat {
				out = append(out, v.Float32())
			}
		case []bfloat16.BFloat16:
			for _, v := range flat {
				out = append(out, v.Float32())
			}
		default:
			require.Fail(t, "not floats", "%T", flat)
		}
	})
	return out
}
