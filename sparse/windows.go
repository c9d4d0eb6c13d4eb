// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sparse

import (
	"cmp"
	"fmt"
	"slices"
)

// Windows groups voxels for attention within cubes of the grid, and packs the groups into bins of two lengths. A bin
// holds one or more whole windows; a voxel attends to those voxels of its bin that are in its own window.
//
// Compared with one padded array for each of a dozen window lengths this needs two shapes, so that compiled programs
// repeat, and fewer padded rows, for somewhat more scores.
type Windows struct {
	Bins   [2]int  // number of short and of long bins, at least one each
	Length [2]int  // voxels in a short bin (128 or 256) and in a long one (twice that, or what the longest window needs)
	Row    []int32 // [places] row at each place, short bins first; the last row where a place is empty
	Window []int32 // [places] number of that row's window, ascending by batch item and cell; -1 where empty
	Place  []int32 // [Rows] place of each row; 0 for padding
}

// Windows makes one Windows for each shift, all of the same shapes, so that one compiled block serves them. The window
// of a voxel is its coordinates plus shift, divided by size and rounded down: windows are aligned with coordinate 0,
// and those at the borders are smaller. Errors wrap ErrSize.
func (c *Coords) Windows(size int, shifts ...int) ([]*Windows, error) {
	if size < 1 || size > MaxGrid {
		return nil, fmt.Errorf("%w: windows of size %d", ErrSize, size)
	}
	groups := make([][][]int32, len(shifts))
	for i, shift := range shifts {
		if shift < 0 || shift > MaxGrid {
			return nil, fmt.Errorf("%w: windows shifted by %d", ErrSize, shift)
		}
		groups[i] = c.groups(int32(size), int32(shift))
	}
	length := binLengths(groups, len(c.Voxels))
	packers := make([]*packer, len(shifts))
	var needed, bins [2]int
	for i := range packers {
		packers[i] = newPacker(groups[i], length)
		packers[i].packLong()
		needed[1] = max(needed[1], packers[i].used[1])
	}
	bins[1] = longBins(needed[1], c.Layout.Rows, length[1])
	for _, p := range packers {
		p.packShort(bins[1])
		needed[0] = max(needed[0], p.used[0])
	}
	bins[0] = shortBins(needed[0], c.Layout.Rows, length, bins[1])
	all := make([]*Windows, len(shifts))
	for i, p := range packers {
		all[i] = p.windows(bins, c.Layout)
	}
	return all, nil
}

// binLengths chooses the lengths of bins: short ones of 128 where windows longer than that hold a quarter of the voxels
// at most, else 256, and long ones for the longest window.
func binLengths(groups [][][]int32, voxels int) [2]int {
	long, longest := 0, 0
	for _, windows := range groups {
		sum := 0
		for _, rows := range windows {
			longest = max(longest, len(rows))
			if len(rows) > 128 {
				sum += len(rows)
			}
		}
		long = max(long, sum)
	}
	length := [2]int{128, 256}
	if 4*long > voxels {
		length = [2]int{256, 512}
	}
	for length[1] < longest {
		length[1] *= 2
	}
	return length
}

// longBins rounds a number of long bins up, such that they have places for one of a few fractions of the rows. Short
// groups fill what the long ones leave free, so that wide steps cost little.
func longBins(needed, rows, length int) int {
	for _, sixteenths := range []int{1, 4, 8, 12, 16, 20, 24, 32} {
		if bins := (rows*sixteenths + 16*length - 1) / (16 * length); bins >= needed {
			return bins
		}
	}
	return Bucket(needed)
}

// shortBins rounds a number of short bins up, such that all bins have places for one of a few multiples of the rows.
func shortBins(needed, rows int, length [2]int, longBins int) int {
	for _, sixteenths := range []int{17, 20, 24, 32} {
		bins := max(1, (rows*sixteenths/16-longBins*length[1]+length[0]-1)/length[0])
		if bins >= needed {
			return bins
		}
	}
	return Bucket(needed)
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

func newPacker(groups [][]int32, length [2]int) *packer {
	p := &packer{groups: groups, order: make([]int, len(groups)), length: length, slots: make([]slot, len(groups))}
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
	for len(p.order) > 0 && len(p.groups[p.order[0]]) > p.length[0] {
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
