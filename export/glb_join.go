// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package export

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/qmuntal/gltf"

	"github.com/gomlx3d/image3d/splat"
)

// ErrGLB is wrapped by errors about files that ReadGLB cannot read, or JoinGLB cannot join.
var ErrGLB = errors.New("export: unusable GLB file")

// GLBFile is one part of JoinGLB: a file that WriteGLB wrote of one part without a pose.
type GLBFile struct {
	Name string // of the node
	Pose *splat.Pose
	File io.ReaderAt // nil: a node without a mesh
	Size int64       // of the file
}

// JoinGLB writes the meshes of several GLB files as one, as WriteGLB would with their meshes and poses, but copies them
// from file to file. Other files than those of WriteGLB are joined too if they have one node, without a transform, with
// a mesh that has no textures, skins or extensions. The error wraps ErrGLB, splat.ErrPose, ErrCamera, ErrEmptyMesh if
// there is no mesh at all, or what a file failed with.
func JoinGLB(w io.Writer, camera *Camera, files ...GLBFile) error {
	f := glbFile{doc: gltf.NewDocument()}
	f.doc.Asset.Generator = "image3d"
	var chunks []*io.SectionReader
	for i, file := range files {
		chunk, err := f.join(file)
		if err != nil {
			return fmt.Errorf("export: join GLB: file %d: %w", i, err)
		}
		if chunk != nil {
			chunks = append(chunks, chunk)
		}
	}
	if len(chunks) == 0 {
		return fmt.Errorf("export: join GLB: %w (%d files)", ErrEmptyMesh, len(files))
	}
	err := f.camera(camera)
	if err == nil {
		err = f.write(w, func(s *stream) error {
			for _, chunk := range chunks {
				if err := s.copy(chunk); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("export: join GLB: %w", err)
	}
	return nil
}

// copy writes what r holds.
func (s *stream) copy(r *io.SectionReader) error {
	for left := r.Size(); left > 0 && s.err == nil; {
		n := int(min(left, bufferSize))
		if _, err := io.ReadFull(r, s.next(n)); err != nil {
			return err
		}
		left -= int64(n)
	}
	return nil
}

// join adds the node, the mesh and the arrays of a file, and returns its binary chunk.
func (f *glbFile) join(file GLBFile) (*io.SectionReader, error) {
	node, err := f.node(file.Name, file.Pose)
	if err != nil || file.File == nil {
		return nil, err
	}
	doc, chunk, err := readGLB(file.File, file.Size)
	if err != nil {
		return nil, err
	}
	if err := checkJoinable(doc, chunk.Size()); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrGLB, err)
	}
	views, accessors := len(f.doc.BufferViews), len(f.doc.Accessors)
	for _, v := range doc.BufferViews {
		v.ByteOffset += f.size
		f.doc.BufferViews = append(f.doc.BufferViews, v)
	}
	for _, a := range doc.Accessors {
		*a.BufferView += views
		f.doc.Accessors = append(f.doc.Accessors, a)
	}
	mesh := doc.Meshes[0]
	mesh.Name = file.Name
	for _, p := range mesh.Primitives {
		for name := range p.Attributes {
			p.Attributes[name] += accessors
		}
		if p.Indices != nil {
			*p.Indices += accessors
		}
		if p.Material != nil {
			p.Material = gltf.Index(f.material(doc.Materials[*p.Material]))
		}
	}
	node.Mesh = gltf.Index(len(f.doc.Meshes))
	f.doc.Meshes = append(f.doc.Meshes, mesh)
	f.size += int(chunk.Size())
	return chunk, nil
}

// material returns the index of a material, which is added unless there is an equal one.
func (f *glbFile) material(m *gltf.Material) int {
	for i, known := range f.doc.Materials {
		if reflect.DeepEqual(known, m) {
			return i
		}
	}
	f.doc.Materials = append(f.doc.Materials, m)
	return len(f.doc.Materials) - 1
}

// maxGLBDescription bounds the JSON of a file that is read. One mesh takes 2 kB.
const maxGLBDescription = 1 << 20

// readGLB reads the description of a file and finds its binary chunk.
func readGLB(r io.ReaderAt, size int64) (*gltf.Document, *io.SectionReader, error) {
	var head [20]byte
	if size < int64(len(head)) {
		return nil, nil, fmt.Errorf("%w: %d bytes", ErrGLB, size)
	}
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return nil, nil, err
	}
	number := func(at int) uint32 { return binary.LittleEndian.Uint32(head[at:]) }
	length := int64(number(12))
	if number(0) != glbMagic || number(4) != 2 || number(16) != glbJSON || length > min(maxGLBDescription, size-28) {
		return nil, nil, fmt.Errorf("%w: no header, or %d bytes of JSON", ErrGLB, length)
	}
	description := make([]byte, length)
	if _, err := r.ReadAt(description, 20); err != nil {
		return nil, nil, err
	}
	doc := new(gltf.Document)
	if err := json.Unmarshal(description, doc); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrGLB, err)
	}
	if _, err := r.ReadAt(head[:8], 20+length); err != nil {
		return nil, nil, err
	}
	if chunk := int64(number(0)); number(4) != glbBinary || chunk%4 != 0 || chunk > size-28-length {
		return nil, nil, fmt.Errorf("%w: a binary chunk of %d bytes", ErrGLB, chunk)
	}
	return doc, io.NewSectionReader(r, 28+length, int64(number(0))), nil
}

