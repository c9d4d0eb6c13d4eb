// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"slices"

	"github.com/gomlx3d/image3d/internal/imageio"
)

const (
	numTaps     = 27 // of a 3x3x3 kernel: 9 di + 3 dj + dz, each counted from 0
	numChildren = 8
)

// voxels are the occupied cells of one level of the refiner: above each cell of a grid a column of bins of depth. There
// are as many rows on the device as voxels, or some more, so that few sizes are compiled.
type voxels struct {
	rows, cols int
	starts     []int32 // [rows*cols+1] first voxel of each column
	bins       []int32 // of each voxel, ascending within a column
	padded     int     // rows on the device
}

// newVoxels are those of a map: one above each cell, at bins that are not negative.
func newVoxels(rows, cols int, bins []int32) *voxels {
	v := &voxels{rows: rows, cols: cols, bins: bins, starts: make([]int32, rows*cols+1), padded: len(bins)}
	for i := range v.starts {
		v.starts[i] = int32(i)
	}
	return v
}

// column returns the numbers of the voxels above a cell.
func (v *voxels) column(i, j int) (first, end int32) {
	cell := i*v.cols + j
	return v.starts[cell], v.starts[cell+1]
}

// pooled joins the voxels of a level to those of the next, of twice the size along each axis.
type pooled struct {
	*voxels
	parent   []int32   // [padded of the finer level] the voxel that each is part of
	children []int32   // [padded, 8] the voxels that are part of each; the number of rows of the finer level for none
	share    []float32 // [padded] one over the number of children
}

// pool finds the voxels of the next level.
func (v *voxels) pool() *pooled {
	p := &pooled{voxels: &voxels{rows: (v.rows + 1) / 2, cols: (v.cols + 1) / 2}, parent: make([]int32, v.padded)}
	p.starts = make([]int32, 1, p.rows*p.cols+1)
	for i := range p.rows {
		for j := range p.cols {
			first := len(p.bins)
			v.below(i, j, func(fine int32) { p.bins = append(p.bins, v.bins[fine]>>1) })
			column := p.bins[first:]
			slices.Sort(column)
			p.bins = p.bins[:first+len(slices.Compact(column))]
			column = p.bins[first:]
			v.below(i, j, func(fine int32) {
				at, _ := slices.BinarySearch(column, v.bins[fine]>>1)
				p.parent[fine] = int32(first + at)
			})
			p.starts = append(p.starts, int32(len(p.bins)))
		}
	}
	p.padded = bucket(len(p.bins))
	p.connect(v)
	return p
}

// below calls f for each voxel of the four columns that cell (i, j) of the next level is made of.
func (v *voxels) below(i, j int, f func(fine int32)) {
	for y := 2 * i; y < min(2*i+2, v.rows); y++ {
		for x := 2 * j; x < min(2*j+2, v.cols); x++ {
			for fine, end := v.column(y, x); fine < end; fine++ {
				f(fine)
			}
		}
	}
}

// connect lists the children.
func (p *pooled) connect(fine *voxels) {
	p.children, p.share = make([]int32, numChildren*p.padded), make([]float32, p.padded)
	for i := range p.children {
		p.children[i] = int32(fine.padded)
	}
	for child := range fine.bins {
		parent := p.parent[child]
		p.children[numChildren*parent+int32(p.share[parent])] = int32(child)
		p.share[parent]++
	}
	for i, count := range p.share {
		if count > 0 {
			p.share[i] = 1 / count
		}
	}
}

// neighbours returns for each row the voxels that the taps of a kernel stand on, or the number of rows where there is
// none.
//
//	out [padded, 27]
func (v *voxels) neighbours() []int32 {
	out := make([]int32, numTaps*v.padded)
	for i := range out {
		out[i] = int32(v.padded)
	}
	imageio.ForRows(v.rows, rowsPerTask, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			for j := range v.cols {
				for tap := range 9 {
					if y, x := i+tap/3-1, j+tap%3-1; y >= 0 && y < v.rows && x >= 0 && x < v.cols {
						v.meet(out[3*tap:], v.starts[i*v.cols+j:][:2], v.starts[y*v.cols+x:][:2])
					}
				}
			}
		}
	})
	return out
}

// meet notes which voxels of column other are at most one bin from those of column own. out begins at the three taps of
// the other column of voxel 0.
func (v *voxels) meet(out, own, other []int32) {
	low := other[0]
	for k := own[0]; k < own[1]; k++ {
		for low < other[1] && v.bins[low] < v.bins[k]-1 {
			low++
		}
		for near := low; near < other[1] && v.bins[near] <= v.bins[k]+1; near++ {
			out[numTaps*k+v.bins[near]-v.bins[k]+1] = near
		}
	}
}

// cells returns the grid cell of each row; 0 for padding.
func (v *voxels) cells() []int32 {
	out := make([]int32, v.padded)
	for cell := range len(v.starts) - 1 {
		for k := v.starts[cell]; k < v.starts[cell+1]; k++ {
			out[k] = int32(cell)
		}
	}
	return out
}

// bucket rounds up to one of eight numbers an octave.
func bucket(n int) int {
	step := 1
	for n > 16*step {
		step *= 2
	}
	return (n + step - 1) / step * step
}
