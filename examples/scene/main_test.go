// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/qmuntal/gltf"
	"github.com/qmuntal/gltf/modeler"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/examples/internal/scenes"
	"github.com/gomlx3d/image3d/export"
	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/splat"
)

// sceneIn runs the program and returns its exit status and what it printed.
func sceneIn(t *testing.T, ctx context.Context, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, log bytes.Buffer
	status = run(ctx, args, &out, &log)
	return status, out.String(), log.String()
}

// room is a folder with a photograph and masks.
type room struct {
	t      *testing.T
	folder string
}

const width, height = 64, 48

func newRoom(t *testing.T) room {
	r := room{t, t.TempDir()}
	photo := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range photo.Pix {
		photo.Pix[i] = uint8(i*i>>4) | uint8(255*(i&3/3))
	}
	r.write("photo.png", photo)
	return r
}

func (r room) path(name string) string { return filepath.Join(r.folder, name) }

func (r room) write(name string, img image.Image) string {
	r.t.Helper()
	var data bytes.Buffer
	require.NoError(r.t, png.Encode(&data, img))
	return r.text(name, data.String())
}

func (r room) text(name, text string) string {
	r.t.Helper()
	require.NoError(r.t, os.MkdirAll(filepath.Dir(r.path(name)), 0o777))
	require.NoError(r.t, os.WriteFile(r.path(name), []byte(text), 0o666))
	return r.path(name)
}

// mask writes the mask of a rectangle.
func (r room) mask(name string, inside image.Rectangle) string {
	mask := image.NewGray(image.Rect(0, 0, width, height))
	for y := inside.Min.Y; y < inside.Max.Y; y++ {
		for x := inside.Min.X; x < inside.Max.X; x++ {
			mask.SetGray(x, y, color.Gray{255})
		}
	}
	return r.write(name, mask)
}

// pointMap writes a tilted wall as a camera with these focal lengths sees it, its axis in the middle.
func (r room) pointMap(name string, fx, fy float64) string {
	header := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d, 3), }", height, width)
	header += strings.Repeat(" ", 117-len(header)) + "\n"
	data := append([]byte("\x93NUMPY\x01\x00"), byte(len(header)), 0)
	data = append(data, header...)
	for i := range width * height {
		x, y := (width/2-0.5-float64(i%width))/fx, (height/2-0.5-float64(i/width))/fy
		z := 3 / (1 + 0.2*x + 0.1*y)
		for _, v := range []float64{x * z, y * z, z} {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(v)))
		}
	}
	return r.text(name, string(data))
}

// args are a command line with few steps.
func (r room) args(more ...string) []string {
	return append([]string{"-image", r.path("photo.png"), "-out", r.path("out"), "-steps", "1", "-latent-steps", "1"}, more...)
}

func (r room) record() (s scenes.Record) {
	r.t.Helper()
	data, err := os.ReadFile(r.path("out/scene.json"))
	require.NoError(r.t, err)
	require.NoError(r.t, json.Unmarshal(data, &s))
	return s
}

// states are the names and states of all objects.
func (r room) states() (states []string) {
	for _, o := range r.record().Objects {
		states = append(states, o.Name+" "+o.State)
	}
	return states
}

