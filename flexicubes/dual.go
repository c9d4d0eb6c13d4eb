// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flexicubes

import "context"

// sample is what is known at a grid vertex. A field fills it with raw values, which activate turns into final ones.
type sample struct {
	sdf      float32
	position [3]float32 // raw: deformation; final: position
	color    [6]float32 // raw: before the sigmoid; final: between 0 and 1
}

// field is what extraction reads besides signs.
type field interface {
	// samples stores raw values for those vertices of row (x, y) whose bits are set, one after the other.
	samples(x, y int, row []uint64, out []sample)
	// weights returns the raw weights of a cube: 12 for its edges, 8 for its corners, one for the split of quads.
	weights(x, y, z int) (beta, alpha []float32, gamma float32)
	// colored reports whether there are colours.
	colored() bool
}

// extraction turns a surface and a field into a mesh.
type extraction struct {
	*surface
	source  field
	scale   float32   // of the weights around their neutral value
	offset  float32   // (1-scale)/2
	samples []sample  // of the active vertices
	gamma   []float32 // of the surface cubes
	mesh    Mesh
}

// extract runs the stages in order.
func extract(ctx context.Context, s *surface, f field, weightScale float64) (*Mesh, error) {
	e := &extraction{surface: s, source: f, scale: float32(weightScale), offset: float32((1 - weightScale) / 2)}
	if err := s.build(ctx); err != nil {
		return nil, err
	}
	e.samples = make([]sample, s.numActive)
	if err := eachRow(ctx, s.res+1, e.sampleRow); err != nil {
		return nil, err
	}
	e.mesh.Vertices = make([]float32, 3*s.numVertices)
	if f.colored() {
		e.mesh.Colors = make([]float32, 3*s.numVertices)
		e.mesh.NormalMap = make([]float32, 3*s.numVertices)
	}
	e.gamma = make([]float32, len(s.cases))
	if err := eachRow(ctx, s.res, e.dualRow); err != nil {
		return nil, err
	}
	if err := e.quads(ctx); err != nil {
		return nil, err
	}
	return &e.mesh, nil
}

// sampleRow reads the field at the active vertices of a row.
func (e *extraction) sampleRow(x, y int) {
	row := e.active.row(x, y)
	n := size(row)
	if n == 0 {
		return
	}
	out := e.samples[e.active.index(e.active.start(x, y), 0):][:n]
	e.source.samples(x, y, row, out)
	i := 0
	for z := range points(row) {
		e.activate(&out[i], x, y, z)
		i++
	}
}

// activate replaces raw values by final ones. A vertex moves by less than half a cube along each axis.
func (e *extraction) activate(v *sample, x, y, z int) {
	reach := float32((1 - 1e-8) / float64(2*e.res))
	for i, n := range [3]int{x, y, z} {
		p := float32(n)/float32(e.res) - 0.5
		v.position[i] = p + float32(reach*tanh(v.position[i]))
	}
	if e.source.colored() {
		for i := range v.color {
			v.color[i] = sigmoid(v.color[i])
		}
	}
}

// dualRow computes the dual vertices of a row of cubes.
func (e *extraction) dualRow(x, y int) {
	i := e.cubes.index(e.cubes.start(x, y), 0)
	for z := range points(e.cubes.row(x, y)) {
		e.dualCube(i, x, y, z)
		i++
	}
}

// dualCube computes the dual vertices of the i-th surface cube: for each patch the mean, with weights beta, of the
// points where the surface crosses its edges, which depend on the sdf times alpha at the ends.
func (e *extraction) dualCube(i, x, y, z int) {
	shape := &signCases()[e.cases[i]]
	beta, alpha, gamma := e.source.weights(x, y, z)
	e.gamma[i] = float32(sigmoid(gamma)*e.scale) + e.offset
	var corners [8]*sample
	var sdf [8]float32
	for c := range corners {
		if shape.corners>>c&1 == 0 {
			continue
		}
		v := &e.samples[e.active.index(e.active.start(x+c&1, y+c>>1&1), z+c>>2)]
		corners[c] = v
		sdf[c] = v.sdf * e.spread(alpha[c])
	}
	for p := range int(shape.count) {
		var sum sample
		total := float32(0)
		for _, edge := range shape.patches[p] {
			a, b := edgeCorners[edge][0], edgeCorners[edge][1]
			w := e.spread(beta[edge])
			total += w
			sum.addCrossing(corners[a], corners[b], sdf[a], sdf[b], w, e.mesh.Colors != nil)
		}
		e.store(int(e.first[i])+p, &sum, total)
	}
}

// spread maps a raw weight to one around 1.
func (e *extraction) spread(raw float32) float32 {
	if raw == 0 {
		return 1
	}
	return float32(tanh(raw)*e.scale) + 1
}

// addCrossing adds w times the point where the surface crosses the edge from a to b.
func (v *sample) addCrossing(a, b *sample, sdfA, sdfB, w float32, color bool) {
	ka, kb := sdfB, -sdfA
	den := ka + kb
	if den == 0 { // both ends underflowed
		ka, kb, den = 1, 1, 2
	}
	for i := range v.position {
		u := (float32(a.position[i]*ka) + float32(b.position[i]*kb)) / den
		v.position[i] += float32(u * w)
	}
	if !color {
		return
	}
	for i := range v.color {
		u := (float32(a.color[i]*ka) + float32(b.color[i]*kb)) / den
		v.color[i] += float32(u * w)
	}
}

// store writes a dual vertex.
func (e *extraction) store(vertex int, sum *sample, total float32) {
	for i := range 3 {
		e.mesh.Vertices[3*vertex+i] = sum.position[i] / total
	}
	if e.mesh.Colors == nil {
		return
	}
	for i := range 3 {
		e.mesh.Colors[3*vertex+i] = sum.color[i] / total
		e.mesh.NormalMap[3*vertex+i] = sum.color[3+i] / total
	}
}
