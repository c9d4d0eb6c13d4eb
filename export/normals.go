// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package export

import (
	"math"

	"github.com/gomlx3d/image3d/flexicubes"
	"github.com/gomlx3d/image3d/internal/geom"
)

// vertexNormals returns a normal for each vertex: the sum of those of its faces, each weighted by its area. Its length
// means nothing and is zero for a vertex without faces.
func vertexNormals(m *flexicubes.Mesh) []geom.Vec3 {
	sums := make([]geom.Vec3, len(m.Vertices)/3)
	for i := 0; i+2 < len(m.Faces); i += 3 {
		n := faceNormal(m, i)
		for _, vertex := range m.Faces[i : i+3] {
			sums[vertex] = sums[vertex].Add(n)
		}
	}
	return sums
}

// faceNormal returns the normal of the face whose indices start at i; its length is twice the area. Float64 neither
// overflows nor vanishes for any float32 coordinates.
func faceNormal(m *flexicubes.Mesh, i int) geom.Vec3 {
	a, b, c := vertexAt(m, m.Faces[i]), vertexAt(m, m.Faces[i+1]), vertexAt(m, m.Faces[i+2])
	return b.Sub(a).Cross(c.Sub(a))
}

// unit returns v at length 1, or fallback if v has no direction.
func unit(v geom.Vec3, fallback [3]float32) [3]float32 {
	largest := max(math.Abs(v[0]), math.Abs(v[1]), math.Abs(v[2]))
	if !(largest > 0) || math.IsInf(largest, 0) {
		return fallback
	}
	x, y, z := v[0]/largest, v[1]/largest, v[2]/largest // no square of these vanishes or overflows
	length := math.Sqrt(x*x + y*y + z*z)
	return [3]float32{float32(x / length), float32(y / length), float32(z / length)}
}

func vertexAt(m *flexicubes.Mesh, index uint32) geom.Vec3 {
	v := m.Vertices[3*int(index) : 3*int(index)+3]
	return geom.Vec3{float64(v[0]), float64(v[1]), float64(v[2])}
}
