// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package export

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/qmuntal/gltf"

	"github.com/gomlx3d/image3d/flexicubes"
	"github.com/gomlx3d/image3d/internal/geom"
)

// Limits of what ReadGLB follows: nodes inside nodes, and how many times larger than its file a mesh may become where
// nodes share one.
const (
	maxNodeDepth = 64
	maxInstances = 16
)

// ReadGLB reads the triangles of a binary glTF file as one mesh: those of all nodes of its scene, moved by their
// transforms and turned from y up to z up, so that a file that WriteGLB wrote of one mesh without a pose gives that
// mesh. Colours are the vertex colours times the material's base colour, as sRGB; normals, textures and the rest are
// ignored. Arrays must lie in the file itself, uncompressed and not sparse. size is that of the file.
//
// The error wraps ErrGLB, ErrEmptyMesh, or what r failed with.
func ReadGLB(r io.ReaderAt, size int64) (*flexicubes.Mesh, error) {
	doc, chunk, err := readGLB(r, size)
	if err != nil {
		return nil, fmt.Errorf("export: read GLB: %w", err)
	}
	data := make([]byte, chunk.Size()) // no more than the file holds
	if _, err := io.ReadFull(chunk, data); err != nil {
		return nil, fmt.Errorf("export: read GLB: %w", err)
	}
	g := glbMesh{doc: doc, data: data, mesh: &flexicubes.Mesh{}, left: maxInstances * (len(data) + 1024)}
	for _, root := range g.roots() {
		if err := g.node(root, identity4(), 0); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrGLB, err)
		}
	}
	if !g.colored {
		g.mesh.Colors = nil
	}
	if err := checkFilledMesh(g.mesh); errors.Is(err, ErrEmptyMesh) {
		return nil, fmt.Errorf("export: read GLB: %w", err)
	} else if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrGLB, err)
	}
	return g.mesh, nil
}

// glbMesh collects the mesh of a file.
type glbMesh struct {
	doc  *gltf.Document
	data []byte // the binary chunk
	mesh *flexicubes.Mesh
	left int // bytes that mesh may still grow by
	// colored is whether any part has a colour other than the white of glTF's default.
	colored bool
}

// roots returns the nodes of the scene, or all nodes that are in no other if there is no scene.
func (g *glbMesh) roots() []int {
	scene := 0
	if g.doc.Scene != nil {
		scene = *g.doc.Scene
	}
	if scene >= 0 && scene < len(g.doc.Scenes) && g.doc.Scenes[scene] != nil {
		return g.doc.Scenes[scene].Nodes
	}
	inner := make([]bool, len(g.doc.Nodes))
	for _, n := range g.doc.Nodes {
		if n == nil {
			continue
		}
		for _, child := range n.Children {
			if child >= 0 && child < len(inner) {
				inner[child] = true
			}
		}
	}
	var roots []int
	for i := range inner {
		if !inner[i] {
			roots = append(roots, i)
		}
	}
	return roots
}

// matrix4 maps columns; it is stored by columns, as glTF does.
type matrix4 [16]float64

func identity4() matrix4 { return matrix4(gltf.DefaultMatrix) }

func (m matrix4) mul(n matrix4) (out matrix4) {
	for column := range 4 {
		for row := range 4 {
			for k := range 4 {
				out[4*column+row] += m[4*k+row] * n[4*column+k]
			}
		}
	}
	return out
}

// local returns the transform of a node.
func local(n *gltf.Node) matrix4 {
	if m := n.MatrixOrDefault(); m != gltf.DefaultMatrix {
		return m
	}
	t, q, s := n.Translation, n.RotationOrDefault(), n.ScaleOrDefault()
	r := geom.Quat{W: q[3], X: q[0], Y: q[1], Z: q[2]}.Matrix()
	m := identity4()
	for column := range 3 {
		for row := range 3 {
			m[4*column+row] = r[row][column] * s[column]
		}
		m[12+column] = t[column]
	}
	return m
}

