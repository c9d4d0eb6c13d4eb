// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package nn

import (
	"slices"

	. "github.com/gomlx/gomlx/core/graph"
)

// winogradChannels is how many channels make up for the sums before and after the products.
const winogradChannels = 32

// winograd is a stride-1 cross-correlation of kernel 3 along any number of axes, by the minimal filter F(2, 3) along
// each ("Fast Algorithms for Convolutional Neural Networks", Lavin and Gray, 2015): along an axis two results take four
// products instead of six, and along three 64 instead of 216. In two dimensions it gains nothing over XLA's convolution.
//
// The four products of an axis, each a correlation along the other axes, take turns: what is summed for one stays in
// the processor's caches, and takes the memory of the one before. All at once take twice the time.
//
//	x      [B, S1+2, S2+2, ..., in], with the neighbours of the outermost cells
//	weight [3, 3, ..., in, out]
//	out    [B, S1, S2, ..., out]
func winograd(x, weight *Node) *Node {
	dims := x.Shape().Dimensions
	if len(dims) == 2 {
		return Dot(x, weight).General([]int{1}, nil, []int{0}, nil)
	}
	size := dims[1] - 2
	if size%2 != 0 {
		x = GrowRight(x, 1, 1, 0) // to whole tiles
	}
	tiles := (size + 1) / 2
	xs, weights := inputSums(x), weightSums(weight)
	var products [4]*Node
	for i := range products {
		if i > 0 {
			held := OptimizationBarriers(xs[i], weights[i], products[i-1])
			xs[i], weights[i], products[i-1] = held[0], held[1], held[2]
		}
		y := winograd(Reshape(xs[i], slices.Concat([]int{dims[0] * tiles}, dims[2:])...), weights[i])
		products[i] = Reshape(y, slices.Concat([]int{dims[0], tiles}, y.Shape().Dimensions[1:])...)
	}
	y := outputSums(products) // [B, tiles, 2, S2, ..., out]
	y = Reshape(y, slices.Concat([]int{dims[0], 2 * tiles}, y.Shape().Dimensions[3:])...)
	if size%2 != 0 {
		y = SliceAxis(y, 1, AxisRange(0, size))
	}
	return y
}

// inputSums cuts axis 1 of 2n+2 cells into n tiles of four and returns the four sums of each.
func inputSums(x *Node) [4]*Node {
	n := x.Shape().Dimensions[1]/2 - 1
	cell := func(i int) *Node { return SliceAxis(x, 1, AxisRange(i, i+2*n-1).Stride(2)) }
	a, b, c, d := cell(0), cell(1), cell(2), cell(3)
	return [4]*Node{Sub(a, c), Add(b, c), Sub(c, b), Sub(b, d)}
}

// weightSums makes four sums of the three taps of axis 0.
func weightSums(w *Node) [4]*Node {
	tap := func(i int) *Node { return Squeeze(SliceAxis(w, 0, AxisElem(i)), 0) }
	a, b, c := tap(0), tap(1), tap(2)
	ends := Add(a, c)
	return [4]*Node{a, MulScalar(Add(ends, b), 0.5), MulScalar(Sub(ends, b), 0.5), c}
}

// outputSums makes of the four products of each tile its two results, along a new axis 2.
func outputSums(products [4]*Node) *Node {
	a, b, c, d := products[0], products[1], products[2], products[3]
	return Stack([]*Node{Add(Add(a, b), c), Sub(Sub(b, c), d)}, 2)
}
