// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package export

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"testing"

	"github.com/qmuntal/gltf"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/flexicubes"
	"github.com/gomlx3d/image3d/internal/geom"
	"github.com/gomlx3d/image3d/splat"
)

// glbFileOf writes parts and returns the file for JoinGLB.
func glbFileOf(t testing.TB, name string, pose *splat.Pose, parts ...Part) GLBFile {
	t.Helper()
	var buf bytes.Buffer
	require.NoError(t, WriteGLB(&buf, GLBOptions{}, parts...))
	return GLBFile{Name: name, Pose: pose, File: bytes.NewReader(buf.Bytes()), Size: int64(buf.Len())}
}

// A scene of files is byte for byte the scene of what they hold.
func TestScenePLY(t *testing.T) {
	poses := []splat.Pose{testPose(), splat.NewPose([4]float64{0, 1}, [3]float64{1, 2, 3}, 0.2), splat.NewPose([4]float64{1}, [3]float64{}, 5)}
	var held []splat.Object
	var loaded []SceneObject
	for i, pose := range poses {
		g := decoded(t, 1000*(i+1)-999, uint64(i)) // one of them has a single splat
		g.Kernel *= float64(i + 1)
		held = append(held, splat.Object{Gaussians: g.Clone(), Pose: pose})
		file := plyBytes(t, g, PLYOptions{})
		loaded = append(loaded, SceneObject{Splats: g.Len(), Kernel: g.Kernel, Pose: pose, Load: func() (*splat.Gaussians, error) {
			return ReadPLY(bytes.NewReader(file))
		}})
	}
	for _, opt := range []PLYOptions{{}, {PadRest: true}} {
		scene, err := splat.MakeScene(held)
		require.NoError(t, err)
		var got bytes.Buffer
		require.NoError(t, WriteScenePLY(&got, opt, loaded...))
		require.True(t, bytes.Equal(plyBytes(t, scene, opt), got.Bytes()))
		require.ErrorIs(t, WriteScenePLY(&failing{got.Len() - 1}, opt, loaded...), errFull)
		require.ErrorIs(t, WriteScenePLY(&failing{10}, opt, loaded...), errFull)
	}
}

func TestScenePLYRefuses(t *testing.T) {
	broken := errors.New("damaged")
	good := SceneObject{Splats: 3, Pose: testPose(), Load: func() (*splat.Gaussians, error) { return wave(3), nil }}
	for name, test := range map[string]struct {
		change func(o *SceneObject)
		want   error
	}{
		"pose":     {func(o *SceneObject) { o.Pose = splat.Pose{} }, splat.ErrPose},
		"kernel":   {func(o *SceneObject) { o.Kernel = math.NaN() }, splat.ErrInvalid},
		"negative": {func(o *SceneObject) { o.Splats = -1 }, splat.ErrInvalid},
		"fewer":    {func(o *SceneObject) { o.Splats = 4 }, splat.ErrInvalid},
		"none":     {func(o *SceneObject) { o.Load = func() (*splat.Gaussians, error) { return nil, nil } }, splat.ErrInvalid},
		"invalid": {func(o *SceneObject) {
			o.Load = func() (*splat.Gaussians, error) { g := wave(3); g.SH = nil; return g, nil }
		}, splat.ErrInvalid},
		"load": {func(o *SceneObject) { o.Load = func() (*splat.Gaussians, error) { return nil, broken } }, broken},
	} {
		bad := good
		test.change(&bad)
		require.ErrorIs(t, WriteScenePLY(io.Discard, PLYOptions{}, good, bad), test.want, name)
	}
	require.ErrorIs(t, WriteScenePLY(io.Discard, PLYOptions{}), splat.ErrInvalid)
}

