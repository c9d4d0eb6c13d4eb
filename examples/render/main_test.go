// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"image"
	"image/gif"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/export"
	"github.com/gomlx3d/image3d/flexicubes"
	"github.com/gomlx3d/image3d/splat"
)

// renderIn runs the program and returns its exit status and what it printed.
func renderIn(t *testing.T, ctx context.Context, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, log bytes.Buffer
	status = run(ctx, args, &out, &log)
	return status, out.String(), log.String()
}

func readPNG(t *testing.T, path string) image.Image {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	picture, err := png.Decode(file)
	require.NoError(t, err)
	return picture
}

func TestDemo(t *testing.T) {
	out := filepath.Join(t.TempDir(), "new", "folder")
	args := []string{"-out", out, "-frames", "4", "-size", "96", "-background", "#102030", "-seconds", "1"}
	status, stdout, stderr := renderIn(t, context.Background(), args...)
	require.Zero(t, status, stderr)
	require.Contains(t, stdout, "8640 Gaussians, 4 frames of 96x96")
	entries, err := os.ReadDir(out)
	require.NoError(t, err)
	require.Len(t, entries, 5, "frames, the animation and nothing else")

	first := readPNG(t, filepath.Join(out, "frame-0000.png"))
	require.Equal(t, image.Rect(0, 0, 96, 96), first.Bounds())
	r, g, b, a := first.At(0, 0).RGBA()
	require.Equal(t, [4]uint32{0x1010, 0x2020, 0x3030, 0xffff}, [4]uint32{r, g, b, a})
	file, err := os.Open(filepath.Join(out, gifName))
	require.NoError(t, err)
	defer file.Close()
	animation, err := gif.DecodeAll(file)
	require.NoError(t, err)
	require.Equal(t, []int{25, 25, 25, 25}, animation.Delay)

	before, err := os.ReadFile(filepath.Join(out, "frame-0003.png"))
	require.NoError(t, err)
	status, _, stderr = renderIn(t, context.Background(), args...)
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "-force")
	status, _, stderr = renderIn(t, context.Background(), append(args, "-force")...)
	require.Zero(t, status, stderr)
	after, err := os.ReadFile(filepath.Join(out, "frame-0003.png"))
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// blocks is one block along each axis, of different lengths.
func blocks() *flexicubes.Mesh {
	m := &flexicubes.Mesh{}
	for axis, length := range []float32{0.5, 0.35, 0.2} {
		base := uint32(len(m.Vertices) / 3)
		for i := range 8 {
			var v, c [3]float32
			v[axis], v[(axis+1)%3], v[(axis+2)%3] = length*float32(i&1), 0.1*float32(i>>1&1), 0.1*float32(i>>2)
			c[axis] = 1
			m.Vertices, m.Colors = append(m.Vertices, v[:]...), append(m.Colors, c[:]...)
		}
		for _, face := range [][4]uint32{{0, 2, 6, 4}, {1, 5, 7, 3}, {0, 4, 5, 1}, {2, 3, 7, 6}, {0, 1, 3, 2}, {4, 6, 7, 5}} {
			a, b, c, d := base+face[0], base+face[1], base+face[2], base+face[3]
			m.Faces = append(m.Faces, a, b, c, a, c, d)
		}
	}
	return m
}

// blockSplats fills the blocks with splats.
func blockSplats() *splat.Gaussians {
	g := &splat.Gaussians{}
	const step = 0.01
	for axis, length := range []float32{0.5, 0.35, 0.2} {
		for x := float32(step / 2); x < length; x += step {
			for y := float32(step / 2); y < 0.1; y += step {
				for z := float32(step / 2); z < 0.1; z += step {
					var p [3]float32
					p[axis], p[(axis+1)%3], p[(axis+2)%3] = x, y, z
					g.Means = append(g.Means, p[:]...)
					g.SH = append(g.SH, 0, 0, 0)
					g.LogScales = append(g.LogScales, -5.3, -5.3, -5.3) // 0.005
					g.Rotations = append(g.Rotations, 1, 0, 0, 0)
					g.OpacityLogits = append(g.OpacityLogits, 2)
				}
			}
		}
	}
	return g
}

