// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sparse

import (
	"fmt"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
)

// Slab is a part of the voxels of a batch item that is worked on by itself: consecutive rows that it owns, and what
// surrounds them, so that convolutions see all that they reach for.
type Slab struct {
	Item         int        // batch item
	First, Owned int        // rows of the whole that it owns: First to First+Owned-1, its first ones
	Coords       *Coords    // of all its voxels: those that it owns, then those around
	Row          []int32    // [Coords.Layout.Rows] row of the whole; any for padding
	Neighbors    *Neighbors // within the slab
}

// Slabs cuts the voxels into slabs that own limit of them at most, and have the voxels around within a number of steps
// to any of 26 sides. The arrays of all slabs have the same shapes, so that one compiled program serves them. A slab of
// a sorted list is a slice of the object, with little around it. Errors wrap ErrSize.
func (c *Coords) Slabs(limit, steps int) ([]*Slab, error) {
	if limit < 1 || steps < 0 {
		return nil, fmt.Errorf("%w: slabs of %d voxels and %d steps", ErrSize, limit, steps)
	}
	tables, err := c.tables()
	if err != nil {
		return nil, err
	}
	var slabs []*Slab
	most := 0
	seen := filled(len(c.Voxels), -1) // the last slab that has a row
	for item := range c.Batches() {
		first, end := c.Starts[item], c.Starts[item+1]
		number := (end - first + limit - 1) / limit
		for i := range number {
			s := &Slab{Item: item, First: first + i*(end-first)/number}
			s.Owned = first + (i+1)*(end-first)/number - s.First
			s.gather(c, &tables[item], seen, int32(len(slabs)), steps)
			slabs = append(slabs, s)
			most = max(most, len(s.Row))
		}
	}
	return slabs, alike(slabs, NewLayout(most).Rows)
}

// gather lists the rows and the voxels of a slab of a number.
func (s *Slab) gather(c *Coords, cells *table, seen []int32, number int32, steps int) {
	for row := s.First; row < s.First+s.Owned; row++ {
		s.Row = append(s.Row, int32(row))
		seen[row] = number
	}
	inner := 0
	for range steps {
		outer := len(s.Row)
		for _, row := range s.Row[inner:outer] {
			v := c.Voxels[row]
			for tap := range numTaps {
				off := offset(tap)
				near := cells.row(v[1]+off[0], v[2]+off[1], v[3]+off[2])
				if near >= 0 && seen[near] != number {
					seen[near] = number
					s.Row = append(s.Row, near)
				}
			}
		}
		inner = outer
	}
	voxels := make([]Voxel, len(s.Row))
	for i, row := range s.Row {
		v := c.Voxels[row]
		voxels[i] = Voxel{0, v[1], v[2], v[3]}
	}
	s.Coords = &Coords{Voxels: voxels, Starts: []int{0, len(voxels)}, Grid: c.Grid}
}

// alike finds the neighbours and gives the arrays of all slabs the same shapes.
func alike(slabs []*Slab, rows int) error {
	tables := make([][]table, len(slabs))
	var longest [3]int
	for i, s := range slabs {
		s.Coords.Layout = Layout{Rows: rows, Count: len(s.Row)}
		s.Row = append(s.Row, make([]int32, rows-len(s.Row))...)
		var err error
		if tables[i], err = s.Coords.tables(); err != nil {
			return err
		}
		s.Neighbors = s.Coords.countNeighbors(tables[i])
		for class, length := range s.Neighbors.longest() {
			longest[class] = max(longest[class], length)
		}
	}
	for i, s := range slabs {
		s.Coords.listNeighbors(s.Neighbors, tables[i], longest)
	}
	return nil
}

// Upload returns the arrays, to be read as Slab.
func (s *Slab) Upload(backend compute.Backend) (Arrays, error) {
	bounds, owned := []int32{0, int32(s.Coords.Layout.Count)}, []int32{0, int32(s.Owned)}
	arrays, err := upload(backend, device(s.Row, len(s.Row)), device(bounds, len(bounds)), device(owned, len(owned)))
	if err != nil {
		return nil, err
	}
	pairs, err := s.Neighbors.Upload(backend)
	if err != nil {
		arrays.Free()
		return nil, err
	}
	return append(arrays, pairs...), nil
}

// Part is a Slab inside a graph.
type Part struct {
	row   *Node // int32 [N]
	All   Rows  // of the slab
	Owned Rows  // that are its own
	Pairs Pairs
}

// Take returns the slab's rows of the whole.
//
//	x   [M, C]
//	out [N, C]
func (p Part) Take(x *Node) *Node { return Gather(x, ExpandAxes(p.row, 1)) }
