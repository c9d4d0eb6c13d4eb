// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package export

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/qmuntal/gltf"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/flexicubes"
	"github.com/gomlx3d/image3d/internal/geom"
	"github.com/gomlx3d/image3d/splat"
)

func glbBytes(t testing.TB, parts ...Part) []byte {
	t.Helper()
	var data bytes.Buffer
	require.NoError(t, WriteGLB(&data, GLBOptions{}, parts...))
	return data.Bytes()
}

func readBack(data []byte) (*flexicubes.Mesh, error) {
	return ReadGLB(bytes.NewReader(data), int64(len(data)))
}

func TestReadGLB(t *testing.T) {
	m := ball(20)
	got, err := readBack(glbBytes(t, Part{Mesh: m}))
	require.NoError(t, err)
	require.Equal(t, m.Vertices, got.Vertices)
	require.Equal(t, m.Faces, got.Faces)
	require.InDeltaSlice(t, m.Colors, got.Colors, 2e-4)

	m.Colors = nil
	got, err = readBack(glbBytes(t, Part{Mesh: m}))
	require.NoError(t, err)
	require.Nil(t, got.Colors)
}

// Posed parts come at their places in the frame of the camera, turned to z up.
func TestReadPosedGLB(t *testing.T) {
	m := ball(6)
	pose := splat.NewPose([4]float64{0.5, -0.1, 0.7, 0.2}, [3]float64{1, 2, 3}, 2.5)
	got, err := readBack(glbBytes(t, Part{Mesh: m}, Part{Mesh: m, Pose: &pose}))
	require.NoError(t, err)
	require.Equal(t, m.Vertices, got.Vertices[:len(m.Vertices)])
	for i := 0; i < len(m.Vertices); i += 3 {
		p := pose
		p.Rotation = p.Rotation.Normalize()
		want := p.Apply(geom.Vec3{float64(m.Vertices[i]), float64(m.Vertices[i+1]), float64(m.Vertices[i+2])})
		v := got.Vertices[len(m.Vertices)+i:]
		require.InDeltaSlice(t, []float64{want[0], -want[2], want[1]}, []float64{float64(v[0]), float64(v[1]), float64(v[2])}, 1e-5)
	}
}

// changed returns a file whose description went through change.
func changed(t *testing.T, change func(doc *gltf.Document)) []byte {
	t.Helper()
	doc, chunk, err := readGLB(bytes.NewReader(small), int64(len(small)))
	require.NoError(t, err)
	change(doc)
	f := glbFile{doc: doc, size: int(chunk.Size())}
	var out bytes.Buffer
	require.NoError(t, f.write(&out, func(s *stream) error { return s.copy(chunk) }))
	return out.Bytes()
}

var small = func() []byte {
	var data bytes.Buffer
	if err := WriteGLB(&data, GLBOptions{}, Part{Mesh: ball(3)}); err != nil {
		panic(err)
	}
	return data.Bytes()
}()

func TestReadGLBTransforms(t *testing.T) {
	m := ball(3)
	got, err := readBack(changed(t, func(doc *gltf.Document) { // a mirror below a matrix
		doc.Nodes[0].Scale = [3]float64{-1, 1, 1}
		doc.Nodes = append(doc.Nodes, &gltf.Node{Matrix: [16]float64{2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 0, 1, 0, 0, 1}, Children: []int{0}})
		doc.Scenes[0].Nodes = []int{1}
	}))
	require.NoError(t, err)
	for i := range m.Vertices {
		want := 2 * m.Vertices[i]
		if i%3 == 0 {
			want = 1 - want
		}
		require.Equal(t, want, got.Vertices[i])
	}
	require.Equal(t, []uint32{m.Faces[1], m.Faces[0], m.Faces[2]}, got.Faces[:3], "a mirror turns triangles round")
}

func TestReadBadGLB(t *testing.T) {
	deep := func(doc *gltf.Document) {
		for i := range 40 { // 2^40 meshes
			doc.Nodes = append(doc.Nodes, &gltf.Node{Children: []int{i, i}})
		}
		doc.Scenes[0].Nodes = []int{40}
	}
	primitive := func(doc *gltf.Document) *gltf.Primitive { return doc.Meshes[0].Primitives[0] }
	for name, change := range map[string]func(doc *gltf.Document){
		"cycle":       func(doc *gltf.Document) { doc.Nodes[0].Children = []int{0} },
		"explosion":   deep,
		"no node":     func(doc *gltf.Document) { doc.Scenes[0].Nodes = []int{7} },
		"node below":  func(doc *gltf.Document) { doc.Nodes[0].Children = []int{-1} },
		"no mesh":     func(doc *gltf.Document) { *doc.Nodes[0].Mesh = 5 },
		"accessor":    func(doc *gltf.Document) { *primitive(doc).Indices = 50 },
		"positions":   func(doc *gltf.Document) { delete(primitive(doc).Attributes, gltf.POSITION) },
		"type":        func(doc *gltf.Document) { primitive(doc).Attributes[gltf.POSITION] = *primitive(doc).Indices },
		"count":       func(doc *gltf.Document) { doc.Accessors[0].Count *= 3 },
		"huge count":  func(doc *gltf.Document) { doc.Accessors[1].Count = 1 << 62 },
		"offset":      func(doc *gltf.Document) { doc.Accessors[1].ByteOffset = 1 << 62 },
		"view":        func(doc *gltf.Document) { doc.BufferViews[1].ByteOffset = 1 << 40 },
		"view length": func(doc *gltf.Document) { doc.BufferViews[1].ByteLength = 1 << 40 },
		"stride":      func(doc *gltf.Document) { doc.BufferViews[1].ByteStride = 1 << 60 },
		"buffer":      func(doc *gltf.Document) { doc.BufferViews[1].Buffer = 1 },
		"no view":     func(doc *gltf.Document) { doc.Accessors[1].BufferView = nil },
		"corners":     func(doc *gltf.Document) { doc.Accessors[0].Count-- },
		"colours":     func(doc *gltf.Document) { doc.Accessors[primitive(doc).Attributes[gltf.COLOR_0]].Count-- },
		"too far":     func(doc *gltf.Document) { doc.Nodes[0].Translation[0] = 1e300 },
	} {
		_, err := readBack(changed(t, change))
		require.ErrorIs(t, err, ErrGLB, name)
	}
	_, err := readBack(changed(t, func(doc *gltf.Document) { doc.Scenes[0].Nodes = nil }))
	require.ErrorIs(t, err, ErrEmptyMesh)
	got, err := readBack(changed(t, func(doc *gltf.Document) { doc.Scene, doc.Scenes = nil, nil }))
	require.NoError(t, err)
	require.Equal(t, ball(3).Faces, got.Faces)
}

