// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sparse

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// Rows tells voxels from padding, and batch items from each other, inside a graph.
type Rows struct {
	bounds *Node // int32 [B+1]
}

// Batches returns the number of batch items.
func (r Rows) Batches() int { return r.bounds.Shape().Dimensions[0] - 1 }

// Subdivide returns the rows after Subdivide.
func (r Rows) Subdivide() Rows { return Rows{MulScalar(r.bounds, 8)} }

// bound is the first row of an item, or the number of voxels, as a scalar.
func (r Rows) bound(item int) *Node { return Reshape(Slice(r.bounds, AxisElem(item))) }

// Valid returns which of n rows are voxels.
//
//	out [n] bool
func (r Rows) Valid(n int) *Node {
	return LessThan(rowNumbers(r.bounds.Graph(), n), r.bound(r.Batches()))
}

// Item returns which of n rows are voxels of a batch item.
//
//	out [n] bool
func (r Rows) Item(n, item int) *Node {
	numbers := rowNumbers(r.bounds.Graph(), n)
	if item == 0 {
		return LessThan(numbers, r.bound(1))
	}
	return LogicalAnd(GreaterOrEqual(numbers, r.bound(item)), LessThan(numbers, r.bound(item+1)))
}

// Clear sets the padding rows of x [N, C] to zero.
func (r Rows) Clear(x *Node) *Node { return keep(r.Valid(x.Shape().Dimensions[0]), x) }

// keep sets the rows of x [N, C] to zero where mask [N] is false.
func keep(mask, x *Node) *Node {
	dims := x.Shape().Dimensions
	mask = BroadcastToDims(ExpandAxes(mask, 1), dims...)
	return Where(mask, x, ScalarZero(x.Graph(), x.DType()))
}

// Spread gives every row the vector of its batch item. Padding takes that of the last.
//
//	v   [B, C], or [1, C] if all items share it
//	out [n, C], or [1, C] if there is one vector
func (r Rows) Spread(v *Node, n int) *Node {
	if v.Shape().Dimensions[0] == 1 {
		return v
	}
	v.AssertDims(r.Batches(), -1)
	numbers := rowNumbers(v.Graph(), n)
	item := ScalarZero(v.Graph(), dtypes.Int32)
	item = BroadcastToDims(item, n)
	for b := 1; b < r.Batches(); b++ {
		item = Add(item, ConvertDType(GreaterOrEqual(numbers, r.bound(b)), dtypes.Int32))
	}
	return Gather(v, ExpandAxes(item, 1), true) // [n, C]
}

// Modulate is x (1+scale) + shift with the vectors of each row's batch item.
//
//	x            [N, C]
//	shift, scale [B, C] or [1, C]
func (r Rows) Modulate(x, shift, scale *Node) *Node {
	n := x.Shape().Dimensions[0]
	return Add(Mul(x, OnePlus(r.Spread(scale, n))), r.Spread(shift, n))
}

// Gate is x times the vector of each row's batch item.
//
//	x    [N, C]
//	gate [B, C] or [1, C]
func (r Rows) Gate(x, gate *Node) *Node { return Mul(x, r.Spread(gate, x.Shape().Dimensions[0])) }

func rowNumbers(g *Graph, n int) *Node { return Iota(g, shapes.Make(dtypes.Int32, n), 0) }
