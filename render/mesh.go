// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package render

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/gomlx3d/image3d/flexicubes"
	"github.com/gomlx3d/image3d/internal/geom"
)

// ErrMesh is wrapped by errors about meshes whose parts do not fit together, and about a number of samples that is out
// of range.
var ErrMesh = errors.New("render: invalid mesh")

// maxSamples is the largest Mesh.Samples.
const maxSamples = 8

// grey is the colour of meshes without colours.
const grey = 0.75

// Mesh is a triangle mesh prepared for drawing. It may be drawn by many goroutines at the same time.
type Mesh struct {
	// Samples² samples of each pixel are taken; 0 means 4, and 8 is the most.
	Samples int
	// Unlit shows the vertex colours as they are. Otherwise a light at the camera, from its upper left, shows the shape.
	Unlit bool

	vertices [][3]float32
	normals  [][3]float32
	colors   []float32 // [V, 3] or nil
	faces    []uint32
	scratch  sync.Pool // of *meshScratch
}

// NewMesh prepares a mesh. It shares the slices of m, which must not change while the result is in use. Both sides of a
// triangle are drawn; where a vertex is not finite, its triangles are left out.
//
// The error wraps ErrMesh for an index without a vertex and for lengths that disagree.
func NewMesh(m *flexicubes.Mesh) (*Mesh, error) {
	if m == nil {
		return nil, fmt.Errorf("%w: it is nil", ErrMesh)
	}
	n := len(m.Vertices) / 3
	if len(m.Vertices)%3 != 0 || len(m.Faces)%3 != 0 || m.Colors != nil && len(m.Colors) != len(m.Vertices) ||
		uint64(n) > math.MaxUint32 {
		return nil, fmt.Errorf("%w: %d coordinates, %d indices, %d colour channels", ErrMesh,
			len(m.Vertices), len(m.Faces), len(m.Colors))
	}
	for i, index := range m.Faces {
		if uint64(index) >= uint64(n) {
			return nil, fmt.Errorf("%w: face %d has vertex %d of %d", ErrMesh, i/3, index, n)
		}
	}
	out := &Mesh{vertices: make([][3]float32, n), colors: m.Colors, faces: m.Faces}
	for i := range out.vertices {
		out.vertices[i] = [3]float32(m.Vertices[3*i : 3*i+3])
	}
	out.normals = vertexNormals(out.vertices, m.Faces)
	return out, nil
}

// vertexNormals returns the sum of the normals of the faces around each vertex, weighted by their areas, at length 1,
// or zero where that has no direction.
func vertexNormals(vertices [][3]float32, faces []uint32) [][3]float32 {
	sums := make([]geom.Vec3, len(vertices))
	for i := 0; i+2 < len(faces); i += 3 {
		a := vec(vertices[faces[i]])
		n := vec(vertices[faces[i+1]]).Sub(a).Cross(vec(vertices[faces[i+2]]).Sub(a))
		for _, v := range faces[i : i+3] {
			sums[v] = sums[v].Add(n)
		}
	}
	out := make([][3]float32, len(vertices))
	for i, n := range sums {
		if length := n.Norm(); length > 0 && length <= math.MaxFloat64 {
			out[i] = [3]float32{float32(n[0] / length), float32(n[1] / length), float32(n[2] / length)}
		}
	}
	return out
}

func vec(v [3]float32) geom.Vec3 { return geom.Vec3{float64(v[0]), float64(v[1]), float64(v[2])} }

// Bounds returns the smallest box that holds the finite vertices of faces, for Fit. That of none is inverted.
func (m *Mesh) Bounds() (lo, hi [3]float32) {
	for k := range lo {
		lo[k], hi[k] = float32(math.Inf(1)), float32(math.Inf(-1))
	}
	for _, index := range m.faces {
		v := m.vertices[index]
		if !vec(v).Finite() {
			continue
		}
		for k, x := range v {
			lo[k], hi[k] = min(lo[k], x), max(hi[k], x)
		}
	}
	return lo, hi
}

// meshScratch is the memory of one frame.
type meshScratch struct {
	seen      []geom.Vec3 // vertices in the axes of the camera
	triangles []triangle
	boxes     []pixelBox
	parts     []trianglePart // of chunks of faces
}

// trianglePart is what one chunk of faces becomes.
type trianglePart struct {
	triangles []triangle
	boxes     []pixelBox
}