func (g *glbMesh) node(index int, parent matrix4, depth int) error {
	if index < 0 || index >= len(g.doc.Nodes) || g.doc.Nodes[index] == nil || depth > maxNodeDepth {
		return fmt.Errorf("node %d does not exist or is its own child", index)
	}
	if g.left -= 64; g.left < 0 { // nodes that share children can be very many
		return errors.New("nodes repeat each other too often")
	}
	n := g.doc.Nodes[index]
	m := parent.mul(local(n))
	if n.Mesh != nil {
		if *n.Mesh < 0 || *n.Mesh >= len(g.doc.Meshes) || g.doc.Meshes[*n.Mesh] == nil {
			return fmt.Errorf("node %d has mesh %d, which does not exist", index, *n.Mesh)
		}
		for i, p := range g.doc.Meshes[*n.Mesh].Primitives {
			if p == nil || p.Mode != gltf.PrimitiveTriangles {
				continue // points and lines have no surface
			}
			if err := g.primitive(p, m); err != nil {
				return fmt.Errorf("mesh %d, part %d: %w", *n.Mesh, i, err)
			}
		}
	}
	for _, child := range n.Children {
		if err := g.node(child, m, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// primitive appends one array of triangles.
func (g *glbMesh) primitive(p *gltf.Primitive, m matrix4) error {
	at, ok := p.Attributes[gltf.POSITION]
	if !ok {
		return errors.New("it has no positions")
	}
	positions, err := g.array(at, 3, 3)
	if err != nil {
		return fmt.Errorf("positions: %w", err)
	}
	count := len(positions) / 3
	faces, err := g.faces(p, count, m)
	if err != nil {
		return fmt.Errorf("faces: %w", err)
	}
	colors, err := g.colors(p, count)
	if err != nil {
		return fmt.Errorf("colours: %w", err)
	}
	if g.left -= 4 * (len(positions) + len(colors) + len(faces)); g.left < 0 {
		return errors.New("nodes repeat the mesh too often")
	}
	first := uint32(len(g.mesh.Vertices) / 3)
	for _, index := range faces {
		g.mesh.Faces = append(g.mesh.Faces, first+index)
	}
	for i := range count {
		x, y, z := positions[3*i], positions[3*i+1], positions[3*i+2]
		row := func(k int) float32 { return float32(m[k]*x + m[4+k]*y + m[8+k]*z + m[12+k]) }
		g.mesh.Vertices = append(g.mesh.Vertices, row(0), -row(2), row(1))
	}
	g.mesh.Colors = append(g.mesh.Colors, colors...)
	return nil
}

// faces returns the indices of a primitive, turned round if its transform mirrors.
func (g *glbMesh) faces(p *gltf.Primitive, vertices int, m matrix4) ([]uint32, error) {
	n := vertices
	var indices []float64
	if p.Indices != nil {
		var err error
		if indices, err = g.array(*p.Indices, 1, 1); err != nil {
			return nil, err
		}
		n = len(indices)
	}
	if n%3 != 0 {
		return nil, fmt.Errorf("%d corners", n)
	}
	out := make([]uint32, n)
	for i := range out {
		out[i] = uint32(i)
		if indices == nil {
			continue
		}
		if !(indices[i] >= 0 && indices[i] < float64(vertices)) {
			return nil, fmt.Errorf("vertex %v of %d", indices[i], vertices)
		}
		out[i] = uint32(indices[i])
	}
	linear := geom.Mat3{{m[0], m[4], m[8]}, {m[1], m[5], m[9]}, {m[2], m[6], m[10]}}
	if linear.Det() < 0 {
		for i := 0; i < n; i += 3 {
			out[i], out[i+1] = out[i+1], out[i]
		}
	}
	return out, nil
}

// colors returns sRGB colours of a primitive.
func (g *glbMesh) colors(p *gltf.Primitive, vertices int) ([]float32, error) {
	base := [4]float64{1, 1, 1, 1}
	if p.Material != nil && *p.Material >= 0 && *p.Material < len(g.doc.Materials) && g.doc.Materials[*p.Material] != nil {
		if pbr := g.doc.Materials[*p.Material].PBRMetallicRoughness; pbr != nil {
			base = pbr.BaseColorFactorOrDefault()
		}
	}
	out := make([]float32, 3*vertices)
	at, colored := p.Attributes[gltf.COLOR_0]
	g.colored = g.colored || colored || base != [4]float64{1, 1, 1, 1}
	width, values := 3, []float64(nil)
	if colored {
		var err error
		if values, err = g.array(at, 3, 4); err != nil {
			return nil, err
		}
		if len(values) == 4*vertices {
			width = 4
		} else if len(values) != 3*vertices {
			return nil, fmt.Errorf("%d channels for %d vertices", len(values), vertices)
		}
	}
	for i := range out {
		c := base[i%3]
		if colored {
			c *= values[i/3*width+i%3]
		}
		out[i] = float32(sRGBFromLinear(min(max(c, 0), 1)))
	}
	return out, nil
}

// sRGBFromLinear is the inverse of linearFromSRGB.
func sRGBFromLinear(c float64) float64 {
	if c <= 0.0031308 {
		return 12.92 * c
	}
	return 1.055*math.Pow(c, 1/2.4) - 0.055
}

// array returns the numbers of an accessor with lo to hi components; normalised ones are from 0 to 1.
func (g *glbMesh) array(index, lo, hi int) ([]float64, error) {
	if index < 0 || index >= len(g.doc.Accessors) || g.doc.Accessors[index] == nil {
		return nil, fmt.Errorf("accessor %d does not exist", index)
	}
	a := g.doc.Accessors[index]
	width, ok := map[gltf.AccessorType]int{gltf.AccessorScalar: 1, gltf.AccessorVec2: 2, gltf.AccessorVec3: 3, gltf.AccessorVec4: 4}[a.Type]
	kind, known := map[gltf.ComponentType]kind{
		gltf.ComponentUbyte: kindUint8, gltf.ComponentUshort: kindUint16, gltf.ComponentUint: kindUint32, gltf.ComponentFloat: kindFloat32,
	}[a.ComponentType]
	if !ok || !known || width < lo || width > hi || a.Sparse != nil || a.BufferView == nil {
		return nil, fmt.Errorf("accessor %d has an unexpected type, or no array", index)
	}
	if *a.BufferView < 0 || *a.BufferView >= len(g.doc.BufferViews) || g.doc.BufferViews[*a.BufferView] == nil {
		return nil, fmt.Errorf("buffer view %d does not exist", *a.BufferView)
	}
	v := g.doc.BufferViews[*a.BufferView]
	if v.Buffer != 0 || len(g.doc.Buffers) == 0 || g.doc.Buffers[0] == nil || g.doc.Buffers[0].URI != "" {
		return nil, fmt.Errorf("buffer %d is not in the file", v.Buffer)
	}
	row := width * kind.size()
	stride := max(v.ByteStride, row)
	if v.ByteOffset < 0 || v.ByteLength < 0 || v.ByteOffset > len(g.data) || v.ByteLength > len(g.data)-v.ByteOffset {
		return nil, fmt.Errorf("buffer view %d is outside", *a.BufferView)
	}
	data := g.data[v.ByteOffset : v.ByteOffset+v.ByteLength]
	if a.ByteOffset < 0 || a.Count < 0 || a.ByteOffset > len(data) ||
		a.Count > 0 && (len(data)-a.ByteOffset < row || (len(data)-a.ByteOffset-row)/stride < a.Count-1) {
		return nil, fmt.Errorf("accessor %d reaches beyond its buffer view", index)
	}
	scale := 1.0
	if a.Normalized && kind != kindFloat32 {
		scale = 1 / (math.Exp2(float64(8*kind.size())) - 1)
	}
	out := make([]float64, 0, a.Count*width)
	for i := range a.Count {
		at := data[a.ByteOffset+i*stride:]
		for k := range width {
			out = append(out, scale*glbNumber(at[k*kind.size():], kind))
		}
	}
	return out, nil
}

// glbNumber is number for the types of glTF, without its detours.
func glbNumber(b []byte, k kind) float64 {
	switch k {
	case kindUint8:
		return float64(b[0])
	case kindUint16:
		return float64(binary.LittleEndian.Uint16(b))
	case kindUint32:
		return float64(binary.LittleEndian.Uint32(b))
	}
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
}