// The same shape as splats and as a mesh in every file format covers the same pixels, in its own frame and posed.
func TestFilesAgree(t *testing.T) {
	folder := t.TempDir()
	pose := splat.NewPose([4]float64{0.9, 0.2, -0.3, 0.1}, [3]float64{0.3, -0.2, 2}, 1.5)
	posed := blockSplats()
	require.NoError(t, posed.Transform(pose))
	for name, write := range map[string]func(w io.Writer) error{
		"splats.ply": func(w io.Writer) error { return export.WritePLY(w, blockSplats(), export.PLYOptions{}) },
		"mesh.glb":   func(w io.Writer) error { return export.WriteGLB(w, export.GLBOptions{}, export.Part{Mesh: blocks()}) },
		"mesh.obj":   func(w io.Writer) error { return export.WriteOBJ(w, blocks()) },
		"mesh.stl":   func(w io.Writer) error { return export.WriteSTL(w, blocks()) },
		"posed.ply":  func(w io.Writer) error { return export.WritePLY(w, posed, export.PLYOptions{}) },
		"posed.glb": func(w io.Writer) error {
			return export.WriteGLB(w, export.GLBOptions{}, export.Part{Mesh: blocks(), Pose: &pose})
		},
	} {
		require.NoError(t, export.File(filepath.Join(folder, name), false, write))
	}
	frames := func(name string, more ...string) []image.Image {
		out := filepath.Join(folder, name+"-out")
		status, _, stderr := renderIn(t, context.Background(), append([]string{"-in", filepath.Join(folder, name), "-out", out,
			"-frames", "3", "-size", "160", "-background", "transparent", "-gif=false"}, more...)...)
		require.Zero(t, status, stderr)
		var pictures []image.Image
		for i := range 3 {
			pictures = append(pictures, readPNG(t, filepath.Join(out, frameName(i))))
		}
		return pictures
	}
	// Splats are measured by their centres, so that their picture is a little larger: the same distance for all.
	expected := frames("splats.ply", "-distance", "1.5")
	for _, name := range []string{"mesh.glb", "mesh.obj", "mesh.stl"} {
		for i, picture := range frames(name, "-distance", "1.5") {
			require.Greater(t, overlap(expected[i], picture), 0.9, "%s, frame %d", name, i)
		}
	}
	// The boxes around a turned shape and around centres inside it differ by a little more: about a pixel.
	expected = frames("posed.ply", "-posed", "-distance", "2.5")
	for i, picture := range frames("posed.glb", "-posed", "-distance", "2.5") {
		require.Greater(t, overlap(expected[i], picture), 0.8, "posed, frame %d", i)
	}
}

// overlap returns the intersection over union of what two pictures cover by more than half.
func overlap(p, q image.Image) float64 {
	both, any := 0.0, 0.0
	for y := range p.Bounds().Dy() {
		for x := range p.Bounds().Dx() {
			_, _, _, a := p.At(x, y).RGBA()
			_, _, _, b := q.At(x, y).RGBA()
			if a > 0x8000 && b > 0x8000 {
				both++
			}
			if a > 0x8000 || b > 0x8000 {
				any++
			}
		}
	}
	return both / any
}

func TestWrongCommandLines(t *testing.T) {
	for text, args := range map[string][]string{
		"-frames 0":                     {"-frames", "0"},
		"-frames 9999":                  {"-frames", "9999"},
		"-size 5000":                    {"-size", "5000"},
		"do not fit an animation":       {"-size", "4096"},
		"-elevation 91":                 {"-elevation", "91"},
		"-elevation NaN":                {"-elevation", "NaN"},
		"-azimuth 400":                  {"-azimuth", "400"},
		"-distance -1":                  {"-distance", "-1"},
		"-fov 180":                      {"-fov", "180"},
		"-seconds 0":                    {"-seconds", "0"},
		`-background "pink"`:            {"-background", "pink"},
		`-background "#1234"`:           {"-background", "#1234"},
		`-background "102030"`:          {"-background", "102030"},
		"unexpected argument":           {"mesh.glb"},
		"flag provided but not defined": {"-nothing"},
	} {
		out := filepath.Join(t.TempDir(), "out")
		status, stdout, stderr := renderIn(t, context.Background(), append(append([]string{}, "-out", out), args...)...)
		require.Equal(t, 2, status, text)
		require.Empty(t, stdout)
		require.Contains(t, stderr, text)
		require.NoDirExists(t, out)
	}
	status, _, stderr := renderIn(t, context.Background(), "-help")
	require.Zero(t, status)
	require.Contains(t, stderr, "-elevation")
}

func TestBadFiles(t *testing.T) {
	folder := t.TempDir()
	write := func(name string) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte("this is no shape, however long it may be read, and however often"), 0o666))
		return path
	}
	for expected, in := range map[string]string{
		"no such file":       filepath.Join(folder, "none.ply"),
		"malformed file":     write("text.ply"),
		"unusable GLB file":  write("text.glb"),
		"has no triangles":   write("text.obj"),
		"ends in its STL":    write("text.stl"),
		`unknown type ".fb"`: write("text.fb"),
		`unknown type ""`:    folder,
	} {
		out := filepath.Join(t.TempDir(), "out")
		status, _, stderr := renderIn(t, context.Background(), "-in", in, "-out", out)
		require.Equal(t, 1, status, expected)
		require.Contains(t, stderr, expected)
		entries, err := os.ReadDir(out)
		require.NoError(t, err)
		require.Empty(t, entries)
	}
	status, _, stderr := renderIn(t, context.Background(), "-out", filepath.Join(folder, "text.ply", "out"))
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "not a directory")
}

// A program that is interrupted takes its frames back.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	out := t.TempDir()
	s, err := parse([]string{"-out", out, "-size", "32"}, io.Discard)
	require.NoError(t, err)
	require.ErrorIs(t, turntable(cancelAfter{ctx, cancel, out}, s, io.Discard, io.Discard), context.Canceled)
	entries, err := os.ReadDir(out)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// cancelAfter is a context that is cancelled once there is a second frame.
type cancelAfter struct {
	context.Context
	cancel context.CancelFunc
	out    string
}

func (c cancelAfter) Err() error {
	if _, err := os.Stat(filepath.Join(c.out, frameName(1))); err == nil {
		c.cancel()
	}
	return c.Context.Err()
}