// Files joined are byte for byte the file of their meshes.
func TestJoinGLB(t *testing.T) {
	poses := []splat.Pose{testPose(), splat.NewPose([4]float64{0.5, 0.5, -0.5, 0.5}, [3]float64{1, 0, 2}, 0.4)}
	plain := ball(3)
	plain.Colors = nil
	camera := &Camera{FOVX: 1.1, FOVY: 0.8}
	var want, got bytes.Buffer
	require.NoError(t, WriteGLB(&want, GLBOptions{Camera: camera}, Part{Name: "hook", Mesh: hook(), Pose: &poses[0]},
		Part{Name: "nothing", Mesh: &flexicubes.Mesh{}}, Part{Name: "large", Mesh: ball(200), Pose: &poses[1]}, Part{Name: "plain", Mesh: plain}))
	files := []GLBFile{
		glbFileOf(t, "hook", &poses[0], Part{Name: "object", Mesh: hook()}), {Name: "nothing"},
		glbFileOf(t, "large", &poses[1], Part{Mesh: ball(200)}), glbFileOf(t, "plain", nil, Part{Mesh: plain}),
	}
	require.NoError(t, JoinGLB(&got, camera, files...))
	require.True(t, bytes.Equal(want.Bytes(), got.Bytes()))
	require.ErrorIs(t, JoinGLB(&failing{got.Len() - 1}, camera, files...), errFull)
	require.ErrorIs(t, JoinGLB(io.Discard, nil, GLBFile{Name: "nothing"}), ErrEmptyMesh)
	require.ErrorIs(t, JoinGLB(io.Discard, nil), ErrEmptyMesh)
	require.ErrorIs(t, JoinGLB(io.Discard, &Camera{}, files...), ErrCamera)
	files[0].Pose = &splat.Pose{}
	require.ErrorIs(t, JoinGLB(io.Discard, nil, files...), splat.ErrPose)
}

// Other files are refused, whatever is wrong with them, and never a panic.
func TestJoinGLBRefuses(t *testing.T) {
	pose := testPose()
	for name, change := range map[string]func(d *gltf.Document){
		"two nodes":     func(d *gltf.Document) { d.Nodes = append(d.Nodes, &gltf.Node{}) },
		"no mesh":       func(d *gltf.Document) { d.Meshes = nil },
		"moved":         func(d *gltf.Document) { d.Nodes[0].Translation[1] = 1 },
		"turned":        func(d *gltf.Document) { d.Nodes[0].Rotation = [4]float64{1, 0, 0, 0} },
		"other mesh":    func(d *gltf.Document) { d.Nodes[0].Mesh = gltf.Index(1) },
		"camera only":   func(d *gltf.Document) { d.Nodes[0].Mesh = nil },
		"another file":  func(d *gltf.Document) { d.Buffers[0].URI = "x.bin" },
		"texture":       func(d *gltf.Document) { d.Textures = []*gltf.Texture{{}} },
		"extension":     func(d *gltf.Document) { d.ExtensionsUsed = []string{"KHR_draco_mesh_compression"} },
		"view outside":  func(d *gltf.Document) { d.BufferViews[1].ByteLength = 1 << 40 },
		"view before":   func(d *gltf.Document) { d.BufferViews[1].ByteOffset = -4 },
		"view overflow": func(d *gltf.Document) { d.BufferViews[1].ByteOffset = math.MaxInt },
		"no view":       func(d *gltf.Document) { d.Accessors[0].BufferView = nil },
		"wrong view":    func(d *gltf.Document) { d.Accessors[0].BufferView = gltf.Index(99) },
		"sparse":        func(d *gltf.Document) { d.Accessors[0].Sparse = &gltf.Sparse{} },
		"accessor":      func(d *gltf.Document) { d.Meshes[0].Primitives[0].Attributes[gltf.POSITION] = -1 },
		"indices":       func(d *gltf.Document) { d.Meshes[0].Primitives[0].Indices = gltf.Index(7) },
		"material":      func(d *gltf.Document) { d.Meshes[0].Primitives[0].Material = gltf.Index(1) },
		"nothing there": func(d *gltf.Document) { d.Accessors[1] = nil },
	} {
		doc := glb(t, GLBOptions{}, Part{Mesh: hook()})
		data := doc.Buffers[0].Data
		doc.Buffers[0].Data = nil
		change(doc)
		f := glbFile{doc: doc, size: len(data)}
		uri := doc.Buffers[0].URI
		var buf bytes.Buffer
		if uri == "" {
			require.NoError(t, f.write(&buf, func(s *stream) error { s.bytes(data); return nil }))
		} else {
			encoder := gltf.NewEncoder(&buf)
			encoder.AsBinary = true
			_ = encoder.Encode(doc)
		}
		file := GLBFile{Pose: &pose, File: bytes.NewReader(buf.Bytes()), Size: int64(buf.Len())}
		require.ErrorIs(t, JoinGLB(io.Discard, nil, file), ErrGLB, name)
	}
	var buf bytes.Buffer
	require.NoError(t, WriteGLB(&buf, GLBOptions{}, Part{Mesh: hook()}))
	for name, spoil := range map[string]func(b []byte) []byte{
		"empty":      func([]byte) []byte { return nil },
		"magic":      func(b []byte) []byte { b[0]++; return b },
		"version":    func(b []byte) []byte { b[4] = 1; return b },
		"huge json":  func(b []byte) []byte { binary.LittleEndian.PutUint32(b[12:], math.MaxUint32); return b },
		"no json":    func(b []byte) []byte { b[20] = '<'; return b },
		"short json": func(b []byte) []byte { return b[:200] },
		"short data": func(b []byte) []byte { return b[:len(b)-4] },
	} {
		b := spoil(bytes.Clone(buf.Bytes()))
		err := JoinGLB(io.Discard, nil, GLBFile{File: bytes.NewReader(b), Size: int64(len(b))})
		require.ErrorIs(t, err, ErrGLB, name)
	}
	// A file that became shorter in the meantime.
	cut := GLBFile{File: bytes.NewReader(buf.Bytes()[:buf.Len()-4]), Size: int64(buf.Len())}
	require.Error(t, JoinGLB(io.Discard, nil, cut))
}

