// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sparse

import (
	. "github.com/gomlx/gomlx/core/graph"
)

// Pools is a Pooling inside a graph.
type Pools struct {
	parent   *Node // int32 [N]
	children *Node // int32 [M, 8]
	divisors *Node // float32 [M]
}

// Downsample adds up the features of each parent's children and divides by their number plus one: the original means
// over a zero besides the children, so that a lone voxel is halved.
//
//	x    [N, C]
//	rows of x
//	out  [M, C]
func Downsample(x *Node, rows Rows, pools Pools) *Node {
	dims := pools.children.Shape().Dimensions
	children := Gather(rows.Clear(x), ExpandAxes(pools.children, 2)) // [M, 8, C]
	divisors := ConvertDType(BroadcastToDims(ExpandAxes(pools.divisors, 1), dims[0], x.Shape().Dimensions[1]), x.DType())
	return Div(ReduceSum(children, 1), divisors) // [M, C]
}

// Upsample gives every voxel the features of its parent.
//
//	coarse [M, C]
//	out    [N, C]
func Upsample(coarse *Node, pools Pools) *Node { return Gather(coarse, ExpandAxes(pools.parent, 1)) }

// Subdivide gives each of the eight consecutive children of a row its features.
//
//	x   [N, C]
//	out [8N, C]
func Subdivide(x *Node) *Node {
	dims := x.Shape().Dimensions
	return Reshape(BroadcastToDims(ExpandAxes(x, 1), dims[0], 8, dims[1]), 8*dims[0], dims[1])
}
