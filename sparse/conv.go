// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sparse

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gomlx3d/image3d/internal/nn"
)

// Pairs is a Neighbors inside a graph: int32 [lists, 2, P] for each class.
type Pairs [3]*Node

// each calls f for every offset but the centre with its lists of input and output rows, int32 [P, 1].
func (pairs Pairs) each(f func(tap int, in, out *Node)) {
	for class, taps := range classTaps {
		length := pairs[class].Shape().Dimensions[2]
		list := func(i, side int) *Node {
			return Reshape(Slice(pairs[class], AxisElem(i), AxisElem(side)), length, 1)
		}
		for i, tap := range taps {
			f(tap, list(i, 0), list(i, 1))
		}
	}
}

// kernel returns the weight of a 3x3x3 convolution by tap, in the dtype of x.
//
//	p   weight [out, 3, 3, 3, in]
//	out [27, out, in]
func kernel(p nn.Params, x *Node) *Node {
	weight := p.As(x, "weight")
	dims := weight.Shape().Dimensions
	return TransposeAllAxes(Reshape(weight, dims[0], numTaps, dims[4]), 1, 0, 2)
}

// tapWeight is one tap of a kernel, [out, in].
func tapWeight(kernel *Node, tap int) *Node { return Squeeze(Slice(kernel, AxisElem(tap)), 0) }

// Conv is a submanifold 3x3x3 convolution: a cross-correlation evaluated at the voxels only, where empty neighbours
// add nothing. For each offset the features of the pairs are gathered, projected and added to the output rows; a
// barrier between offsets lets only one gathered copy live at a time.
//
//	x    [N, in]
//	p    weight [out, 3, 3, 3, in], bias [out]
//	out  [N, out]
func Conv(p nn.Params, x *Node, rows Rows, pairs Pairs) *Node {
	x = rows.Clear(x)
	w := kernel(p, x)
	sum := nn.MatMulT(x, tapWeight(w, centreTap)) // [N, out]
	pairs.each(func(tap int, in, out *Node) {
		held := OptimizationBarriers(in, out, sum, tapWeight(w, tap))
		y := nn.MatMulT(Gather(x, held[0]), held[3]) // [P, out]
		sum = ScatterSum(held[2], held[1], y, true, true)
	})
	return nn.AddLast(sum, p.As(sum, "bias"))
}

// ConvUpsampled is Conv(Upsample(coarse)) with the projections made on the rows of the coarse grid, of which there are
// a quarter or fewer.
//
//	coarse     [M, in]
//	coarseRows of coarse
//	pools      between the grids
//	pairs      of the fine grid
//	out        [N, out]
func ConvUpsampled(p nn.Params, coarse *Node, coarseRows Rows, pools Pools, pairs Pairs) *Node {
	return SumTaps(p, ProjectTaps(p, coarse, coarseRows), pools, pairs)
}

// ProjectTaps is the first half of ConvUpsampled, whose shapes depend on the coarse grid alone.
//
//	coarse [M, in]
//	p      weight [out, 3, 3, 3, in]
//	out    [M*27, out], every row by every tap
func ProjectTaps(p nn.Params, coarse *Node, rows Rows) *Node {
	coarse = rows.Clear(coarse)
	w := kernel(p, coarse)
	dims := w.Shape().Dimensions
	projected := nn.MatMulT(coarse, Reshape(w, numTaps*dims[1], dims[2])) // [M, 27*out]
	return Reshape(projected, -1, dims[1])
}

// SumTaps is the second half of ConvUpsampled.
//
//	projected [M*27, out]
//	p         bias [out]
//	out       [N, out]
func SumTaps(p nn.Params, projected *Node, pools Pools, pairs Pairs) *Node {
	place := func(parent *Node, tap int) *Node { // of a row's projection, [.., 1]
		return ExpandAxes(AddScalar(MulScalar(parent, numTaps), float64(tap)), 1)
	}
	sum := Gather(projected, place(pools.parent, centreTap)) // [N, out]
	pairs.each(func(tap int, in, out *Node) {
		held := OptimizationBarriers(in, out, sum)
		y := Gather(projected, place(Gather(pools.parent, held[0]), tap)) // [P, out]
		sum = ScatterSum(held[2], held[1], y, true, true)
	})
	return nn.AddLast(sum, p.As(sum, "bias"))
}

// Conv1 is a convolution of kernel 1 as spconv 2.3.8 evaluates it: it reads the buffer of the weight, [out, 1, 1, 1, in]
// in memory, as if it were [in, out]. The released mesh decoder depends on that.
//
//	x   [N, in]
//	p   weight [out, 1, 1, 1, in], bias [out]
//	out [N, out]
func Conv1(p nn.Params, x *Node) *Node {
	weight := p.As(x, "weight")
	dims := weight.Shape().Dimensions
	y := Dot(x, Reshape(weight, dims[4], dims[0])).General([]int{1}, nil, []int{0}, nil)
	return nn.AddLast(y, p.As(y, "bias"))
}

// constInts is a constant int32 array.
func constInts(g *Graph, flat []int32, dims ...int) *Node { return Reshape(Const(g, flat), dims...) }

// constMatrix is a constant array in the dtype of like.
func constMatrix(like *Node, flat []float32, dims ...int) *Node {
	return ConvertDType(Reshape(Const(like.Graph(), flat), dims...), like.DType())
}

// childRows lists the rows of some children of each row.
//
//	parent   [P, 1] int32
//	children octants
//	out      [P*n, 1] int32
func childRows(parent *Node, children []int32) *Node {
	n := len(children)
	rows := Add(MulScalar(parent, 8), constInts(parent.Graph(), children, 1, n)) // [P, n]
	return ConvertDType(Reshape(rows, -1, 1), dtypes.Int32)
}
