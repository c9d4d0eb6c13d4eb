// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package nn

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"
)

// Linear is x Wᵀ + b over the last axis.
//
//	x   [..., in]
//	p   weight [out, in], bias [out] (optional)
//	out [..., out]
func Linear(p Params, x *Node) *Node {
	y := MatMulT(x, p.As(x, "weight"))
	if p.Has("bias") {
		y = AddLast(y, p.As(x, "bias"))
	}
	return y
}

// MatMulT is x wᵀ over the last axes, the layout in which checkpoints keep matrices.
//
//	x   [..., in]
//	w   [out, in]
//	out [..., out]
func MatMulT(x, w *Node) *Node {
	return Dot(x, w).General([]int{x.Rank() - 1}, nil, []int{1}, nil)
}

// AddLast adds a vector v [C] to every row of x [..., C].
func AddLast(x, v *Node) *Node { return Add(x, ExpandLeftToRank(v, x.Rank())) }

// MulLast multiplies every row of x [..., C] by a vector v [C].
func MulLast(x, v *Node) *Node { return Mul(x, ExpandLeftToRank(v, x.Rank())) }

// SiLU is x σ(x).
func SiLU(x *Node) *Node { return Mul(x, Sigmoid(x)) }

// GELU is the exact form, x Φ(x).
func GELU(x *Node) *Node {
	return Mul(MulScalar(x, 0.5), OnePlus(Erf(MulScalar(x, math.Sqrt2/2))))
}

// GELUTanh is the tanh approximation of GELU.
func GELUTanh(x *Node) *Node {
	cubic := Add(x, MulScalar(Mul(Square(x), x), 0.044715))
	return Mul(MulScalar(x, 0.5), OnePlus(Tanh(MulScalar(cubic, math.Sqrt(2/math.Pi)))))
}

// FeedForward is a two-layer perceptron whose layers are called first and second, with an activation between.
func FeedForward(p Params, first, second string, activation func(*Node) *Node, x *Node) *Node {
	return Linear(p.In("%s", second), activation(Linear(p.In("%s", first), x)))
}
