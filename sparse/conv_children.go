// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sparse

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gomlx3d/image3d/internal/nn"
)

// After Subdivide every voxel of the coarse grid is a full cube of 2x2x2 children in consecutive rows. The two
// convolutions here use that: they need the neighbours on the coarse grid only, move far fewer rows, and multiply
// larger matrices.

// facing returns the children of a voxel, ascending, that touch the neighbour at an offset.
func facing(off [3]int32) []int32 {
	var children []int32
	for d := range int32(8) {
		touches := true
		for axis, o := range off {
			bit := d >> (2 - axis) & 1
			touches = touches && (o == 0 || o == 1 && bit == 1 || o == -1 && bit == 0)
		}
		if touches {
			children = append(children, d)
		}
	}
	return children
}

func opposite(off [3]int32) [3]int32 { return [3]int32{-off[0], -off[1], -off[2]} }

// ConvSubdivided is Conv(Subdivide(x)). The eight children of a voxel look alike, so the taps that see the same one add
// up to one matrix: 64 products of coarse rows instead of 216.
//
//	x    [N, in]
//	p    weight [out, 3, 3, 3, in], bias [out]
//	rows, pairs of x
//	out  [8N, out]
func ConvSubdivided(p nn.Params, x *Node, rows Rows, pairs Pairs) *Node {
	x = rows.Clear(x)
	w := kernel(p, x)
	dims := w.Shape().Dimensions
	w = Reshape(w, numTaps, dims[1]*dims[2])
	merged := func(w *Node, off [3]int32) *Node { // [children*out, in]
		children := facing(off)
		taps := constMatrix(w, mergedTaps(off, children), len(children), numTaps)
		return Reshape(MatMul(taps, w), len(children)*dims[1], dims[2])
	}
	sum := Reshape(nn.MatMulT(x, merged(w, [3]int32{})), -1, dims[1]) // [8N, out]
	pairs.each(func(tap int, in, out *Node) {
		off := offset(tap)
		held := OptimizationBarriers(in, out, sum, w)
		y := nn.MatMulT(Gather(x, held[0]), merged(held[3], off)) // [P, children*out]
		sum = ScatterSum(held[2], childRows(held[1], facing(off)), Reshape(y, -1, dims[1]), true, true)
	})
	return nn.AddLast(sum, p.As(sum, "bias"))
}

// mergedTaps marks, for each of the children, the taps that reach into the neighbour at an offset of its parent.
//
//	out [children, 27]
func mergedTaps(off [3]int32, children []int32) []float32 {
	out := make([]float32, len(children)*numTaps)
	for i, d := range children {
		for tap := range numTaps {
			o := offset(tap)
			if (d>>2+o[0])>>1 == off[0] && (d>>1&1+o[1])>>1 == off[1] && (d&1+o[2])>>1 == off[2] {
				out[i*numTaps+tap] = 1
			}
		}
	}
	return out
}

// ConvChildren is Conv on the rows of a subdivided grid. The children of a voxel are treated as one row of eight times
// the channels; no product is wasted.
//
//	x    [8N, in]
//	p    weight [out, 3, 3, 3, in], bias [out]
//	rows, pairs of the coarse grid
//	out  [8N, out]
func ConvChildren(p nn.Params, x *Node, rows Rows, pairs Pairs) *Node {
	x = rows.Subdivide().Clear(x)
	w := kernel(p, x)
	width, in := w.Shape().Dimensions[1], w.Shape().Dimensions[2]
	sum := nn.MatMulT(Reshape(x, -1, 8*in), childKernel(w, [3]int32{})) // [N, 8*out]
	sum = Reshape(sum, -1, width)                                       // [8N, out]
	pairs.each(func(tap int, from, to *Node) {
		off := offset(tap)
		sources := facing(opposite(off))
		held := OptimizationBarriers(from, to, sum, w)
		y := Reshape(Gather(x, childRows(held[0], sources)), -1, len(sources)*in) // [P, sources*in]
		y = nn.MatMulT(y, childKernel(held[3], off))                              // [P, children*out]
		sum = ScatterSum(held[2], childRows(held[1], facing(off)), Reshape(y, -1, width), true, true)
	})
	return nn.AddLast(sum, p.As(sum, "bias"))
}

// childKernel is the matrix from the children of a voxel's neighbour that face it to its children that face the
// neighbour.
//
//	kernel [27, out, in]
//	out    [children*out, sources*in]
func childKernel(kernel *Node, off [3]int32) *Node {
	children, sources := facing(off), facing(opposite(off))
	var taps []int32
	for _, d := range children {
		for _, s := range sources {
			tap := int32(0)
			for axis := range 3 {
				bit := 2 - axis
				tap = 3*tap + 2*off[axis] + s>>bit&1 - d>>bit&1 + 1
			}
			taps = append(taps, tap)
		}
	}
	dims := kernel.Shape().Dimensions
	blocks := Gather(kernel, constInts(kernel.Graph(), taps, len(children), len(sources), 1)) // [children, sources, out, in]
	return Reshape(TransposeAllAxes(blocks, 0, 2, 1, 3), len(children)*dims[1], len(sources)*dims[2])
}