// Damaged files give an error or a mesh, but never a panic.
func TestReadDamaged(t *testing.T) {
	var obj, stl bytes.Buffer
	require.NoError(t, WriteOBJ(&obj, ball(3)))
	require.NoError(t, WriteSTL(&stl, ball(3)))
	rng := rand.New(rand.NewPCG(5, 5))
	readers := map[string]func([]byte) (*flexicubes.Mesh, error){
		string(small): readBack,
		obj.String():  func(b []byte) (*flexicubes.Mesh, error) { return ReadOBJ(bytes.NewReader(b)) },
		stl.String():  func(b []byte) (*flexicubes.Mesh, error) { return ReadSTL(bytes.NewReader(b)) },
	}
	for file, read := range readers {
		for range 2000 {
			data := []byte(file)
			for range 1 + rng.IntN(4) {
				data[rng.IntN(min(len(data), 2000))] = byte(rng.Uint32())
			}
			if m, err := read(data[:len(data)-rng.IntN(2)*rng.IntN(len(data))]); err == nil {
				require.NoError(t, checkFilledMesh(m))
			}
		}
	}
}

func TestReadOBJAndSTL(t *testing.T) {
	m := ball(8)
	var data bytes.Buffer
	require.NoError(t, WriteOBJ(&data, m))
	got, err := ReadOBJ(iotest.OneByteReader(&data))
	require.NoError(t, err)
	require.Equal(t, m.Faces, got.Faces)
	require.InDeltaSlice(t, m.Vertices, got.Vertices, 1e-7)
	require.InDeltaSlice(t, m.Colors, got.Colors, 1e-7)

	data.Reset()
	require.NoError(t, WriteSTL(&data, m))
	got, err = ReadSTL(iotest.HalfReader(&data))
	require.NoError(t, err)
	require.Len(t, got.Faces, len(m.Faces))
	for i, index := range m.Faces {
		require.Equal(t, m.Vertices[3*index:3*index+3], got.Vertices[3*i:3*i+3])
	}

	got, err = ReadOBJ(strings.NewReader("# a square\no s\nv 0 0 0\nv 1 0 0\nv 1 1 0 1\nv 0 1 0\nvn 0 0 1\nf 1/1/1 2//1 -2 4\n"))
	require.NoError(t, err)
	require.Equal(t, []uint32{0, 1, 2, 0, 2, 3}, got.Faces)
	require.Nil(t, got.Colors)
}

func TestReadBadOBJAndSTL(t *testing.T) {
	for _, text := range []string{
		"v 1 2\n", "v 1 2 x\n", "v 0 0 0\nf 1 1\n", "v 0 0 0\nf 1 1 2\n", "v 0 0 0\nf 1 1 0\n", "v 0 0 0\nf 1 -2 1\n",
		"v 0 0 0\nf 1 a 1\n", "v 0 0 NaN\nf 1 1 1\n", "v 0 0 0 1 1 inf\nf 1 1 1\n", "v " + strings.Repeat("0", 2<<20),
	} {
		_, err := ReadOBJ(strings.NewReader(text))
		require.ErrorIs(t, err, ErrFormat, "%.30q", text)
	}
	for _, text := range []string{"", "v 0 0 0\n", "\x00\x01\x02"} {
		_, err := ReadOBJ(strings.NewReader(text))
		require.ErrorIs(t, err, ErrEmptyMesh)
	}
	header := func(count string) string { return strings.Repeat(" ", 80) + count }
	for _, text := range []string{"", "solid", header("\xff\xff\xff\xff"), header("\x00\x00\x00\x10"), header("\x02\x00\x00\x00") + strings.Repeat("a", 99),
		"solid" + header("\x01\x00\x00\x00")} {
		_, err := ReadSTL(strings.NewReader(text))
		require.ErrorIs(t, err, ErrFormat, "%q", text)
	}
	_, err := ReadSTL(strings.NewReader(header("\x00\x00\x00\x00")))
	require.ErrorIs(t, err, ErrEmptyMesh)

	broken := errors.New("broken")
	_, err = ReadOBJ(iotest.ErrReader(broken))
	require.ErrorIs(t, err, broken)
	_, err = ReadSTL(io.MultiReader(strings.NewReader(header("\x01\x00\x00\x00")), iotest.ErrReader(broken)))
	require.ErrorIs(t, err, broken)
}
