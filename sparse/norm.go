// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sparse

import (
	"math/bits"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gomlx3d/image3d/internal/nn"
)

// GroupNorm normalises over all voxels of a batch item and the channels of each group. Mean and variance are summed in
// two passes and two levels, which keeps float32 accurate over a million rows.
//
//	x   [N, C]
//	p   weight [C], bias [C]
//	out [N, C] in the dtype of x, computed in float32
func GroupNorm(p nn.Params, x *Node, rows Rows, groups int, eps float64) *Node {
	n := x.Shape().Dimensions[0]
	y := ConvertDType(x, dtypes.Float32)
	var out *Node
	for item := range rows.Batches() {
		mask := rows.Item(n, item)
		normal := standardizeItem(y, mask, groups, eps)
		if out == nil {
			out = normal
		} else {
			out = Where(BroadcastToDims(ExpandAxes(mask, 1), y.Shape().Dimensions...), normal, out)
		}
	}
	out = nn.AddLast(nn.MulLast(out, p.As(out, "weight")), p.As(out, "bias"))
	return ConvertDType(out, x.DType())
}

// standardizeItem centres and scales all rows of x [N, C] by the statistics of the rows in mask [N].
func standardizeItem(x, mask *Node, groups int, eps float64) *Node {
	dims := x.Shape().Dimensions
	size := dims[1] / groups
	count := MulScalar(ReduceAllSum(ConvertDType(mask, dtypes.Float32)), float64(size))
	perGroup := func(sums *Node) *Node { // [C] -> [1, C]
		mean := Div(ReduceSum(Reshape(sums, groups, size), 1), count) // [G]
		return Reshape(BroadcastToDims(ExpandAxes(mean, 1), groups, size), 1, dims[1])
	}
	centred := Sub(x, perGroup(sumRows(keep(mask, x))))
	variance := perGroup(sumRows(keep(mask, Square(centred))))
	return Mul(centred, Rsqrt(AddScalar(variance, eps)))
}

// Moments are the mean and the sum of squared deviations from it of each channel, over the voxels: what the statistics
// of slabs are merged from.
//
//	x   [N, C]
//	out [C] each
func Moments(x *Node, rows Rows) (mean, squares *Node) {
	mask := rows.Valid(x.Shape().Dimensions[0])
	x = ConvertDType(x, dtypes.Float32)
	mean = Div(sumRows(keep(mask, x)), ReduceAllSum(ConvertDType(mask, dtypes.Float32)))
	centred := Sub(x, ExpandAxes(mean, 0))
	return mean, sumRows(keep(mask, Square(centred)))
}

// sumRows adds up the rows of x [N, C]: first within stretches of about sqrt(N) rows, then those.
func sumRows(x *Node) *Node {
	dims := x.Shape().Dimensions
	stretch := 1
	for limit := 1 << (bits.Len(uint(dims[0])) / 2); stretch < limit && dims[0]%(2*stretch) == 0; {
		stretch *= 2
	}
	return ReduceSum(ReduceSum(Reshape(x, dims[0]/stretch, stretch, dims[1]), 1), 0) // [C]
}
