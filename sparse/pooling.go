// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sparse

import (
	"cmp"
	"slices"
)

// Pooling connects voxels to their parents on the grid of half the resolution.
type Pooling struct {
	Parents  *Coords   // unique, ascending by batch item, x, y, z
	Parent   []int32   // [Rows] row of each row's parent; the last row for padding
	Width    int       // 8, the most children a parent can have
	Children []int32   // [Parents.Layout.Rows, Width] rows of each parent's children; the last row where there are fewer
	Divisors []float32 // [Parents.Layout.Rows] number of children plus one, as the original divides
}

// Downsample finds the parents of all voxels, at x/2, y/2, z/2.
func (c *Coords) Downsample() *Pooling {
	keys := c.sorted(func(v Voxel) [3]int32 { return [3]int32{v[1] >> 1, v[2] >> 1, v[3] >> 1} })
	p := &Pooling{Parents: &Coords{Grid: (c.Grid + 1) / 2}, Width: 8}
	parents := p.Parents
	var ends []int // in keys, by parent
	for b := range c.Batches() {
		parents.Starts = append(parents.Starts, len(parents.Voxels))
		for i := c.Starts[b]; i < c.Starts[b+1]; i++ {
			cell := keys[i].cell()
			if i == c.Starts[b] || cell != keys[i-1].cell() {
				parents.Voxels = append(parents.Voxels, Voxel{int32(b), cell[0], cell[1], cell[2]})
				ends = append(ends, i)
			}
			ends[len(ends)-1] = i + 1
		}
	}
	parents.Starts = append(parents.Starts, len(parents.Voxels))
	parents.Layout = NewLayout(len(parents.Voxels))
	p.connect(c.Layout, keys, ends)
	return p
}

// connect fills the arrays. Parent i has the rows of keys from where parent i-1 ends to ends[i].
func (p *Pooling) connect(fine Layout, keys []rowKey, ends []int) {
	coarse, start := p.Parents.Layout, 0
	for _, end := range ends {
		p.Width = max(p.Width, end-start) // more than 8 only for duplicates, which New rejects
		start = end
	}
	p.Parent = filled(fine.Rows, int32(coarse.Rows-1))
	p.Children = filled(coarse.Rows*p.Width, int32(fine.Rows-1))
	p.Divisors = make([]float32, coarse.Rows)
	start = 0
	for i, end := range ends {
		for j, key := range keys[start:end] {
			p.Parent[key.row] = int32(i)
			p.Children[i*p.Width+j] = key.row
		}
		p.Divisors[i] = float32(end - start)
		start = end
	}
	for i := range p.Divisors {
		p.Divisors[i]++
	}
}

// rowKey is the cell that a row is in, 11 bits an axis.
type rowKey struct {
	key uint64
	row int32
}

func (k rowKey) cell() [3]int32 {
	return [3]int32{int32(k.key >> 22), int32(k.key >> 11 & 0x7ff), int32(k.key & 0x7ff)}
}

// sorted returns the rows of each batch item in the ascending order of their cells, ties in the order of rows. Cells
// are below 2048.
func (c *Coords) sorted(cell func(Voxel) [3]int32) []rowKey {
	keys := make([]rowKey, len(c.Voxels))
	for i, v := range c.Voxels {
		x := cell(v)
		keys[i] = rowKey{uint64(x[0])<<22 | uint64(x[1])<<11 | uint64(x[2]), int32(i)}
	}
	for b := range c.Batches() {
		slices.SortFunc(keys[c.Starts[b]:c.Starts[b+1]], func(a, b rowKey) int {
			return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.row, b.row))
		})
	}
	return keys
}
