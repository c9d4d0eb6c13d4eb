// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package flexicubes extracts triangle meshes with FlexiCubes: dual marching cubes whose vertices are moved by learned
// weights. It is plain Go and needs no tensor library.
//
//   - [FromVoxels] meshes the sparse output of a mesh decoder: a row of features for each occupied cube.
//   - [FromField] meshes a field that is given at every vertex of a grid.
//
// A grid of resolution R has R^3 cubes and (R+1)^3 vertices over the unit cube [-0.5, 0.5]^3. Vertex (x, y, z) has
// index (x*(R+1)+y)*(R+1)+z and cube (x, y, z) has index (x*R+y)*R+z. Corner c of a cube is the vertex
// (x + c&1, y + c>>1&1, z + c>>2&1). A vertex is inside where the signed distance is below zero.
//
// Signs decide everything but positions, so they are kept as one bit for each grid vertex and the surface is found by
// logic on 64 vertices at a time; all else exists for the neighbourhood of the surface alone. Work is divided among
// GOMAXPROCS goroutines by rows. Every number is computed in one fixed order, so that a mesh does not depend on how
// many there are, nor on the order of the voxels.
//
// The algorithm is that of Shen et al., "Flexible Isosurface Extraction for Gradient-Based Mesh Optimization",
// SIGGRAPH 2023, as the mesh decoder of SAM 3D Objects uses it: no QEF solve, no regulariser, no tetrahedra.
package flexicubes

import "errors"

// MaxResolution is the largest grid resolution R. Below it every vertex index of any mesh fits 31 bits.
const MaxResolution = 512

// ErrInput is wrapped by errors about the shape, the number or the range of arguments.
var ErrInput = errors.New("flexicubes: invalid input")

// ErrNotFinite is wrapped by errors about values that are NaN, infinite or so large (2^60) that arithmetic on them
// might overflow: the model that made them is at fault, not the call.
var ErrNotFinite = errors.New("flexicubes: value is not finite")

// Mesh is an indexed triangle mesh with flat attributes, the layout that GPUs and file formats take. All values are
// finite. An empty surface gives a mesh of no vertices, which is not an error.
type Mesh struct {
	// Vertices holds positions [V, 3] in the object frame, mostly within [-0.5, 0.5], z up. Where a grid border cuts
	// the surface there are vertices that no face uses.
	Vertices []float32
	// Faces holds vertex indices [F, 3], counter-clockwise seen from outside. Two consecutive triangles are one quad.
	Faces []uint32
	// Colors holds RGB [V, 3] between 0 and 1. It is nil if the input had no colours.
	Colors []float32
	// NormalMap holds the three further learned channels [V, 3], between 0 and 1: normals encoded as colours, which
	// are not unit vectors and which the released exporter does not use. It is nil if Colors is.
	NormalMap []float32
}
