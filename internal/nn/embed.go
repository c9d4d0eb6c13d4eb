// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package nn

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// TimestepFrequencies returns the sinusoid of a diffusion time: cos(t f) then sin(t f), with f_i = 10000^(-i/half).
//
// It is computed on the host: near t = 1000 one unit in the last place of a frequency moves the phase by 6e-5, more
// than a device's exp promises.
//
//	t   in thousandths (0 to 1000)
//	out [dim] float32
func TimestepFrequencies(t float32, dim int) []float32 {
	half := dim / 2
	out := make([]float32, dim)
	for i := range half {
		exponent := float32(-math.Log(10000)) * float32(i) / float32(half)
		phase := float64(t * float32(math.Exp(float64(exponent))))
		out[i], out[half+i] = float32(math.Cos(phase)), float32(math.Sin(phase))
	}
	return out
}

// AxisTable returns the sinusoids of the grid coordinates 0 to size-1 along one axis, for a position embedding of
// three axes and the given width: sin(c f) then cos(c f), with f_i = 10000^(-i/n) and n = width/6.
//
//	out [size, 2n] float32, row-major
func AxisTable(size, width int) []float32 {
	n := width / 3 / 2
	out := make([]float32, size*2*n)
	for c := range size {
		for i := range n {
			f := 1 / float32(math.Pow(10000, float64(float32(i)/float32(n))))
			phase := float64(float32(c) * f)
			out[c*2*n+i], out[c*2*n+n+i] = float32(math.Sin(phase)), float32(math.Cos(phase))
		}
	}
	return out
}

// GridEmbedding is the parameter-free absolute position embedding of voxels ("ape"): the sinusoids of x, y and z side
// by side, zero-padded to the model width.
//
//	coords [N, 3] int32, in 0 to size-1
//	out    [N, width] float32
func GridEmbedding(coords *Node, size, width int) *Node {
	axis := 2 * (width / 3 / 2)
	count := coords.Shape().Dimensions[0]
	table := Reshape(Const(coords.Graph(), AxisTable(size, width)), size, axis)
	rows := Reshape(Gather(table, ExpandAxes(coords, -1)), count, 3*axis) // [N, 3*2n]
	if pad := width - 3*axis; pad > 0 {
		rows = GrowRight(rows, 1, pad, 0)
	}
	return ConvertDType(rows, dtypes.Float32)
}
