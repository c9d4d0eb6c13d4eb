// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sparse

import (
	"context"

	"github.com/gomlx3d/image3d/internal/parallel"
)

// A tap is a place of a 3x3x3 kernel, 9i + 3j + k for the offset (i-1, j-1, k-1).
const (
	numTaps   = 27
	centreTap = 13
)

// offset returns the offset of a tap.
func offset(tap int) [3]int32 {
	return [3]int32{int32(tap/9) - 1, int32(tap/3%3) - 1, int32(tap%3) - 1}
}

// classTaps are the taps other than the centre, ascending, by the number of axes along which they are off it less one:
// across the 6 faces, 12 edges and 8 corners of a cell.
var classTaps = func() (classes [3][]int) {
	for tap := range numTaps {
		if tap == centreTap {
			continue
		}
		off := offset(tap)
		class := off[0]*off[0] + off[1]*off[1] + off[2]*off[2] - 1
		classes[class] = append(classes[class], tap)
	}
	return classes
}()

// Neighbors lists, for every offset of a 3x3x3 kernel but the centre, the pairs of voxels that are this far apart.
//
// The lists of a class (faces, edges, corners) are padded to the same length, and the three lengths to one of a few
// triples: lengths of single lists would hardly ever repeat from one object to the next, and with them the shapes that
// a convolution is compiled for. A list is ascending in its output rows and names each at most once; its padding
// consists of output rows that have no such neighbour, with the last row as the input, whose features the convolutions
// set to zero.
type Neighbors struct {
	Lengths [3]int     // pairs in a list of each class
	Pairs   [3][]int32 // [lists, 2, length]: input rows, then output rows, of each tap of the class in ascending order
	Counts  [numTaps]int
}

// crowding is the triples that Neighbors.Lengths is one of, in sixteenths of the rows. They were chosen for the
// surfaces of 400 random solids and the two levels of their subdivision: one third of the lists' rows is padding at
// worst and an eighth on average, and an object of a known number of rows has one of three or four triples.
var crowding = [][3]int{
	{1, 1, 1}, {2, 2, 2}, {4, 4, 4}, {6, 6, 5}, {9, 8, 7}, {12, 10, 8}, {13, 11, 10}, {14, 13, 12}, {16, 16, 16},
}

// pairLengths rounds the longest list of each class up.
func pairLengths(longest [3]int, rows int) (lengths [3]int) {
	for _, level := range crowding {
		enough := true
		for class, sixteenths := range level {
			lengths[class] = (rows*sixteenths + 15) / 16
			enough = enough && longest[class] <= lengths[class]
		}
		if enough {
			break
		}
	}
	return lengths
}

// Neighbors finds the neighbours of every voxel within its batch item. Coords that New accepted give no error.
func (c *Coords) Neighbors() (*Neighbors, error) {
	tables, err := c.tables()
	if err != nil {
		return nil, err
	}
	n := c.countNeighbors(tables)
	c.listNeighbors(n, tables, n.longest())
	return n, nil
}

// countNeighbors counts the pairs of every tap.
func (c *Coords) countNeighbors(tables []table) *Neighbors {
	n := &Neighbors{}
	n.Counts[centreTap] = len(c.Voxels)
	// A pair of tap t is one of the opposite tap, with the rows exchanged.
	_ = parallel.For(context.Background(), centreTap, func(tap int) {
		n.Counts[tap] = c.countPairs(tables, offset(tap))
		n.Counts[numTaps-1-tap] = n.Counts[tap]
	})
	return n
}

// longest is the most pairs of a list of each class.
func (n *Neighbors) longest() (longest [3]int) {
	for class, taps := range classTaps {
		for _, tap := range taps {
			longest[class] = max(longest[class], n.Counts[tap])
		}
	}
	return longest
}

// listNeighbors fills the lists, of lengths for those that are the longest.
func (c *Coords) listNeighbors(n *Neighbors, tables []table, longest [3]int) {
	n.Lengths = pairLengths(longest, c.Layout.Rows)
	var lists []list
	for class, taps := range classTaps {
		length := n.Lengths[class]
		n.Pairs[class] = make([]int32, 2*len(taps)*length)
		for i, tap := range taps {
			flat := n.Pairs[class][2*i*length : 2*(i+1)*length]
			lists = append(lists, list{in: flat[:length], out: flat[length:], tap: tap, padding: length - n.Counts[tap]})
		}
	}
	_ = parallel.For(context.Background(), len(lists), func(i int) { c.fillPairs(tables, lists[i]) })
}

// list is one list of pairs to be filled.
type list struct {
	in, out      []int32
	tap, padding int
}

func (c *Coords) countPairs(tables []table, off [3]int32) int {
	count := 0
	for b := range tables {
		for _, v := range c.Voxels[c.Starts[b]:c.Starts[b+1]] {
			count += found(tables[b].row(v[1]+off[0], v[2]+off[1], v[3]+off[2]))
		}
	}
	return count
}

// found is 1 for a row and 0 for -1, without a branch.
func found(row int32) int { return int(1 + row>>31) }

func (c *Coords) fillPairs(tables []table, l list) {
	off, at, padding := offset(l.tap), 0, l.padding
	zero := int32(c.Layout.Rows - 1)
	for b := range tables {
		for row := c.Starts[b]; row < c.Starts[b+1] && at < len(l.in); row++ {
			v := c.Voxels[row]
			in := tables[b].row(v[1]+off[0], v[2]+off[1], v[3]+off[2])
			if padding > 0 && in < 0 {
				padding--
				in = zero
			}
			l.in[at], l.out[at] = in, int32(row) // overwritten by the next pair if this is none
			at += found(in)
		}
	}
	for row := len(c.Voxels); at < len(l.in); row++ {
		l.in[at], l.out[at] = zero, int32(row)
		at++
	}
}