// checkJoinable reports what join cannot move to another file, and indices that lead nowhere.
func checkJoinable(doc *gltf.Document, chunk int64) error {
	switch {
	case len(doc.Nodes) != 1 || len(doc.Meshes) != 1 || len(doc.Buffers) != 1:
		return fmt.Errorf("%d nodes, %d meshes and %d buffers", len(doc.Nodes), len(doc.Meshes), len(doc.Buffers))
	case len(doc.Images)+len(doc.Textures)+len(doc.Skins)+len(doc.Animations)+len(doc.ExtensionsUsed) > 0:
		return errors.New("it has images, textures, skins, animations or extensions")
	case doc.Nodes[0] == nil || doc.Meshes[0] == nil || doc.Buffers[0] == nil || doc.Buffers[0].URI != "":
		return errors.New("a node, mesh or buffer is not in the file")
	}
	plain := gltf.Node{Matrix: gltf.DefaultMatrix, Rotation: gltf.DefaultRotation, Scale: gltf.DefaultScale}
	if n := doc.Nodes[0]; n.Matrix != plain.Matrix || n.Rotation != plain.Rotation || n.Scale != plain.Scale ||
		n.Translation != plain.Translation || n.Mesh == nil || *n.Mesh != 0 {
		return errors.New("the node has a transform, or no mesh")
	}
	for i, v := range doc.BufferViews {
		if v == nil || v.Buffer != 0 || v.ByteOffset < 0 || v.ByteLength < 0 || int64(v.ByteOffset) > chunk-int64(v.ByteLength) {
			return fmt.Errorf("buffer view %d is outside", i)
		}
	}
	for i, a := range doc.Accessors {
		if a == nil || a.BufferView == nil || *a.BufferView < 0 || *a.BufferView >= len(doc.BufferViews) || a.Sparse != nil {
			return fmt.Errorf("accessor %d has no array", i)
		}
	}
	return checkPrimitives(doc)
}

// checkPrimitives checks the indices of the mesh.
func checkPrimitives(doc *gltf.Document) error {
	outside := func(index *int, n int) bool { return index != nil && (*index < 0 || *index >= n) }
	for i, p := range doc.Meshes[0].Primitives {
		bad := p == nil || len(p.Targets) > 0 || outside(p.Indices, len(doc.Accessors)) || outside(p.Material, len(doc.Materials))
		if !bad {
			for _, at := range p.Attributes {
				bad = bad || outside(&at, len(doc.Accessors))
			}
		}
		if bad || p.Material != nil && doc.Materials[*p.Material] == nil {
			return fmt.Errorf("primitive %d leads nowhere", i)
		}
	}
	return nil
}