// files are the contents of all files of the results but for the record, which tells times.
func (r room) files() map[string]string {
	files := make(map[string]string)
	require.NoError(r.t, filepath.WalkDir(r.path("out"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == scenes.RecordName {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(r.path("out"), path)
		files[filepath.ToSlash(name)] = string(data)
		return err
	}))
	return files
}

func (r room) splats(name string) *splat.Gaussians {
	r.t.Helper()
	file, err := os.Open(r.path(name))
	require.NoError(r.t, err)
	defer file.Close()
	g, err := export.ReadPLY(file)
	require.NoError(r.t, err)
	return g
}

// TestScene makes a scene of a folder and reads all its files.
func TestScene(t *testing.T) {
	r := newRoom(t)
	r.mask("masks/10.png", image.Rect(30, 20, 60, 46))
	r.mask("masks/9.png", image.Rect(4, 4, 30, 40))
	r.text("masks/.hidden.png", "no mask")
	r.text("masks/notes.txt", "no mask")
	r.text("masks/overlay.png", "no mask")
	args := r.args("-pointmap", r.pointMap("points.npy", 50, 60), "-json", r.path("masks"))
	status, stdout, stderr := sceneIn(t, context.Background(), args...)
	require.Zero(t, status, stderr)
	require.Contains(t, stderr, "[2/2] 10: mesh 1/1")
	s := r.record()
	require.JSONEq(t, stdout, string(must(os.ReadFile(r.path("out/scene.json")))))
	require.Equal(t, []string{"9 done", "10 done"}, r.states())
	require.Equal(t, []string{"scene.ply", "scene.glb"}, s.Files)
	files := r.files()
	require.Len(t, files, 6)

	// The splats are those of the objects, where their poses lead.
	var parts []splat.Object
	for _, o := range s.Objects {
		g := r.splats("out/objects/" + o.Name + "/gaussians.ply")
		require.Equal(t, o.Splats.Count, g.Len())
		require.Equal(t, 32*o.Voxels, g.Len())
		g.Kernel = o.Splats.Kernel
		parts = append(parts, splat.Object{Gaussians: g, Pose: o.Transform()})
		require.InDelta(t, 3, o.Pose.Translation[2], 2, "the wall is three away")
	}
	want, err := splat.MakeScene(parts)
	require.NoError(t, err)
	want.Kernel = 0
	require.Equal(t, want, r.splats("out/scene.ply"))
	r.checkMeshes(s)

	require.InDelta(t, 50, s.Camera.FX, 1e-3)
	require.InDelta(t, 60, s.Camera.FY, 1e-3)
	require.InDelta(t, 2*math.Atan(height/2/60.), s.Camera.YFOV, 1e-5)

	// Again there is nothing to do, not even for the model.
	status, again, stderr := sceneIn(t, context.Background(), args...)
	require.Zero(t, status, stderr)
	require.Contains(t, stderr, "2 of 2 objects are there already")
	require.NotContains(t, stderr, "photograph")
	require.JSONEq(t, stdout, again)
	require.Equal(t, files, r.files())
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// checkMeshes compares the meshes of the scene, moved by the transforms of their nodes, with those of the objects, moved
// by their poses, and looks at the camera.
func (r room) checkMeshes(s scenes.Record) {
	t := r.t
	scene, err := gltf.Open(r.path("out/scene.glb"))
	require.NoError(t, err)
	require.Len(t, scene.Nodes, len(s.Objects)+1)
	for i, o := range s.Objects {
		node := scene.Nodes[i]
		require.Equal(t, o.Name, node.Name)
		alone, err := gltf.Open(r.path("out/objects/" + o.Name + "/mesh.glb"))
		require.NoError(t, err)
		position := func(doc *gltf.Document, mesh int) [][3]float32 {
			at := doc.Meshes[mesh].Primitives[0].Attributes[gltf.POSITION]
			return must(modeler.ReadPosition(doc, doc.Accessors[at], nil))
		}
		moved, own := position(scene, *node.Mesh), position(alone, 0)
		require.Len(t, own, o.Vertices)
		require.Equal(t, own, moved)
		pose := o.Transform()
		for _, v := range own[:min(len(own), 500)] {
			// The mesh is y up, and poses are of the object frame, which is z up: (x, y, z) is (x, -z, y) there.
			want := pose.Apply([3]float64{float64(v[0]), -float64(v[2]), float64(v[1])})
			got := moveBy(node, v)
			require.InDeltaSlice(t, want[:], got[:], 1e-5*(1+o.Pose.Scale))
		}
	}
	camera := scene.Nodes[len(s.Objects)]
	require.Equal(t, [4]float64{0, 1, 0, 0}, camera.Rotation)
	lens := scene.Cameras[*camera.Camera].Perspective
	require.InDelta(t, s.Camera.YFOV, lens.Yfov, 1e-12)
	require.InDelta(t, width/50./(height/60.), *lens.AspectRatio, 1e-4)
}

// moveBy moves a point by the transform of a node, as the glTF specification says.
func moveBy(n *gltf.Node, v [3]float32) (out [3]float64) {
	var p [3]float64
	for k := range p {
		p[k] = float64(v[k]) * n.Scale[k]
	}
	// p + 2 r x (r x p + w p)
	r, w := [3]float64(n.Rotation[:3]), n.Rotation[3]
	cross := func(a, b [3]float64) [3]float64 {
		return [3]float64{a[1]*b[2] - a[2]*b[1], a[2]*b[0] - a[0]*b[2], a[0]*b[1] - a[1]*b[0]}
	}
	inner := cross(r, p)
	for k := range inner {
		inner[k] += w * p[k]
	}
	for k, c := range cross(r, inner) {
		out[k] = p[k] + 2*c + n.Translation[k]
	}
	return out
}

// TestGoesOn interrupts a scene in its second object, spoils things, and ends at the scene of an uninterrupted run.
func TestGoesOn(t *testing.T) {
	r := newRoom(t)
	first, second := r.mask("a.png", image.Rect(4, 4, 30, 40)), r.mask("b.png", image.Rect(30, 20, 60, 46))
	args := r.args("-formats", "gaussian4", first, second)
	status, _, stderr := sceneIn(t, context.Background(), args...)
	require.Zero(t, status, stderr)
	want := r.files()
	require.Len(t, want, 3)
	require.NoError(t, os.RemoveAll(r.path("out")))

	ctx, cancel := context.WithCancel(context.Background())
	log := &fixture.Watcher{Word: "[2/2] b: condition", Then: cancel}
	require.Equal(t, 1, run(ctx, args, log, log))
	require.Contains(t, log.String(), "goes on")
	require.NotContains(t, log.String(), "[2/2] b: voxels", "it stopped within a step")
	require.Equal(t, []string{"a done", "b pending"}, r.states())

	goOn := func(makes ...string) {
		t.Helper()
		status, _, stderr := sceneIn(t, context.Background(), args...)
		require.Zero(t, status, stderr)
		for _, name := range []string{"a", "b"} {
			made := strings.Contains(stderr, name+": latent")
			require.Equal(t, strings.Contains(strings.Join(makes, " "), name), made, "%s: %s", name, stderr)
		}
	}
	goOn("b")
	require.Equal(t, want, r.files())
	r.text("out/objects/a/gaussians4.ply", want["objects/a/gaussians4.ply"]+" ")
	goOn("a")
	require.Equal(t, want, r.files())
	r.mask("b.png", image.Rect(30, 20, 60, 45))
	goOn("b")
	require.NotEqual(t, want["objects/b/gaussians4.ply"], r.files()["objects/b/gaussians4.ply"])
	require.Equal(t, want["objects/a/gaussians4.ply"], r.files()["objects/a/gaussians4.ply"])

	status, _, stderr = sceneIn(t, context.Background(), append([]string{"-seed", "7"}, args...)...)
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "-force")
	r.mask("b.png", image.Rect(30, 20, 60, 46))
	args = append([]string{"-force"}, args...)
	goOn("a", "b")
	require.Equal(t, want, r.files())
}

// TestFailedObjects: what is wrong with one object does not stop the others.
func TestFailedObjects(t *testing.T) {
	r := newRoom(t)
	r.mask("masks/good.png", image.Rect(4, 4, 30, 40))
	r.mask("masks/empty.png", image.Rectangle{})
	r.text("masks/text.png", "this is no picture")
	r.write("masks/wide.png", image.NewGray(image.Rect(0, 0, 99, 48)))
	args := r.args("-formats", "gaussian4", "-json", r.path("masks"))
	status, stdout, stderr := sceneIn(t, context.Background(), args...)
	require.Equal(t, 3, status, stderr)
	require.Equal(t, []string{"empty failed", "good done", "text failed", "wide failed"}, r.states())
	var s scenes.Record
	require.NoError(t, json.Unmarshal([]byte(stdout), &s))
	require.Equal(t, 3, s.Failed)
	for i, text := range map[int]string{0: "mask is empty", 2: "text.png", 3: "99x48"} {
		require.Contains(t, s.Objects[i].Error, text)
		require.Contains(t, stderr, s.Objects[i].Error)
	}
	require.Equal(t, s.Objects[1].Splats4.Count, r.splats("out/scene.ply").Len())
	require.Nil(t, s.Camera, "the small model finds none")

	// They are tried again. What is no longer asked for leaves the scene.
	r.mask("masks/empty.png", image.Rect(30, 20, 60, 46))
	require.NoError(t, os.Remove(r.path("masks/text.png")))
	require.NoError(t, os.Remove(r.path("masks/wide.png")))
	status, _, stderr = sceneIn(t, context.Background(), args...)
	require.Zero(t, status, stderr)
	require.Contains(t, stderr, "1 of 2 objects are there already")
	require.Equal(t, []string{"empty done", "good done"}, r.states())

	// All of them: no scene is left.
	r.mask("masks/empty.png", image.Rectangle{})
	require.NoError(t, os.Remove(r.path("masks/good.png")))
	status, stdout, _ = sceneIn(t, context.Background(), r.args("-formats", "gaussian4", r.path("masks"))...)
	require.Equal(t, 3, status)
	require.Contains(t, stdout, "empty failed: ")
	require.NoFileExists(t, r.path("out/scene.ply"))
}

// TestLabels makes the objects of a label image, with a depth map, and weights that come and go.
func TestLabels(t *testing.T) {
	r := newRoom(t)
	labels := image.NewPaletted(image.Rect(0, 0, width, height), color.Palette{color.White, color.Black, color.White, color.Black})
	for i := range labels.Pix {
		if x := i % width; x > 4 && x < 60 {
			labels.Pix[i] = uint8(1 + x/32*2) // 1 and 3
		}
	}
	depth := image.NewGray16(labels.Rect)
	for i := range width * height {
		depth.SetGray16(i%width, i/width, color.Gray16{uint16(2000 + i%width)})
	}
	status, stdout, stderr := sceneIn(t, context.Background(), r.args("-formats", "gaussian4", "-labels", r.write("labels.png", labels),
		"-depth", r.write("depth.png", depth), "-depth-scale", "0.001", "-intrinsics", "70,80,30,20", "-keep-weights")...)
	require.Zero(t, status, stderr)
	camera := r.record().Camera
	require.InDeltaSlice(t, []float64{70, 80, 30, 20}, []float64{camera.FX, camera.FY, camera.CX, camera.CY}, 1e-2)
	require.Equal(t, []string{"label-1 done", "label-3 done"}, r.states())
	require.Contains(t, stdout, "label-3: ")
}

func TestDemo(t *testing.T) {
	out := filepath.Join(t.TempDir(), "new", "folder")
	status, stdout, stderr := sceneIn(t, context.Background(), "-out", out, "-steps", "1", "-latent-steps", "1", "-formats", "gaussian4")
	require.Zero(t, status, stderr)
	require.Contains(t, stderr, "random weights")
	require.Contains(t, stdout, filepath.Join(out, "scene.ply"))
	require.FileExists(t, filepath.Join(out, "objects", "table", "gaussians4.ply"))
}
