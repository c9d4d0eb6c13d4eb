// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flexicubes

import "context"

// around lists, for an edge along each axis, the four cubes around it in ascending order: the offset of the cube from
// the vertex where the edge starts, and which of the cube's edges it is.
var around = newAround()

type edgeCube struct{ dx, dy, dz, edge int }

func newAround() (all [3][4]edgeCube) {
	for axis := range 3 {
		n := 0
		for i := range 8 { // corner of the cube, from the largest offset to none
			c := 7 - (i>>2&1 | i>>1&1<<1 | i&1<<2)
			if axis == 1 && c>>1&1 == 0 || axis != 1 && c>>axis&1 == 1 {
				continue // the edge would leave the cube
			}
			for e, ends := range edgeCorners {
				if int(ends[0]) == c && int(ends[0]^ends[1]) == 1<<axis {
					all[axis][n] = edgeCube{-(c & 1), -(c >> 1 & 1), -(c >> 2), e}
					n++
				}
			}
		}
	}
	return all
}

// quads joins the four dual vertices around every interior crossing edge. Edges are taken in the order of the vertex
// where they start and, at one vertex, of the vertex where they end: y, z, x. Those that start at a vertex with
// sdf > 0 come before all others.
func (e *extraction) quads(ctx context.Context) error {
	counts := make([][2]int, e.res+1)
	if err := inParallel(ctx, e.res+1, func(x int) { counts[x] = e.countQuads(x) }); err != nil {
		return err
	}
	total := 0
	for kind := range 2 {
		for x := range counts {
			n := counts[x][kind]
			counts[x][kind] = total
			total += n
		}
	}
	e.mesh.Faces = make([]uint32, 6*total)
	return inParallel(ctx, e.res+1, func(x int) { e.quadSlab(x, counts[x]) })
}

// quadSlab writes the quads of a slab from the given places on.
func (e *extraction) quadSlab(x int, next [2]int) {
	for y := range e.res + 1 {
		inside, zero := e.inside.row(x, y), e.zero.row(x, y)
		for w := range inside {
			ex, ey, ez := e.interior(0, x, y, w), e.interior(1, x, y, w), e.interior(2, x, y, w)
			word := [1]uint64{ex | ey | ez}
			for bit := range points(word[:]) {
				kind := int((inside[w] | zero[w]) >> bit & 1)
				if ey>>bit&1 != 0 {
					e.quad(1, x, y, w*64+bit, kind, next[kind])
					next[kind]++
				}
				if ez>>bit&1 != 0 {
					e.quad(2, x, y, w*64+bit, kind, next[kind])
					next[kind]++
				}
				if ex>>bit&1 != 0 {
					e.quad(0, x, y, w*64+bit, kind, next[kind])
					next[kind]++
				}
			}
		}
	}
}

// quad writes the two triangles of the edge that starts at (x, y, z).
//
// An edge that starts at a vertex with sdf = 0 is wound as if it were negative, although such a vertex is outside.
// This is what the original does.
func (e *extraction) quad(axis, x, y, z, kind, place int) {
	all := signCases()
	var v [4]uint32
	var g [4]float32
	for i, n := range &around[axis] {
		cube := e.cubes.index(e.cubes.start(x+n.dx, y+n.dy), z+n.dz)
		v[i] = e.first[cube] + uint32(all[e.cases[cube]].patchOf[n.edge])
		g[i] = e.gamma[cube]
	}
	ring := [4]int{0, 1, 3, 2}
	if kind != 0 {
		ring = [4]int{2, 3, 1, 0}
	}
	a, b, c, d := ring[0], ring[1], ring[2], ring[3]
	out := e.mesh.Faces[6*place : 6*place+6]
	if g[a]*g[c] > g[b]*g[d] {
		out[0], out[1], out[2] = v[a], v[b], v[c]
		out[3], out[4], out[5] = v[a], v[c], v[d]
	} else {
		out[0], out[1], out[2] = v[a], v[b], v[d]
		out[3], out[4], out[5] = v[d], v[b], v[c]
	}
}