// Draw draws the mesh as a camera sees it. What is nearer than Camera.Near is cut off.
//
// The error wraps ErrCamera, ErrMesh if Samples is out of range, or ctx.Err().
func (m *Mesh) Draw(ctx context.Context, c Camera) (*Frame, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	samples := m.Samples
	if samples == 0 {
		samples = 4
	}
	if samples < 1 || samples > maxSamples {
		return nil, fmt.Errorf("%w: %d samples, want 1 to %d", ErrMesh, samples, maxSamples)
	}
	s, ok := m.scratch.Get().(*meshScratch)
	if !ok {
		s = &meshScratch{}
	}
	defer m.scratch.Put(s)
	g := newGrid(c.Width, c.Height)
	if err := m.project(ctx, &c, g, samples, s); err != nil {
		return nil, err
	}
	frame := newFrame(c)
	shader := newShader(m, &c, s.seen)
	var tiles sync.Pool // of *meshTile
	err := g.forTiles(ctx, s.boxes, func(tile int, list []uint32) {
		t, ok := tiles.Get().(*meshTile)
		if !ok {
			t = newMeshTile(samples)
		}
		defer tiles.Put(t)
		t.draw(ctx, g.box(tile), s.triangles, list)
		t.resolve(frame, shader, s.triangles)
	})
	if err != nil {
		return nil, err
	}
	return frame, nil
}

// project fills s with the triangles that a camera may see, in the order of faces.
func (m *Mesh) project(ctx context.Context, c *Camera, g grid, samples int, s *meshScratch) error {
	s.seen = resize(s.seen, len(m.vertices))
	err := inChunks(ctx, len(m.vertices), chunk, func(start, end int) {
		for i := start; i < end; i++ {
			s.seen[i][0], s.seen[i][1], s.seen[i][2] = c.view(m.vertices[i])
		}
	})
	if err != nil {
		return err
	}
	faces := len(m.faces) / 3
	s.parts = resize(s.parts, (faces+chunk-1)/chunk)
	err = inChunks(ctx, faces, chunk, func(start, end int) {
		part := &s.parts[start/chunk]
		part.triangles, part.boxes = part.triangles[:0], part.boxes[:0]
		for i := start; i < end; i++ {
			m.face(c, g, samples, s.seen, i, part)
		}
	})
	if err != nil {
		return err
	}
	s.triangles, s.boxes = s.triangles[:0], s.boxes[:0]
	for i := range s.parts {
		s.triangles = append(s.triangles, s.parts[i].triangles...)
		s.boxes = append(s.boxes, s.parts[i].boxes...)
	}
	return nil
}

// face appends what the camera sees of one face to part: nothing, a triangle, or two where it is cut off.
func (m *Mesh) face(c *Camera, g grid, samples int, seen []geom.Vec3, i int, part *trianglePart) {
	corners := [3]geom.Vec3{seen[m.faces[3*i]], seen[m.faces[3*i+1]], seen[m.faces[3*i+2]]}
	if corners[0][2] >= c.Near && corners[1][2] >= c.Near && corners[2][2] >= c.Near {
		part.add(c, g, samples, uint32(i), corners)
		return
	}
	polygon, n := clipNear(corners, c.Near)
	for k := 2; k < n; k++ {
		part.add(c, g, samples, uint32(i), [3]geom.Vec3{polygon[0], polygon[k-1], polygon[k]})
	}
}

// clipNear cuts off what is nearer than near. It returns the first n corners of a polygon.
func clipNear(corners [3]geom.Vec3, near float64) (polygon [4]geom.Vec3, n int) {
	for k, a := range corners {
		b := corners[(k+1)%3]
		if a[2] >= near {
			polygon[n] = a
			n++
		}
		if (a[2] >= near) == (b[2] >= near) {
			continue
		}
		in, out := a, b // in this order for both faces of the edge, so that they meet exactly
		if b[2] >= near {
			in, out = b, a
		}
		f := (near - in[2]) / (out[2] - in[2])
		cut := in.Add(out.Sub(in).Scale(f))
		cut[2] = near
		polygon[n] = cut
		n++
	}
	return polygon, n
}

// add appends a triangle if it is finite and has a sample inside its box.
func (p *trianglePart) add(c *Camera, g grid, samples int, face uint32, corners [3]geom.Vec3) {
	t := triangle{face: face}
	for k, v := range corners {
		t.corners[k] = corner{float32(c.FX*v[0]/v[2] + c.CX), float32(c.FY*v[1]/v[2] + c.CY), float32(1 / v[2])}
	}
	x0, y0, x1, y1 := t.bounds()
	if sum := x0 + y0 + x1 + y1 + t.corners[0].w + t.corners[1].w + t.corners[2].w; sum-sum != 0 {
		return
	}
	if noSample(x0, x1, samples) || noSample(y0, y1, samples) {
		return
	}
	// Samples lie up to half a pixel from the centre of theirs.
	box := g.clip(float64(x0)-0.5, float64(y0)-0.5, float64(x1)+0.5, float64(y1)+0.5)
	if box.empty() {
		return
	}
	p.triangles = append(p.triangles, t)
	p.boxes = append(p.boxes, box)
}

// noSample reports whether there is no sample, at (i + 0.5)/samples, from lo to hi.
func noSample(lo, hi float32, samples int) bool {
	n := float64(samples)
	return math.Ceil(float64(lo)*n-0.5) > math.Floor(float64(hi)*n-0.5)
}
