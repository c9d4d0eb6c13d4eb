// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flexicubes

import (
	"iter"
	"math/bits"
)

// lattice is a set of points of a cubic lattice, one bit each. Rows run along z and start at a whole word. Its points
// are numbered in ascending (x, y, z), and the number of a point is found from its coordinates in constant time.
type lattice struct {
	side  int      // points along an axis
	words int      // words in a row
	bits  []uint64 // [side*side*words]
	rank  []uint32 // [side*side*words] points in earlier words; made by number
}

func newLattice(side int) *lattice {
	words := (side + 63) / 64
	return &lattice{side: side, words: words, bits: make([]uint64, side*side*words)}
}

// start returns the position in bits of the first word of a row.
func (l *lattice) start(x, y int) int { return (x*l.side + y) * l.words }

// row returns the words of a row, or nil if there is no such row.
func (l *lattice) row(x, y int) []uint64 {
	if uint(x) >= uint(l.side) || uint(y) >= uint(l.side) {
		return nil
	}
	i := l.start(x, y)
	return l.bits[i : i+l.words : i+l.words]
}

// number numbers the points and returns how many there are.
func (l *lattice) number() int {
	l.rank = make([]uint32, len(l.bits))
	n := 0
	for i, w := range l.bits {
		l.rank[i] = uint32(n)
		n += bits.OnesCount64(w)
	}
	return n
}

// index returns the number of a point, which need not be in the set: then that of the next point that is.
func (l *lattice) index(start, z int) int {
	i := start + z>>6
	return int(l.rank[i]) + bits.OnesCount64(l.bits[i]&(1<<(z&63)-1))
}

// at reports whether a point is in the set, given the start of its row.
func (l *lattice) at(start, z int) bool { return l.bits[start+z>>6]>>(z&63)&1 != 0 }

// lowBits returns a word of the first n bits of a row, where the word is the w-th of that row.
func lowBits(n, w int) uint64 {
	n -= w * 64
	switch {
	case n <= 0:
		return 0
	case n >= 64:
		return ^uint64(0)
	}
	return 1<<n - 1
}

// shiftDown returns the w-th word of a row moved by one towards z = 0.
func shiftDown(row []uint64, w int) uint64 {
	v := row[w] >> 1
	if w+1 < len(row) {
		v |= row[w+1] << 63
	}
	return v
}

// shiftUp returns the w-th word of a row moved by one away from z = 0.
func shiftUp(row []uint64, w int) uint64 {
	v := row[w] << 1
	if w > 0 {
		v |= row[w-1] >> 63
	}
	return v
}

// points returns the positions of the set bits of a row, ascending.
func points(row []uint64) iter.Seq[int] {
	return func(yield func(z int) bool) {
		for w, word := range row {
			for ; word != 0; word &= word - 1 {
				if !yield(w*64 + bits.TrailingZeros64(word)) {
					return
				}
			}
		}
	}
}

// size returns the number of points of a row.
func size(row []uint64) int {
	n := 0
	for _, w := range row {
		n += bits.OnesCount64(w)
	}
	return n
}
