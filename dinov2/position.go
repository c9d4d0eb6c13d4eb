// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package dinov2

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gomlx3d/image3d/internal/nn"
)

// positions returns the position embeddings of the class token [1, 1, D] and of a rows x cols grid of patches
// [1, rows*cols, D], in float32. The table is used as it is when the grid is its own, and resampled otherwise.
func positions(p nn.Params, cfg Config, rows, cols int) (class, grid *Node) {
	table := ConvertDType(p.Get("pos_embed"), dtypes.Float32) // [1, 1+Grid*Grid, D]
	class = Slice(table, AxisRange(), AxisRange(0, 1))
	grid = Slice(table, AxisRange(), AxisRange(1))
	if rows == cfg.Grid && cols == cfg.Grid {
		return class, grid
	}
	grid = Reshape(grid, 1, cfg.Grid, cfg.Grid, cfg.EmbedDim)
	matrix := func(out int) *Node { return Reshape(Const(p.Graph(), cfg.positionMatrix(out)), out, cfg.Grid) }
	grid = nn.ResizeAxes(grid, matrix(rows), matrix(cols)) // [1, rows, cols, D]
	return class, Reshape(grid, 1, rows*cols, cfg.EmbedDim)
}

// positionMatrix returns the weights [out, Grid], row-major, that resample one axis of the position table.
func (c Config) positionMatrix(out int) []float32 {
	step := float64(c.Grid) / (float64(out) + c.InterpolateOffset)
	if c.InterpolateAntialias {
		return smoothCubic(c.Grid, out, step)
	}
	return sharpCubic(c.Grid, out, step)
}

// sharpCubic interpolates between the four nearest samples (a = -0.75), borders clamped: PyTorch's bicubic
// interpolation without antialiasing.
//
//	step distance between two outputs, in inputs
//	out  [size out, size in] row-major
func sharpCubic(in, out int, step float64) []float32 {
	m := make([]float32, out*in)
	for d := range out {
		centre := (float64(d)+0.5)*step - 0.5
		first := int(math.Floor(centre)) - 1
		for j := first; j < first+4; j++ {
			m[d*in+min(max(j, 0), in-1)] += float32(cubic(float64(j)-centre, -0.75))
		}
	}
	return m
}

// smoothCubic weighs all samples under a kernel (a = -0.5) that is widened to the step when shrinking, and divides by
// the weights' sum: PyTorch's antialiased bicubic interpolation.
//
//	step distance between two outputs, in inputs
//	out  [size out, size in] row-major
func smoothCubic(in, out int, step float64) []float32 {
	m := make([]float32, out*in)
	stretch := max(step, 1)
	for d := range out {
		centre := step * (float64(d) + 0.5)
		low := max(int(centre-2*stretch+0.5), 0)
		high := min(int(centre+2*stretch+0.5), in)
		row, sum := make([]float64, high-low), 0.0
		for j := range row {
			row[j] = cubic((float64(low+j)+0.5-centre)/stretch, -0.5)
			sum += row[j]
		}
		for j, w := range row {
			m[d*in+low+j] = float32(w / sum)
		}
	}
	return m
}

// cubic is Keys' convolution kernel (IEEE Trans. ASSP 29, 1981) with the free parameter a.
func cubic(x, a float64) float64 {
	x = math.Abs(x)
	switch {
	case x < 1:
		return ((a+2)*x-(a+3))*x*x + 1
	case x < 2:
		return ((a*x-5*a)*x+8*a)*x - 4*a
	}
	return 0
}
