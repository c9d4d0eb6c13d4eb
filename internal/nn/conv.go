// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package nn

import (
	. "github.com/gomlx/gomlx/core/graph"
)

// xlaBackend is what XLA's backend calls itself.
const xlaBackend = "xla"

// Conv2D is a stride-1 cross-correlation with replicated borders that keeps the size.
//
// Unlike in three dimensions (Conv3D), XLA's own convolution is the fastest and leanest way here (on its CPU plugin, for 64 to
// 128 channels of 400x400 pixels: 0.45 CPU seconds and 0.5 GB; the sum of shifted matrix products 0.83 and 0.8). That
// of the pure Go backend is ten times slower than the sum.
//
//	x   [B, Y, X, in] channels last
//	p   weight [out, in, ky, kx] with odd ky, kx; bias [out]
//	out [B, Y, X, out]
func Conv2D(p Params, x *Node) *Node {
	y := Correlate2D(x, TransposeAllAxes(p.As(x, "weight"), 2, 3, 1, 0))
	return AddLast(y, p.As(y, "bias"))
}

// Conv2DZero is Conv2D with zeros beyond the borders.
func Conv2DZero(p Params, x *Node) *Node {
	y := correlate2D(x, TransposeAllAxes(p.As(x, "weight"), 2, 3, 1, 0), func(x *Node, axis, n int) *Node {
		return GrowRight(GrowLeft(x, axis, n, 0), axis, n, 0)
	})
	return AddLast(y, p.As(y, "bias"))
}

// Correlate2D is Conv2D with a kernel that the graph computes, and without a bias.
//
//	x      [B, Y, X, in] channels last
//	weight [ky, kx, in, out] with odd ky, kx
//	out    [B, Y, X, out]
func Correlate2D(x, weight *Node) *Node { return correlate2D(x, weight, replicate) }

// correlate2D is a cross-correlation of a picture that grow widens by n elements at both ends of an axis.
func correlate2D(x, weight *Node, grow func(x *Node, axis, n int) *Node) *Node {
	kernel := weight.Shape().Dimensions[:2]
	dims := x.Shape().Dimensions
	for axis, k := range kernel {
		if k > 1 {
			x = grow(x, 1+axis, k/2)
		}
	}
	if x.Graph().Backend().Name() == xlaBackend {
		return Convolve(x, weight).NoPadding().Done()
	}
	var sum *Node
	for i := range kernel[0] {
		for j := range kernel[1] {
			shifted := Slice(x, AxisRange(), AxisRange(i, i+dims[1]), AxisRange(j, j+dims[2]))
			tap := Transpose(Squeeze(Slice(weight, AxisElem(i), AxisElem(j)), 0, 1), 0, 1) // [out, in]
			sum = accumulate(sum, shifted, tap)
		}
	}
	return sum
}

// accumulate adds x wᵀ to sum. The barrier makes the compiler finish one tap before the next, so that the shifted
// copies do not all live at once.
func accumulate(sum, x, w *Node) *Node {
	if sum == nil {
		return MatMulT(x, w)
	}
	held := OptimizationBarriers(sum, x, w)
	return Add(held[0], MatMulT(held[1], held[2]))
}

// replicate widens an axis by n copies of its first and of its last element.
func replicate(x *Node, axis, n int) *Node {
	size := x.Shape().Dimensions[axis]
	parts := make([]*Node, 0, 2*n+1)
	for range n {
		parts = append(parts, SliceAxis(x, axis, AxisRange(0, 1)))
	}
	parts = append(parts, x)
	for range n {
		parts = append(parts, SliceAxis(x, axis, AxisRange(size-1, size)))
	}
	return Concatenate(parts, axis)
}

// ConvTranspose2x2 doubles the size with a transposed convolution of kernel 2 and stride 2, which is one matrix product
// because the patches do not overlap.
//
//	x   [B, Y, X, in] channels last
//	p   weight [in, out, 2, 2], bias [out]
//	out [B, 2Y, 2X, out]
func ConvTranspose2x2(p Params, x *Node) *Node {
	weight := p.As(x, "weight")
	in, out := weight.Shape().Dimensions[0], weight.Shape().Dimensions[1]
	weight = Reshape(TransposeAllAxes(weight, 0, 2, 3, 1), in, 4*out) // [in, 2*2*out]
	dims := x.Shape().Dimensions
	y := Dot(x, weight).General([]int{3}, nil, []int{0}, nil)
	y = Reshape(y, dims[0], dims[1], dims[2], 2, 2, out)
	y = TransposeAllAxes(y, 0, 1, 3, 2, 4, 5)
	return AddLast(Reshape(y, dims[0], 2*dims[1], 2*dims[2], out), p.As(y, "bias"))
}

// PatchEmbed cuts an image into square patches and projects each: a convolution whose stride is its kernel.
//
//	x   [B, in, Y, X] channels first, Y and X multiples of the patch size
//	p   weight [D, in, k, k], bias [D]
//	out [B, Y/k * X/k, D], patches row-major
func PatchEmbed(p Params, x *Node) *Node {
	weight := p.As(x, "weight")
	width, in, k := weight.Shape().Dimensions[0], weight.Shape().Dimensions[1], weight.Shape().Dimensions[2]
	dims := x.Shape().Dimensions
	rows, cols := dims[2]/k, dims[3]/k
	x.AssertDims(-1, in, rows*k, cols*k)
	x = Reshape(x, dims[0], in, rows, k, cols, k)
	x = TransposeAllAxes(x, 0, 2, 4, 1, 3, 5)
	x = Reshape(x, dims[0], rows*cols, in*k*k)
	return AddLast(MatMulT(x, Reshape(weight, width, in*k*k)), p.As(x, "bias"))
}
