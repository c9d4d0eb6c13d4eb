// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sparse

import (
	"fmt"
	"math"
)

const (
	blockBits = 2 // a block has 4x4x4 cells
	blockMask = 1<<blockBits - 1
	blockSize = 1 << (3 * blockBits)

	// maxTop bounds the memory of the tables of many scattered batch items: 256 MB, four full grids of MaxGrid.
	maxTop = 1 << 26
)

// table finds the row of a cell of one batch item. It has two levels, so that a grid costs memory where it is occupied:
// top holds, for every block of the bounding box, the place of its cells. Empty blocks share the first, so that a
// lookup has no branch to mispredict.
type table struct {
	low        [3]int32 // first block of top along each axis
	dimY, dimZ int32
	size       int // of top
	top        []int32
	cells      []int32 // row number or -1, blockSize for each occupied block
}

// tables returns one table for each batch item, or an error that wraps ErrDuplicate.
func (c *Coords) tables() ([]table, error) {
	tables, room := make([]table, c.Batches()), maxTop
	for b := range tables {
		voxels := c.Voxels[c.Starts[b]:c.Starts[b+1]]
		if room -= tables[b].bound(voxels); room < 0 {
			return nil, fmt.Errorf("%w: %d scattered batch items", ErrSize, c.Batches())
		}
		if err := tables[b].fill(c.Voxels, c.Starts[b], c.Starts[b+1]); err != nil {
			return nil, err
		}
	}
	return tables, nil
}

// bound sets the range of blocks and returns their number. One cell of margin on each side keeps the lookups of
// neighbours inside.
func (t *table) bound(voxels []Voxel) int {
	size := 1
	var dims [3]int32
	for axis := range dims {
		low, high := int32(math.MaxInt32), int32(0)
		for _, v := range voxels {
			low, high = min(low, v[axis+1]), max(high, v[axis+1])
		}
		t.low[axis] = (low - 1) >> blockBits
		dims[axis] = (high+1)>>blockBits - t.low[axis] + 1
		size *= int(dims[axis])
	}
	t.dimY, t.dimZ = dims[1], dims[2]
	t.size = size
	return size
}

func (t *table) fill(voxels []Voxel, first, end int) error {
	t.top = make([]int32, t.size)
	t.cells = filled(blockSize, -1)
	for row := first; row < end; row++ {
		v := voxels[row]
		block, cell := t.place(v[1], v[2], v[3])
		if t.top[block] == 0 {
			t.top[block] = int32(len(t.cells))
			for range blockSize {
				t.cells = append(t.cells, -1)
			}
		}
		at := &t.cells[t.top[block]+cell]
		if *at >= 0 {
			return fmt.Errorf("%w: %v in rows %d and %d", ErrDuplicate, v, *at, row)
		}
		*at = int32(row)
	}
	return nil
}

func (t *table) place(x, y, z int32) (block, cell int32) {
	block = (x>>blockBits-t.low[0])*t.dimY + y>>blockBits - t.low[1]
	block = block*t.dimZ + z>>blockBits - t.low[2]
	cell = (x&blockMask)<<(2*blockBits) | (y&blockMask)<<blockBits | z&blockMask
	return block, cell
}

// row returns the row of a cell that is at most one outside of the bounding box, or -1.
func (t *table) row(x, y, z int32) int32 {
	block, cell := t.place(x, y, z)
	return t.cells[t.top[block]+cell]
}

func filled(n int, value int32) []int32 {
	s := make([]int32, n)
	for i := range s {
		s[i] = value
	}
	return s
}
