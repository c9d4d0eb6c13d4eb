// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package export

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"

	"github.com/qmuntal/gltf"

	"github.com/gomlx3d/image3d/flexicubes"
	"github.com/gomlx3d/image3d/internal/geom"
	"github.com/gomlx3d/image3d/splat"
)

// GLBOptions changes what WriteGLB writes. Its zero value is a file that viewers show in the colours of the picture.
type GLBOptions struct {
	// RawColors writes what SAM 3D Objects writes (to_glb): colours as 8-bit values of the picture's sRGB space, no
	// normals, no material. glTF defines vertex colours as linear, so viewers show such a file too bright.
	RawColors bool
	// Camera adds the camera that took the photograph. Nil adds none.
	Camera *Camera
}

// Part is one mesh of a GLB file.
type Part struct {
	Name string // of the node, for the outline of an editor; may be empty
	Mesh *flexicubes.Mesh
	// Pose places the mesh. With nil it stays in its own frame, turned to y up.
	Pose *splat.Pose
}

// WriteGLB writes meshes as one binary glTF 2.0 file: a node and a mesh for each part.
//
// Positions are those of the mesh turned from z up to y up, (x, y, z) to (x, z, -y), a rotation that keeps the winding.
// Colours are linear, 16 bits a channel; normals are the area-weighted means of the faces around a vertex; the material
// is white, rough and not metallic.
//
// The pose becomes the translation, rotation and scale of the node, and undoes the turn to y up first. World
// coordinates are then those of splat.Gaussians after Transform with the same pose: the camera at the origin looks
// along +Z, +X is left, +Y is up. The frame is right-handed, so nothing is mirrored.
//
// The error wraps ErrMesh for a mesh that is inconsistent, splat.ErrPose for a pose that is, ErrCamera, and ErrEmptyMesh
// if no part has a triangle. Next to others, a part without triangles is a node without a mesh.
func WriteGLB(w io.Writer, opt GLBOptions, parts ...Part) error {
	f := glbFile{opt: opt, doc: gltf.NewDocument()}
	f.doc.Asset.Generator = "image3d"
	for i, part := range parts {
		if err := f.add(part); err != nil {
			return fmt.Errorf("export: write GLB: part %d: %w", i, err)
		}
	}
	if len(f.doc.Meshes) == 0 {
		return fmt.Errorf("export: write GLB: %w (%d parts)", ErrEmptyMesh, len(parts))
	}
	err := f.camera(opt.Camera)
	if err == nil {
		err = f.write(w, func(s *stream) error {
			for i := 0; i < len(f.meshes) && s.err == nil; i++ {
				f.mesh(s, f.meshes[i])
			}
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("export: write GLB: %w", err)
	}
	return nil
}

// glbFile is the description of a file whose bytes are still in the meshes.
type glbFile struct {
	opt    GLBOptions
	doc    *gltf.Document
	meshes []*flexicubes.Mesh // of doc.Meshes
	size   int                // of the binary chunk so far; a multiple of 4
	extent float64            // how far from the origin posed parts reach
}

// add describes one part.
func (f *glbFile) add(part Part) error {
	m := part.Mesh
	if err := checkMesh(m); err != nil {
		return err
	}
	node, err := f.node(part.Name, part.Pose)
	if err != nil {
		return err
	}
	if len(m.Faces) > 0 {
		node.Mesh = gltf.Index(len(f.doc.Meshes))
		f.doc.Meshes = append(f.doc.Meshes, &gltf.Mesh{Name: part.Name, Primitives: []*gltf.Primitive{f.primitive(m)}})
		f.meshes = append(f.meshes, m)
	}
	return nil
}

// node adds a node to the scene, posed if it has a pose.
func (f *glbFile) node(name string, p *splat.Pose) (*gltf.Node, error) {
	node := &gltf.Node{Name: name}
	if p != nil {
		if err := splat.CheckPose(*p); err != nil {
			return nil, err
		}
		pose(node, *p)
		f.extent = max(f.extent, p.Translation.Norm()+p.Scale)
	}
	f.doc.Scenes[0].Nodes = append(f.doc.Scenes[0].Nodes, len(f.doc.Nodes))
	f.doc.Nodes = append(f.doc.Nodes, node)
	return node, nil
}

// pose gives a node the transform of p. A pose turns row vectors by R, so columns by the conjugate; before that comes
// the inverse of the turn to y up, a quarter turn about x.
func pose(node *gltf.Node, p splat.Pose) {
	half := math.Sqrt(0.5)
	rotation := p.Rotation.Normalize().Conj().Mul(geom.Quat{W: half, X: half}).Normalize()
	node.Translation = p.Translation
	node.Rotation = rotation.XYZW()
	node.Scale = [3]float64{p.Scale, p.Scale, p.Scale}
}

// primitive describes the arrays of a mesh in the order in which mesh writes them.
func (f *glbFile) primitive(m *flexicubes.Mesh) *gltf.Primitive {
	vertices := len(m.Vertices) / 3
	p := &gltf.Primitive{Attributes: gltf.PrimitiveAttributes{}, Mode: gltf.PrimitiveTriangles}
	p.Indices = gltf.Index(f.array(gltf.TargetElementArrayBuffer, 4*len(m.Faces), gltf.Accessor{
		ComponentType: gltf.ComponentUint, Type: gltf.AccessorScalar, Count: len(m.Faces),
	}))
	lo, hi := boundsYUp(m.Vertices)
	p.Attributes[gltf.POSITION] = f.array(gltf.TargetArrayBuffer, 12*vertices, gltf.Accessor{
		ComponentType: gltf.ComponentFloat, Type: gltf.AccessorVec3, Count: vertices, Min: lo[:], Max: hi[:],
	})
	if !f.opt.RawColors {
		p.Attributes[gltf.NORMAL] = f.array(gltf.TargetArrayBuffer, 12*vertices, gltf.Accessor{
			ComponentType: gltf.ComponentFloat, Type: gltf.AccessorVec3, Count: vertices,
		})
		p.Material = gltf.Index(0)
		if len(f.doc.Materials) == 0 {
			f.doc.Materials = []*gltf.Material{whiteMaterial()}
		}
	}
	if m.Colors != nil {
		component, size := gltf.ComponentUshort, 8
		if f.opt.RawColors {
			component, size = gltf.ComponentUbyte, 4
		}
		p.Attributes[gltf.COLOR_0] = f.array(gltf.TargetArrayBuffer, size*vertices, gltf.Accessor{
			ComponentType: component, Type: gltf.AccessorVec4, Count: vertices, Normalized: true,
		})
	}
	return p
}

func whiteMaterial() *gltf.Material {
	return &gltf.Material{Name: "vertex colors", PBRMetallicRoughness: &gltf.PBRMetallicRoughness{
		BaseColorFactor: &[4]float64{1, 1, 1, 1}, MetallicFactor: gltf.Float(0), RoughnessFactor: gltf.Float(1),
	}}
}

// array describes the next size bytes of the binary chunk and returns the index of their accessor.
func (f *glbFile) array(target gltf.Target, size int, a gltf.Accessor) int {
	a.BufferView = gltf.Index(len(f.doc.BufferViews))
	f.doc.BufferViews = append(f.doc.BufferViews, &gltf.BufferView{ByteOffset: f.size, ByteLength: size, Target: target})
	f.doc.Accessors = append(f.doc.Accessors, &a)
	f.size += size
	return len(f.doc.Accessors) - 1
}

// Chunk types and the magic number of a GLB file, in little-endian letters.
const (
	glbMagic  = 0x46546C67 // glTF
	glbJSON   = 0x4E4F534A // JSON
	glbBinary = 0x004E4942 // BIN
)

// write writes the file, body its binary chunk. The encoder of package gltf would need all of it in memory, and it drops
// errors of w.
func (f *glbFile) write(w io.Writer, body func(*stream) error) error {
	f.doc.Buffers = []*gltf.Buffer{{ByteLength: f.size}}
	description, err := json.Marshal(f.doc)
	if err != nil {
		return err
	}
	for len(description)%4 != 0 {
		description = append(description, ' ')
	}
	total := uint64(12+8+len(description)+8) + uint64(f.size)
	if total > math.MaxUint32 {
		return fmt.Errorf("%w: %d bytes, and GLB ends at 4 GiB", ErrMesh, total)
	}
	s := newStream(w)
	s.uint32s(glbMagic, 2, uint32(total), uint32(len(description)), glbJSON)
	s.bytes(description)
	s.uint32s(uint32(f.size), glbBinary)
	if err := body(s); err != nil {
		return err
	}
	return s.flush()
}

// mesh writes the arrays that primitive describes.
func (f *glbFile) mesh(s *stream, m *flexicubes.Mesh) {
	for _, index := range m.Faces {
		binary.LittleEndian.PutUint32(s.next(4), index)
	}
	for i := 0; i < len(m.Vertices); i += 3 {
		v := yUp([3]float32(m.Vertices[i : i+3]))
		put3(s.next(12), v[:])
	}
	if !f.opt.RawColors {
		for _, n := range vertexNormals(m) {
			v := yUp(unit(n, [3]float32{0, 0, 1})) // glTF allows no zero normal
			put3(s.next(12), v[:])
		}
	}
	for i := 0; i < len(m.Colors); i += 3 {
		if f.opt.RawColors {
			putRawColor(s.next(4), m.Colors[i:i+3])
		} else {
			putLinearColor(s.next(8), m.Colors[i:i+3])
		}
	}
}

// yUp turns a vector from z up to y up.
func yUp(v [3]float32) [3]float32 { return [3]float32{v[0], v[2], -v[1]} }

// boundsYUp returns the box of vertices after yUp.
func boundsYUp(vertices []float32) (lo, hi [3]float64) {
	for k := range lo {
		lo[k], hi[k] = math.Inf(1), math.Inf(-1)
	}
	for i := 0; i < len(vertices); i += 3 {
		for k, x := range yUp([3]float32(vertices[i : i+3])) {
			lo[k], hi[k] = min(lo[k], float64(x)), max(hi[k], float64(x))
		}
	}
	return lo, hi
}

// putRawColor writes red, green, blue and an opaque alpha as bytes. Rounding is to even, in float32, as in the original.
func putRawColor(b []byte, rgb []float32) {
	for k, c := range rgb {
		b[k] = byte(math.RoundToEven(float64(255 * min(max(c, 0), 1))))
	}
	b[3] = 255
}

// putLinearColor writes red, green, blue and an opaque alpha as 16-bit linear values.
func putLinearColor(b []byte, rgb []float32) {
	for k, c := range rgb {
		linear := linearFromSRGB(float64(min(max(c, 0), 1)))
		binary.LittleEndian.PutUint16(b[2*k:], uint16(math.Round(65535*linear)))
	}
	binary.LittleEndian.PutUint16(b[6:], 65535)
}

// linearFromSRGB is the transfer function of sRGB (IEC 61966-2-1), from 0..1 to 0..1.
func linearFromSRGB(c float64) float64 {
	if c <= 0.04045 {
		return c / 12.92
	}
	return math.Pow((c+0.055)/1.055, 2.4)
}
