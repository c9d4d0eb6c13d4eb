// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package render

import (
	"math"

	"github.com/gomlx3d/image3d/internal/geom"
)

// Light that comes from everywhere, and from the lamp.
const ambient, lamp = 0.45, 0.6

// shader knows the colours of the faces of a mesh.
type shader struct {
	mesh   *Mesh
	camera *Camera
	seen   []geom.Vec3 // vertices in the axes of the camera
	light  geom.Vec3   // direction to the lamp, in the axes of the mesh
}

func newShader(m *Mesh, c *Camera, seen []geom.Vec3) *shader {
	light := geom.Vec3(c.Right).Scale(-0.4).Sub(geom.Vec3(c.Down).Scale(0.6)).Sub(geom.Vec3(c.Forward))
	return &shader{m, c, seen, light.Normalize()}
}

// color returns the colour of a face where the camera sees it at the pixel coordinates x, y.
func (s *shader) color(face uint32, x, y float64) [3]float32 {
	index := s.mesh.faces[3*face : 3*face+3]
	weights := s.weights(index, x, y)
	color := [3]float32{grey, grey, grey}
	if s.mesh.colors != nil {
		color = [3]float32{}
		for k, v := range index {
			for channel, c := range s.mesh.colors[3*v : 3*v+3] {
				color[channel] += float32(weights[k]) * c
			}
		}
	}
	light := float32(1)
	if !s.mesh.Unlit {
		light = s.lit(index, weights)
	}
	for k, c := range color {
		if color[k] = light * min(max(c, 0), 1); !(color[k] <= 1) { // or NaN
			color[k] = 1
		}
	}
	return color
}

// lit returns the brightness, from the normals of the corners. A face seen from behind is lit from behind too.
func (s *shader) lit(index []uint32, weights [3]float64) float32 {
	a, b, c := s.seen[index[0]], s.seen[index[1]], s.seen[index[2]]
	front := b.Sub(a).Cross(c.Sub(a)).Dot(a) // below zero where the camera sees the front, if its axes are right-handed
	if geom.Vec3(s.camera.Right).Cross(s.camera.Down).Dot(s.camera.Forward) < 0 {
		front = -front
	}
	var normal geom.Vec3
	for k, v := range index {
		normal = normal.Add(vec(s.mesh.normals[v]).Scale(weights[k]))
	}
	cosine := normal.Normalize().Dot(s.light)
	if front > 0 {
		cosine = -cosine
	}
	return float32(ambient + lamp*max(0, cosine))
}

// weights returns how much each corner of a face counts where the line of sight through x, y meets it (Möller and
// Trumbore, 1997), none less than 0.
func (s *shader) weights(index []uint32, x, y float64) [3]float64 {
	a, b, c := s.seen[index[0]], s.seen[index[1]], s.seen[index[2]]
	sight := geom.Vec3{(x - s.camera.CX) / s.camera.FX, (y - s.camera.CY) / s.camera.FY, 1}
	// Each is the volume that the line of sight spans with the edge across, and all have the same sign inside.
	w := [3]float64{sight.Dot(b.Cross(c)), sight.Dot(c.Cross(a)), sight.Dot(a.Cross(b))}
	if w[0]+w[1]+w[2] < 0 {
		w = [3]float64{-w[0], -w[1], -w[2]}
	}
	sum := 0.0
	for k := range w {
		w[k] = max(w[k], 0)
		sum += w[k]
	}
	if !(sum > 0 && sum <= math.MaxFloat64) {
		return [3]float64{1.0 / 3, 1.0 / 3, 1.0 / 3}
	}
	return [3]float64{w[0] / sum, w[1] / sum, w[2] / sum}
}
