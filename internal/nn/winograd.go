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
//	x      [B, S1+2, S2+2, ..., in], with the neighbours of the outermost cells
//	weight [3, 3, ..., in, out]
//	out    [B, S1, S2, ..., out]
func winograd(x, weight *Node) *Node {
	dims := x.Shape().Dimensions
	axes := len(dims) - 2
	in, out := weight.Shape().Dimensions[axes], weight.Shape().Dimensions[axes+1]
	products := 1
	for axis := range axes {
		products *= 4
		if dims[1+axis]%2 != 0 {
			x = GrowRight(x, 2*axis+1, 1, 0) // to whole tiles
		}
		x = winogradInput(x, 2*axis+1)
		weight = winogradWeight(weight, axis)
	}
	tiles := slices.Clone(x.Shape().Dimensions[:2*axes+1]) // [4, 4, ..., B, S1/2, S2/2, ...]
	x = Reshape(x, products, -1, in)
	y := Dot(x, Reshape(weight, products, in, out)).General([]int{2}, []int{0}, []int{1}, []int{0})
	y = Reshape(y, append(tiles, out)...)
	for axis := axes - 1; axis >= 0; axis-- {
		y = winogradOutput(y, 2*axis+2)
		if dims[1+axis]%2 != 0 {
			y = SliceAxis(y, 2*axis+1, AxisRange(0, dims[1+axis]-2))
		}
	}
	return y
}

// winogradInput cuts an axis of 2n+2 cells into n tiles of four and stacks, as a new first axis, the four sums of each.
func winogradInput(x *Node, axis int) *Node {
	n := x.Shape().Dimensions[axis]/2 - 1
	cell := func(i int) *Node { return SliceAxis(x, axis, AxisRange(i, i+2*n-1).Stride(2)) }
	a, b, c, d := cell(0), cell(1), cell(2), cell(3)
	return Stack([]*Node{Sub(a, c), Add(b, c), Sub(c, b), Sub(b, d)}, 0)
}

// winogradWeight replaces an axis of three taps by a new first axis of four sums.
func winogradWeight(w *Node, axis int) *Node {
	tap := func(i int) *Node { return Squeeze(SliceAxis(w, axis, AxisElem(i)), axis) }
	a, b, c := tap(0), tap(1), tap(2)
	ends := Add(a, c)
	return Stack([]*Node{a, MulScalar(Add(ends, b), 0.5), MulScalar(Sub(ends, b), 0.5), c}, 0)
}

// winogradOutput makes of the first axis, of four products a tile, two results a tile along another axis, whose index
// is that before the first one goes.
func winogradOutput(y *Node, axis int) *Node {
	product := func(i int) *Node { return Squeeze(SliceAxis(y, 0, AxisElem(i)), 0) }
	a, b, c, d := product(0), product(1), product(2), product(3)
	pair := Stack([]*Node{Add(Add(a, b), c), Sub(Sub(b, c), d)}, axis) // [..., n, 2, ...]
	dims := slices.Clone(pair.Shape().Dimensions)
	dims = slices.Delete(dims, axis, axis+1)
	dims[axis-1] *= 2
	return Reshape(pair, dims...)
}
