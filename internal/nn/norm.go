// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package nn

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// Standardize removes the mean and divides by the standard deviation (biased variance plus eps) over the last axis, in
// float32 whatever the dtype of x. It is a layer norm without parameters.
func Standardize(x *Node, eps float64) *Node {
	return ConvertDType(standardize(ConvertDType(x, dtypes.Float32), eps, -1), x.DType())
}

func standardize(x *Node, eps float64, axes ...int) *Node {
	centred := Sub(x, ReduceAndKeep(x, ReduceMean, axes...))
	variance := ReduceAndKeep(Square(centred), ReduceMean, axes...)
	return Mul(centred, Rsqrt(AddScalar(variance, eps)))
}

// LayerNorm normalises over the last axis.
//
//	x   [..., C]
//	p   weight [C], bias [C]
//	out [..., C], in the dtype of x; computed in float32
func LayerNorm(p Params, x *Node, eps float64) *Node {
	y := standardize(ConvertDType(x, dtypes.Float32), eps, -1)
	y = AddLast(MulLast(y, p.As(y, "weight")), p.As(y, "bias"))
	return ConvertDType(y, x.DType())
}

// HeadRMSNorm scales each head's vector to length sqrt(K) times gamma ("SparseMultiHeadRMSNorm" of the original): the
// norm is clamped at 1e-12 and there is no epsilon.
//
//	x   [..., H, K]
//	p   gamma [H, K]
//	out [..., H, K], computed in float32
func HeadRMSNorm(p Params, x *Node) *Node {
	y := ConvertDType(x, dtypes.Float32)
	norm := Sqrt(ReduceAndKeep(Square(y), ReduceSum, -1))
	y = Div(y, MaxScalar(norm, 1e-12))
	y = Mul(y, ExpandLeftToRank(p.As(y, "gamma"), y.Rank()))
	width := x.Shape().Dimensions[x.Rank()-1]
	return ConvertDType(MulScalar(y, math.Sqrt(float64(width))), x.DType())
}

// GroupNorm normalises over all positions and the channels of each group.
//
//	x   [B, ..., C] channels last
//	p   weight [C], bias [C]
//	out like x, computed in float32
func GroupNorm(p Params, x *Node, groups int, eps float64) *Node {
	dims := x.Shape().Dimensions
	batch, channels := dims[0], dims[len(dims)-1]
	positions := x.Shape().Size() / (batch * channels)
	y := Reshape(ConvertDType(x, dtypes.Float32), batch, positions, groups, channels/groups)
	y = Reshape(standardize(y, eps, 1, 3), dims...) // [B, ..., C]
	y = AddLast(MulLast(y, p.As(y, "weight")), p.As(y, "bias"))
	return ConvertDType(y, x.DType())
}

// Modulate is x (1+scale) + shift.
//
//	x            [B, N, C]
//	shift, scale [B, C]
func Modulate(x, shift, scale *Node) *Node {
	return Add(Mul(x, OnePlus(ExpandAxes(scale, 1))), ExpandAxes(shift, 1))
}
