// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sparse

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
)

// Windows groups voxels for attention within cubes of the grid, and packs the groups into bins of two lengths. A bin
// holds one or more whole windows; a voxel attends to those voxels of its bin that are in its own window.
//
// Compared with one padded array for every dozen of window lengths this needs two shapes, so that compiled programs
// repeat, and fewer padded rows, for somewhat more scores.
type Windows struct {
	Bins   [2]int  // number of short and of long bins, at least one each
	Length [2]int  // voxels in a short bin (128) and in a long one (256, or as many as the longest window needs)
	Row    []int32 // [places] row at each place, short bins first; the last row where a place is empty
	Window []int32 // [places] number of that row's window, ascending by batch item and cell; -1 where empty
	Place  []int32 // [Rows] place of each row; 0 for padding
}

const shortBin = 128

// Windows makes one Windows for each shift, all of the same shapes, so that one compiled block serves them. The window
// of a voxel is its coordinates plus shift, divided by size and rounded down: windows are aligned with coordinate 0,
// and those at the borders are smaller. Errors wrap ErrSize.
func (c *Coords) Windows(size int, shifts ...int) ([]*Windows, error) {
	if size < 1 || size > MaxGrid {
		return nil, fmt.Errorf("%w: windows of size %d", ErrSize, size)
	}
	groups, long := make([][][]int32, len(shifts)), 2*shortBin
	for i, shift := range shifts {
		if shift < 0 || shift > MaxGrid {
			return nil, fmt.Errorf("%w: windows shifted by %d", ErrSize, shift)
		}
		groups[i] = c.groups(int32(size), int32(shift))
		for _, rows := range groups[i] {
			for long < len(rows) {
				long *= 2
			}
		}
	}
	packers, bins := make([]*packer, len(shifts)), [2]int{1, 1}
	for i := range packers {
		packers[i] = newPacker(groups[i], long)
		packers[i].packLong()
		bins[1] = max(bins[1], longBins(packers[i].used[1]))
	}
	for _, p := range packers {
		p.packShort(bins[1])
		bins[0] = max(bins[0], Bucket(p.used[0]))
	}
	all := make([]*Windows, len(shifts))
	for i, p := range packers {
		all[i] = p.windows(bins, c.Layout)
	}
	return all, nil
}

// longBins rounds a number of long bins up, below 16 to 1, 2, 3, 4, 6, 8 or 12. Short groups fill what is left of them,
// so that wide steps cost little.
func longBins(n int) int {
	if n > 12 {
		return Bucket(n)
	}
	step := 1 << max(bits.Len(uint(n-1))-2, 0)
	return max(1, (n+step-1)/step*step)
}

// groups returns the rows of each window.
func (c *Coords) groups(size, shift int32) [][]int32 {
	keys := c.sorted(func(v Voxel) [3]int32 {
		return [3]int32{(v[1] + shift) / size, (v[2] + shift) / size, (v[3] + shift) / size}
	})
	rows := make([]int32, len(keys))
	var groups [][]int32
	start := 0
	for b := range c.Batches() {
		for i := c.Starts[b]; i < c.Starts[b+1]; i++ {
			rows[i] = keys[i].row
			if i+1 == c.Starts[b+1] || keys[i].key != keys[i+1].key {
				groups = append(groups, rows[start:i+1])
				start = i + 1
			}
		}
	}
	return groups
}

// packer puts groups into bins, longest first, each where it leaves the least room.
type packer struct {
	groups [][]int32
	order  []int // of groups, by falling length
	length [2]int
	slots  []slot     // by group
	used   [2]int     // bins
	free   [2][][]int // bins by the room that is left, for each class
}

// slot is where a group is put.
type slot struct{ class, bin, offset int }

func newPacker(groups [][]int32, long int) *packer {
	p := &packer{groups: groups, order: make([]int, len(groups)), length: [2]int{shortBin, long}, slots: make([]slot, len(groups))}
	for i := range p.order {
		p.order[i] = i
	}
	slices.SortStableFunc(p.order, func(a, b int) int { return cmp.Compare(len(groups[b]), len(groups[a])) })
	for class, length := range p.length {
		p.free[class] = make([][]int, length+1)
	}
	return p
}

// packLong packs the groups that no short bin takes.
func (p *packer) packLong() {
	for len(p.order) > 0 && len(p.groups[p.order[0]]) > shortBin {
		if !p.fit(1, p.order[0]) {
			p.open(1)
			p.fit(1, p.order[0])
		}
		p.order = p.order[1:]
	}
}

// packShort packs the others: into what is left of a given number of long bins, then into short bins.
func (p *packer) packShort(longBins int) {
	for p.used[1] < longBins {
		p.open(1)
	}
	for _, group := range p.order {
		if !p.fit(1, group) && !p.fit(0, group) {
			p.open(0)
			p.fit(0, group)
		}
	}
}

func (p *packer) open(class int) {
	room := p.length[class]
	p.free[class][room] = append(p.free[class][room], p.used[class])
	p.used[class]++
}

// fit puts a group into the fullest bin of a class that has room for it, and reports whether there is one.
func (p *packer) fit(class, group int) bool {
	size := len(p.groups[group])
	for room := size; room < len(p.free[class]); room++ {
		if bins := p.free[class][room]; len(bins) > 0 {
			bin := bins[len(bins)-1]
			p.free[class][room] = bins[:len(bins)-1]
			p.free[class][room-size] = append(p.free[class][room-size], bin)
			p.slots[group] = slot{class, bin, p.length[class] - room}
			return true
		}
	}
	return false
}

func (p *packer) windows(bins [2]int, layout Layout) *Windows {
	w := &Windows{Bins: bins, Length: p.length, Place: make([]int32, layout.Rows)}
	places := bins[0]*p.length[0] + bins[1]*p.length[1]
	w.Row, w.Window = filled(places, int32(layout.Rows-1)), filled(places, -1)
	for group, rows := range p.groups {
		s := p.slots[group]
		place := s.class*bins[0]*p.length[0] + s.bin*p.length[s.class] + s.offset
		for i, row := range rows {
			w.Row[place+i], w.Window[place+i] = row, int32(group)
			w.Place[row] = int32(place + i)
		}
	}
	return w
}