// FuzzJoinGLB finds no file that JoinGLB panics at, and what it joins opens.
func FuzzJoinGLB(f *testing.F) {
	var buf bytes.Buffer
	require.NoError(f, WriteGLB(&buf, GLBOptions{}, Part{Mesh: hook()}))
	f.Add(buf.Bytes())
	f.Fuzz(func(t *testing.T, file []byte) {
		var out bytes.Buffer
		part := GLBFile{File: bytes.NewReader(file), Size: int64(len(file))}
		if JoinGLB(&out, nil, part, part) == nil {
			require.NoError(t, gltf.NewDecoder(&out).Decode(new(gltf.Document)))
		}
	})
}

// The camera sees each point where the photograph shows it.
func TestCamera(t *testing.T) {
	const width, height = 640, 480
	seen := geom.Intrinsics{FX: 0.9, FY: 1.1, CX: 0.5, CY: 0.5}
	pose := testPose()
	doc := glb(t, GLBOptions{Camera: &Camera{FOVX: seen.FOVX(), FOVY: seen.FOVY()}}, Part{Name: "hook", Mesh: hook(), Pose: &pose})
	require.Len(t, doc.Nodes, 2)
	require.Equal(t, []int{0, 1}, doc.Scenes[0].Nodes)
	node := doc.Nodes[1]
	require.Equal(t, "camera", node.Name)
	require.Equal(t, [3]float64{}, node.Translation)
	lens := doc.Cameras[*node.Camera].Perspective
	require.InDelta(t, seen.FOVY(), lens.Yfov, 1e-12)
	require.Nil(t, lens.Zfar)
	positions, _ := world(t, doc, 0)
	r := geom.Quat{W: node.Rotation[3], X: node.Rotation[0], Y: node.Rotation[1], Z: node.Rotation[2]}.Conj().Matrix()
	for i := 0; i < len(positions); i += 3 {
		p := geom.Vec3{float64(positions[i]), float64(positions[i+1]), float64(positions[i+2])}
		// glTF: in the camera's frame, x right, y up, -z forward, the picture spans -1 to 1.
		v := r.MulVec(p)
		require.Less(t, v[2], -lens.Znear)
		x := v[0] / -v[2] / (*lens.AspectRatio * math.Tan(lens.Yfov/2))
		y := v[1] / -v[2] / math.Tan(lens.Yfov/2)
		u, w := seen.Project(geom.Vec3{-p[0], -p[1], p[2]})
		require.InDelta(t, u*width, (x+1)/2*width, 1e-6)
		require.InDelta(t, w*height, (1-y)/2*height, 1e-6)
	}

	local := glb(t, GLBOptions{Camera: &Camera{FOVX: 1, FOVY: 1}}, Part{Mesh: hook()})
	require.Positive(t, local.Cameras[0].Perspective.Znear)
	for _, c := range []Camera{{}, {FOVX: 1}, {FOVX: 1, FOVY: math.NaN()}, {FOVX: math.Pi, FOVY: 1}, {FOVX: -1, FOVY: 1}} {
		require.ErrorIs(t, WriteGLB(io.Discard, GLBOptions{Camera: &c}, Part{Mesh: hook()}), ErrCamera)
	}
}
