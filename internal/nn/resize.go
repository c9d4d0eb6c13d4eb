// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package nn

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"
)

// BilinearMatrix returns the weights of a bilinear resize along one axis, half-pixel centres, borders clamped, without
// antialiasing (PyTorch's interpolate with align_corners false).
//
//	out [size out, size in] float32, row-major
func BilinearMatrix(in, out int) []float32 {
	m := make([]float32, out*in)
	scale := float32(in) / float32(out)
	for d := range out {
		src := max((float32(d)+0.5)*scale-0.5, 0)
		i := min(int(math.Floor(float64(src))), in-1)
		frac := src - float32(i)
		m[d*in+i] += 1 - frac
		m[d*in+min(i+1, in-1)] += frac
	}
	return m
}

// ResizeAxes resizes two axes by dense weight matrices, rows first. A matrix for an axis that keeps its size may be nil.
//
//	x       [B, Y, X, C] channels last
//	rows    [Y', Y], cols [X', X], in the dtype of x
//	out     [B, Y', X', C]
func ResizeAxes(x, rows, cols *Node) *Node {
	if cols != nil {
		x = TransposeAllAxes(Dot(x, cols).General([]int{2}, nil, []int{1}, nil), 0, 1, 3, 2) // [B, Y, X', C]
	}
	if rows != nil {
		x = TransposeAllAxes(Dot(x, rows).General([]int{1}, nil, []int{1}, nil), 0, 3, 1, 2) // [B, Y', X', C]
	}
	return x
}

// ResizeBilinear resizes like BilinearMatrix on both axes.
//
//	x   [B, Y, X, C] channels last
//	out [B, rows, cols, C]
func ResizeBilinear(x *Node, rows, cols int) *Node {
	matrix := func(in, out int) *Node {
		if in == out {
			return nil
		}
		return ConvertDType(Reshape(Const(x.Graph(), BilinearMatrix(in, out)), out, in), x.DType())
	}
	return ResizeAxes(x, matrix(x.Shape().Dimensions[1], rows), matrix(x.Shape().Dimensions[2], cols))
}
