// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flexicubes

import (
	"cmp"
	"math"
	"slices"
)

// naive is the extraction written down step by step with dense arrays, maps and sorting, in float64: slow, and hardly
// sharing a line with the real one but for the table of cases.
type naive struct {
	Field
	cubes []int       // surface cubes, ascending
	cases map[int]int // of each surface cube
	first map[int]int // first dual vertex of each surface cube
}

func (n *naive) corner(cube, c int) int {
	x, y, z := n.place(cube)
	return n.vertex(x+c&1, y+c>>1&1, z+c>>2)
}

func (n *naive) place(cube int) (x, y, z int) {
	r := n.Resolution
	return cube / r / r, cube / r % r, cube % r
}

func (n *naive) signs(cube int) (code int) {
	for c := range 8 {
		if n.SDF[n.corner(cube, c)] < 0 {
			code |= 1 << c
		}
	}
	return code
}

// extract returns positions, attributes [V, 6] and faces.
func (n *naive) extract() (vertices, attributes []float64, faces []uint32) {
	n.cases, n.first = map[int]int{}, map[int]int{}
	r := n.Resolution
	for cube := range r * r * r {
		if code := n.signs(cube); code != 0 && code != 255 {
			n.cubes = append(n.cubes, cube)
			n.cases[cube] = code
		}
	}
	for cube, code := range n.cases {
		if s := signCases()[code]; s.flagged {
			x, y, z := n.place(cube)
			x, y, z = x+int(s.dir[0]), y+int(s.dir[1]), z+int(s.dir[2])
			if min(x, y, z) >= 0 && max(x, y, z) < r && signCases()[n.signs((x*r+y)*r+z)].flagged {
				n.cases[cube] = 255 - code
			}
		}
	}
	order := slices.Clone(n.cubes)
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(signCases()[n.cases[a]].count, signCases()[n.cases[b]].count)
	})
	for _, cube := range order {
		n.first[cube] = len(vertices) / 3
		for _, patch := range signCases()[n.cases[cube]].patches {
			if len(patch) > 0 {
				p := n.dual(cube, patch)
				vertices, attributes = append(vertices, p[:3]...), append(attributes, p[3:]...)
			}
		}
	}
	return vertices, attributes, n.quads()
}

// dual returns the position and the attributes of a patch.
func (n *naive) dual(cube int, patch []uint8) (out [9]float64) {
	total := 0.0
	for _, e := range patch {
		a, b := int(edgeCorners[e][0]), int(edgeCorners[e][1])
		pa, sa := n.known(cube, a)
		pb, sb := n.known(cube, b)
		w := 0.99*math.Tanh(raw(n.Beta, 12*cube+int(e))) + 1
		total += w
		for k := range out {
			out[k] += w * (sb*pa[k] - sa*pb[k]) / (sb - sa)
		}
	}
	for k := range out {
		out[k] /= total
	}
	return out
}

// known returns the position and the attributes of a corner, and its signed distance times alpha.
func (n *naive) known(cube, c int) (out [9]float64, sdf float64) {
	v, r := n.corner(cube, c), n.Resolution
	for k, i := range []int{v / (r + 1) / (r + 1), v / (r + 1) % (r + 1), v % (r + 1)} {
		out[k] = float64(i)/float64(r) - 0.5 + math.Tanh(raw(n.Deform, 3*v+k))/float64(2*r)
	}
	for k := range 6 {
		out[3+k] = 1 / (1 + math.Exp(-raw(n.Colors, 6*v+k)))
	}
	return out, float64(n.SDF[v]) * (0.99*math.Tanh(raw(n.Alpha, 8*cube+c)) + 1)
}

func raw(values []float32, i int) float64 {
	if values == nil {
		return 0
	}
	return float64(values[i])
}

func (n *naive) quads() (faces []uint32) {
	type ends struct{ a, b int }
	around := map[ends][]int{}    // cubes around an edge, ascending
	number := map[[2]int]uint32{} // dual vertex of a cube and an edge of it
	for _, cube := range n.cubes {
		s := signCases()[n.cases[cube]]
		for e, c := range edgeCorners {
			edge := ends{n.corner(cube, int(c[0])), n.corner(cube, int(c[1]))}
			if (n.SDF[edge.a] < 0) != (n.SDF[edge.b] < 0) {
				around[edge] = append(around[edge], cube, e)
			}
		}
		for p, patch := range s.patches {
			for _, e := range patch {
				number[[2]int{cube, int(e)}] = uint32(n.first[cube] + p)
			}
		}
	}
	edges := []ends{}
	for e := range around {
		edges = append(edges, e)
	}
	slices.SortFunc(edges, func(a, b ends) int { return cmp.Or(cmp.Compare(a.a, b.a), cmp.Compare(a.b, b.b)) })
	for kind := range 2 {
		for _, e := range edges {
			c := around[e]
			if len(c) != 8 || (n.SDF[e.a] > 0) != (kind == 0) {
				continue
			}
			var v [4]uint32
			var g [4]float64
			for i := range v {
				v[i] = number[[2]int{c[2*i], c[2*i+1]}]
				g[i] = 0.99/(1+math.Exp(-raw(n.Gamma, c[2*i]))) + 0.005
			}
			ring := [4]int{0, 1, 3, 2}
			if kind == 1 {
				ring = [4]int{2, 3, 1, 0}
			}
			q := func(i int) uint32 { return v[ring[i]] }
			if g[ring[0]]*g[ring[2]] > g[ring[1]]*g[ring[3]] {
				faces = append(faces, q(0), q(1), q(2), q(0), q(2), q(3))
			} else {
				faces = append(faces, q(0), q(1), q(3), q(3), q(1), q(2))
			}
		}
	}
	return faces
}
