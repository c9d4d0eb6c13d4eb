// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sparse

import (
	"errors"
	"fmt"
)

// Errors about voxels, for errors.Is.
var (
	ErrEmpty     = errors.New("sparse: no voxels")
	ErrOrder     = errors.New("sparse: rows of a batch item are not contiguous, or items do not count up from 0")
	ErrRange     = errors.New("sparse: coordinate outside of the grid")
	ErrDuplicate = errors.New("sparse: voxel occurs twice")
	ErrSize      = errors.New("sparse: too many voxels or too large a grid")
)

const (
	// MaxGrid is the largest resolution of a grid.
	MaxGrid = 1024
	// maxVoxels keeps row numbers, after padding and one subdivision, within int32.
	maxVoxels = 1 << 27
)

// Voxel is a cell of a grid: batch item, x, y, z.
type Voxel = [4]int32

// Coords are the voxels of one or more objects on one grid. Rows of a batch item are contiguous, in any order; items
// count up from 0 and none is empty; no voxel occurs twice. Made by New; read only.
type Coords struct {
	Voxels []Voxel
	Starts []int // [B+1] first row of each batch item, then the number of rows
	Grid   int   // coordinates are in 0 to Grid-1
	Layout Layout
}

// New checks voxels and keeps them. Errors wrap ErrEmpty, ErrOrder, ErrRange, ErrDuplicate or ErrSize.
func New(voxels []Voxel, grid int) (*Coords, error) {
	c, err := inOrder(voxels, grid)
	if err != nil {
		return nil, err
	}
	if _, err := c.tables(); err != nil {
		return nil, err
	}
	return c, nil
}

// inOrder makes all checks but that for duplicates.
func inOrder(voxels []Voxel, grid int) (*Coords, error) {
	if grid < 1 || grid > MaxGrid || len(voxels) > maxVoxels {
		return nil, fmt.Errorf("%w: %d voxels, grid of %d, at most %d and %d", ErrSize, len(voxels), grid, maxVoxels, MaxGrid)
	}
	if len(voxels) == 0 {
		return nil, ErrEmpty
	}
	starts := []int{0}
	for i, v := range voxels {
		switch item := int(v[0]); {
		case item == len(starts)-1:
		case item == len(starts) && i > 0:
			starts = append(starts, i)
		default:
			return nil, fmt.Errorf("%w: row %d is of item %d after item %d", ErrOrder, i, item, len(starts)-1)
		}
		for _, x := range v[1:] {
			if x < 0 || int(x) >= grid {
				return nil, fmt.Errorf("%w: row %d is %v, grid of %d", ErrRange, i, v, grid)
			}
		}
	}
	return &Coords{Voxels: voxels, Starts: append(starts, len(voxels)), Grid: grid, Layout: NewLayout(len(voxels))}, nil
}

// FromFlat is New of an array [N, 4] in row-major order.
func FromFlat(flat []int32, grid int) (*Coords, error) {
	if len(flat)%4 != 0 {
		return nil, fmt.Errorf("%w: %d numbers are not rows of 4", ErrOrder, len(flat))
	}
	if len(flat)/4 > maxVoxels {
		return nil, fmt.Errorf("%w: %d voxels", ErrSize, len(flat)/4)
	}
	voxels := make([]Voxel, len(flat)/4)
	for i := range voxels {
		voxels[i] = Voxel(flat[4*i : 4*i+4])
	}
	return New(voxels, grid)
}

// Batches returns the number of batch items.
func (c *Coords) Batches() int { return len(c.Starts) - 1 }

// Subdivide returns the coordinates on the grid of twice the resolution: eight consecutive children 4dx+2dy+dz for each
// voxel, padding included in the layout. Errors wrap ErrSize.
func (c *Coords) Subdivide() (*Coords, error) {
	if 2*c.Grid > MaxGrid || 8*len(c.Voxels) > maxVoxels {
		return nil, fmt.Errorf("%w: subdividing %d voxels of grid %d", ErrSize, len(c.Voxels), c.Grid)
	}
	fine := &Coords{Grid: 2 * c.Grid, Layout: c.Layout.Subdivide()}
	for _, start := range c.Starts {
		fine.Starts = append(fine.Starts, 8*start)
	}
	fine.Voxels = make([]Voxel, 0, 8*len(c.Voxels))
	for _, v := range c.Voxels {
		for d := range int32(8) {
			fine.Voxels = append(fine.Voxels, Voxel{v[0], 2*v[1] + d>>2, 2*v[2] + d>>1&1, 2*v[3] + d&1})
		}
	}
	return fine, nil
}
