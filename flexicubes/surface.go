// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flexicubes

import (
	"context"
	"math/bits"
)

// surface is the topology of a mesh: all that follows from the signs of the grid vertices.
type surface struct {
	res    int
	inside *lattice // vertices with sdf < 0
	zero   *lattice // vertices with sdf = 0, which are outside
	active *lattice // vertices at an end of an edge whose ends differ in sign
	cubes  *lattice // surface cubes: those whose corners differ in sign

	// For each surface cube:
	cases []uint8  // sign case, after the inversion of C16 and C19
	first []uint32 // its first dual vertex; those of its other patches follow

	numActive, numVertices int
}

func newSurface(res int) *surface {
	return &surface{
		res:    res,
		inside: newLattice(res + 1),
		zero:   newLattice(res + 1),
		active: newLattice(res + 1),
		cubes:  newLattice(res + 1),
	}
}

// build derives everything else from inside and zero.
func (s *surface) build(ctx context.Context) error {
	if err := eachRow(ctx, s.res+1, s.markRow); err != nil {
		return err
	}
	s.numActive = s.active.number()
	n := s.cubes.number()
	s.cases, s.first = make([]uint8, n), make([]uint32, n)
	counts := make([][5]uint32, s.res) // of the surface cubes of a slab with 0 to 4 patches
	if err := inParallel(ctx, s.res, func(x int) { counts[x] = s.classifySlab(x) }); err != nil {
		return err
	}
	// Dual vertices are ordered by the number of patches of their cube first, then by cube.
	total := uint32(0)
	for patches := uint32(1); patches <= 4; patches++ {
		for x := range counts {
			n := counts[x][patches]
			counts[x][patches] = total // from here on: where the slab's vertices of this kind start
			total += n * patches
		}
	}
	s.numVertices = int(total)
	return inParallel(ctx, s.res, func(x int) { s.numberSlab(x, counts[x]) })
}

// edges returns, as bits of a word, the edges along an axis (0, 1, 2) whose ends differ in sign, out of the 64 that
// start at the vertices of the w-th word of row (x, y). Edges along x and z start at their lower end, those along y at
// their upper end.
func (s *surface) edges(axis, x, y, w int) uint64 {
	row, other := s.inside.row(x, y), []uint64(nil)
	switch axis {
	case 0:
		other = s.inside.row(x+1, y)
	case 1:
		other = s.inside.row(x, y-1)
	default:
		if row == nil {
			return 0
		}
		return (row[w] ^ shiftDown(row, w)) & lowBits(s.res, w)
	}
	if row == nil || other == nil {
		return 0
	}
	return row[w] ^ other[w]
}

// markRow finds the active vertices and the surface cubes of a row.
func (s *surface) markRow(x, y int) {
	active := s.active.row(x, y)
	carry := uint64(0)
	for w := range active {
		along := s.edges(2, x, y, w)
		active[w] = s.edges(0, x, y, w) | s.edges(0, x-1, y, w) | s.edges(1, x, y, w) | s.edges(1, x, y+1, w) |
			along | along<<1 | carry
		carry = along >> 63
	}
	if x < s.res && y < s.res {
		s.mixed(s.cubes.row(x, y), x, y)
	}
}

// mixed marks the cubes of a row whose eight corners are neither all inside nor all outside.
func (s *surface) mixed(cubes []uint64, x, y int) {
	a, b := s.inside.row(x, y), s.inside.row(x, y+1)
	c, d := s.inside.row(x+1, y), s.inside.row(x+1, y+1)
	nextAny, nextAll := uint64(0), uint64(0)
	for w := len(cubes) - 1; w >= 0; w-- {
		anyIn, allIn := a[w]|b[w]|c[w]|d[w], a[w]&b[w]&c[w]&d[w]
		cubes[w] = (anyIn | anyIn>>1 | nextAny<<63) &^ (allIn & (allIn>>1 | nextAll<<63)) & lowBits(s.res, w)
		nextAny, nextAll = anyIn, allIn
	}
}

// signs returns which corners of a cube are inside.
func (s *surface) signs(x, y, z int) uint8 {
	pair := func(x, y int) uint8 { // bits 0 and 1: vertices z and z+1 of a row
		i, shift := s.inside.start(x, y)+z>>6, z&63
		v := s.inside.bits[i] >> shift
		if shift == 63 {
			v |= s.inside.bits[i+1] << 1
		}
		return uint8(v & 3)
	}
	a, b, c, d := pair(x, y), pair(x+1, y), pair(x, y+1), pair(x+1, y+1)
	low := a&1 | b&1<<1 | c&1<<2 | d&1<<3
	return low | (a>>1|b>>1<<1|c>>1<<2|d>>1<<3)<<4
}

// classifySlab finds the cases of the surface cubes of a slab and counts them by their number of patches.
func (s *surface) classifySlab(x int) (counts [5]uint32) {
	all := signCases()
	i := s.cubes.index(s.cubes.start(x, 0), 0)
	for y := range s.res {
		for z := range points(s.cubes.row(x, y)) {
			code := s.signs(x, y, z)
			if c := &all[code]; c.flagged {
				nx, ny, nz := x+int(c.dir[0]), y+int(c.dir[1]), z+int(c.dir[2])
				// The decision is made on the signs, before any inversion. A flagged case is always a surface cube.
				if s.inGrid(nx, ny, nz) && all[s.signs(nx, ny, nz)].flagged {
					code = ^code
				}
			}
			s.cases[i] = code
			counts[all[code].count]++
			i++
		}
	}
	return counts
}

func (s *surface) inGrid(x, y, z int) bool { return min(x, y, z) >= 0 && max(x, y, z) < s.res }

// numberSlab numbers the dual vertices of a slab, given where those of cubes with 1 to 4 patches start.
func (s *surface) numberSlab(x int, next [5]uint32) {
	all := signCases()
	from, to := s.cubeRange(x)
	for i := from; i < to; i++ {
		patches := all[s.cases[i]].count
		s.first[i] = next[patches]
		next[patches] += uint32(patches)
	}
}

// cubeRange returns the range of the surface cubes of a slab.
func (s *surface) cubeRange(x int) (from, to int) {
	// There are no cubes at x = res, where a slab of vertices still is.
	return int(s.cubes.rank[s.cubes.start(x, 0)]), int(s.cubes.rank[s.cubes.start(x+1, 0)])
}

// interior returns, as bits of a word, the crossing edges that start in the w-th word of a row of vertices and have
// four cubes around them: each of them makes a quad.
func (s *surface) interior(axis, x, y, w int) uint64 {
	transverse := lowBits(s.res, w) // 0 < z < res
	if w == 0 {
		transverse &^= 1
	}
	inX, inY := x > 0 && x < s.res, y > 0 && y < s.res
	switch {
	case axis == 0 && inY:
		return s.edges(0, x, y, w) & transverse
	case axis == 1 && inX:
		return s.edges(1, x, y, w) & transverse
	case axis == 2 && inX && inY:
		return s.edges(2, x, y, w)
	}
	return 0
}

// countQuads returns the number of quads of a slab by kind: [0] those whose edge starts at a vertex with sdf > 0.
func (s *surface) countQuads(x int) (counts [2]int) {
	for y := range s.res + 1 {
		inside, zero := s.inside.row(x, y), s.zero.row(x, y)
		for w := range inside {
			positive := ^(inside[w] | zero[w])
			for axis := range 3 {
				e := s.interior(axis, x, y, w)
				counts[0] += bits.OnesCount64(e & positive)
				counts[1] += bits.OnesCount64(e &^ positive)
			}
		}
	}
	return counts
}
