// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flexicubes

import (
	"cmp"
	"math/bits"
	"slices"
	"sync"
)

// Bits of a corner number: corner c of a cube is displaced by one along x if c&cornerX != 0, and so on.
const (
	cornerX = 1 << iota
	cornerY
	cornerZ
)

// edgeCorners numbers the edges of a cube and orients them. Edges along x and z run upwards, those along y (8 to 11)
// run downwards; the order of faces and their winding follow from this.
var edgeCorners = [12][2]uint8{
	{0, 1}, {1, 5}, {4, 5}, {0, 4}, {2, 3}, {3, 7}, {6, 7}, {2, 6}, {2, 0}, {3, 1}, {7, 5}, {6, 4},
}

// signCase is the topology of the surface in a cube, given the signs of its corners.
type signCase struct {
	patches [4][]uint8 // edges of each patch (dual vertex), ascending
	count   uint8      // number of patches
	patchOf [12]uint8  // patch of each crossing edge
	corners uint8      // corners at the ends of crossing edges, one bit each

	// Cases C16 and C19 of dual marching cubes: flagged is set if at least five corners are inside and exactly one face
	// is ambiguous. If the cube across that face, at offset dir, is flagged too, both are inverted, because otherwise
	// their two surfaces would share four edges and the mesh would not be manifold.
	flagged bool
	dir     [3]int8
}

// signCases returns the topology of all 256 cases; bit c of the index is set if corner c is inside.
var signCases = sync.OnceValue(func() *[256]signCase {
	var cases [256]signCase
	for i := range cases {
		cases[i] = newSignCase(uint8(i))
	}
	return &cases
})

// crosses reports whether the ends of an edge differ in sign.
func crosses(inside uint8, edge int) bool {
	a, b := edgeCorners[edge][0], edgeCorners[edge][1]
	return (inside>>a^inside>>b)&1 != 0
}

func newSignCase(inside uint8) signCase {
	var s signCase
	group := [12]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11} // smallest edge connected with each edge so far
	join := func(a, b int) {
		low, high := min(group[a], group[b]), max(group[a], group[b])
		for e, g := range group {
			if g == high {
				group[e] = low
			}
		}
	}
	ambiguous := 0
	for axis := range 3 {
		for side := range 2 {
			if connectFace(inside, axis, side, join) {
				ambiguous++
				s.dir = [3]int8{}
				s.dir[axis] = int8(2*side - 1)
			}
		}
	}
	s.flagged = ambiguous == 1 && bits.OnesCount8(inside) >= 5
	if !s.flagged {
		s.dir = [3]int8{}
	}
	s.addPatches(inside, group)
	return s
}

// connectFace joins the crossing edges of one face that belong to the same line of the surface. It reports whether the
// face is ambiguous, having its two inside corners on a diagonal; each of them is then cut off by itself.
func connectFace(inside uint8, axis, side int, join func(a, b int)) (ambiguous bool) {
	var edges []int
	for e, ends := range edgeCorners {
		if int(ends[0]>>axis&1) == side && int(ends[1]>>axis&1) == side && crosses(inside, e) {
			edges = append(edges, e)
		}
	}
	switch len(edges) {
	case 2:
		join(edges[0], edges[1])
	case 4:
		for i, a := range edges {
			for _, b := range edges[i+1:] {
				if edgeInside(inside, a) == edgeInside(inside, b) {
					join(a, b)
				}
			}
		}
		return true
	}
	return false
}

// edgeInside returns the inside end of a crossing edge.
func edgeInside(inside uint8, edge int) uint8 {
	if a := edgeCorners[edge][0]; inside>>a&1 != 0 {
		return a
	}
	return edgeCorners[edge][1]
}

// addPatches makes one patch of each group of crossing edges. Patches are ordered by the smallest corner they touch
// among the corners of the rarer sign, then by their smallest edge.
func (s *signCase) addPatches(inside uint8, group [12]int) {
	rare := inside
	if bits.OnesCount8(inside) > 4 {
		rare = ^inside
	}
	type patch struct {
		edges []uint8
		first int // smallest rare corner
	}
	var patches []patch
	for root := range group {
		p := patch{first: 8}
		for e, g := range group {
			if g != root || !crosses(inside, e) {
				continue
			}
			p.edges = append(p.edges, uint8(e))
			for _, c := range edgeCorners[e] {
				s.corners |= 1 << c
				if rare>>c&1 != 0 {
					p.first = min(p.first, int(c))
				}
			}
		}
		if len(p.edges) > 0 {
			patches = append(patches, p)
		}
	}
	slices.SortStableFunc(patches, func(a, b patch) int { return cmp.Compare(a.first, b.first) })
	for i, p := range patches {
		s.patches[i] = p.edges
		for _, e := range p.edges {
			s.patchOf[e] = uint8(i)
		}
	}
	s.count = uint8(len(patches))
}
