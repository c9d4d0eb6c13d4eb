// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/moge"
	"github.com/gomlx3d/image3d/sam3d"
)

// depthIn runs the program and returns its exit status and what it printed.
func depthIn(t *testing.T, ctx context.Context, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, log bytes.Buffer
	status = run(ctx, args, &out, &log)
	return status, out.String(), log.String()
}

// made runs the program with -json and returns what it says.
func made(t *testing.T, args ...string) summary {
	t.Helper()
	status, stdout, stderr := depthIn(t, context.Background(), append(args, "-json")...)
	require.Zero(t, status, stderr)
	var s summary
	decoder := json.NewDecoder(strings.NewReader(stdout))
	require.NoError(t, decoder.Decode(&s))
	require.False(t, decoder.More(), "one document")
	return s
}

func readPNG(t *testing.T, path string) image.Image {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	img, err := png.Decode(bytes.NewReader(data))
	require.NoError(t, err)
	return img
}

func TestDemo(t *testing.T) {
	out := filepath.Join(t.TempDir(), "new", "folder")
	s := made(t, "-out", out, "-fov", "60", "-project")
	require.Equal(t, 1, s.Version)
	require.False(t, s.Metric)
	require.InDelta(t, 60, s.FOVX, 1e-3)
	entries, err := os.ReadDir(out)
	require.NoError(t, err)
	require.Len(t, entries, len(files), "nothing else is left in the folder")
	require.Len(t, s.Files, len(files))

	// All files say the same, and the point map is what the pipeline reads.
	points, err := sam3d.LoadPointMap(filepath.Join(out, "pointmap.npy"))
	require.NoError(t, err)
	require.Equal(t, []int{s.Width, s.Height}, []int{points.Width, points.Height})
	depth16 := readPNG(t, filepath.Join(out, "depth16.png")).(*image.Gray16)
	coloured := readPNG(t, filepath.Join(out, "depth.png"))
	valid := 0
	for i := range s.Width * s.Height {
		x, y := i%s.Width, i/s.Width
		p := points.Points[3*i : 3*i+3]
		steps := depth16.Gray16At(x, y).Y
		_, _, _, alpha := coloured.At(x, y).RGBA()
		if p[0] != p[0] {
			require.Zero(t, steps)
			require.Zero(t, alpha)
			continue
		}
		valid++
		require.InDelta(t, float64(p[2]), float64(steps)*s.DepthScale, s.DepthScale)
		require.Equal(t, uint32(0xffff), alpha)
		u := s.Intrinsics[0]*float64(-p[0]/p[2]) + s.Intrinsics[2]
		v := s.Intrinsics[1]*float64(-p[1]/p[2]) + s.Intrinsics[3]
		require.InDelta(t, float64(x), u, 1e-2)
		require.InDelta(t, float64(y), v, 1e-2)
	}
	require.InDelta(t, s.Valid, float64(valid)/float64(s.Width*s.Height), 1e-9)
	header, rows := cloud(t, filepath.Join(out, "points.ply"))
	require.Contains(t, header, "property uchar blue\n")
	require.Len(t, rows, 15*valid)

	before, err := os.ReadFile(filepath.Join(out, "pointmap.npy"))
	require.NoError(t, err)
	status, _, stderr := depthIn(t, context.Background(), "-out", out)
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "-force")
	made(t, "-out", out, "-fov", "60", "-project", "-force")
	after, err := os.ReadFile(filepath.Join(out, "pointmap.npy"))
	require.NoError(t, err)
	require.Equal(t, before, after, "the same picture gives the same bytes")
}

// cloud splits a PLY file.
func cloud(t *testing.T, path string) (header string, rows []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	header, body, ok := strings.Cut(string(data), "end_header\n")
	require.True(t, ok)
	return header, []byte(body)
}

// TestMetric runs the small MoGe-3 of the MLX bundle.
func TestMetric(t *testing.T) {
	out := t.TempDir()
	bundle := filepath.Join(fixture.Dir(), "checkpoint_mlx_tiny")
	s := made(t, "-out", out, "-model", bundle, "-tokens", "20", "-rounds", "1", "-fov", "50")
	require.Equal(t, 3, s.Version)
	require.True(t, s.Metric)
	require.Equal(t, millimetre, s.DepthScale)
	_, rows := cloud(t, filepath.Join(out, "points.ply"))
	points, err := sam3d.LoadPointMap(filepath.Join(out, "pointmap.npy"))
	require.NoError(t, err)
	for _, x := range points.Points {
		if x == x {
			require.Equal(t, math.Float32bits(x), binary.LittleEndian.Uint32(rows), "the first point")
			break
		}
	}
	status, stdout, _ := depthIn(t, context.Background(), "-out", t.TempDir(), "-model", bundle, "-tokens", "20", "-rounds", "0")
	require.Zero(t, status)
	require.Contains(t, stdout, "MoGe-3: 320x240 pixels")
	require.Contains(t, stdout, " m, median ")
}

// TestNothingValid: without a valid pixel the pictures are empty and nothing fails.
func TestNothingValid(t *testing.T) {
	r := &moge.Result{Height: 2, Width: 3, Points: make([]float32, 18), Depth: make([]float32, 6), Mask: make([]bool, 6),
		Normals: make([]float32, 18), MetricScale: 1}
	for i := range r.Points {
		r.Points[i] = float32(math.Inf(1))
	}
	v := newView(moge.Image{Height: 2, Width: 3, Pixels: make([]float32, 18)}, r)
	s := v.summarise(2, 0)
	require.Len(t, s.Warnings, 2)
	require.Nil(t, s.Median)
	require.Nil(t, s.Intrinsics)
	_, err := json.Marshal(s)
	require.NoError(t, err)
	require.NoError(t, s.print(&bytes.Buffer{}))
	for _, file := range files {
		require.NoError(t, file.encode(&bytes.Buffer{}, v))
	}
}

// TestFarPixels: what is beyond the 16-bit picture is 0 there, and is told.
func TestFarPixels(t *testing.T) {
	r := &moge.Result{Height: 1, Width: 3, Points: []float32{0, 0, 2, 0, 0, 65.535, 0, 0, 100}, Depth: []float32{2, 65.535, 100}, MetricScale: 1}
	v := newView(moge.Image{Height: 1, Width: 3, Pixels: make([]float32, 9)}, r)
	require.Contains(t, v.summarise(2, 0).Warnings[1], "1 pixels are too far")
	var file bytes.Buffer
	require.NoError(t, write16(&file, v))
	img, err := png.Decode(&file)
	require.NoError(t, err)
	for x, want := range []uint16{2000, 65535, 0} {
		require.Equal(t, color.Gray16{Y: want}, img.At(x, 0))
	}
}

func TestRamp(t *testing.T) {
	require.Equal(t, ramp[0], ramped(-1))
	require.Equal(t, ramp[len(ramp)-1], ramped(2))
	before := 0
	for i := range 101 {
		c := ramped(float64(i) / 100)
		bright := 2*int(c.R) + 5*int(c.G) + int(c.B)
		require.GreaterOrEqual(t, bright, before, "nearer is brighter")
		before = bright
	}
}

func TestWrongCommandLines(t *testing.T) {
	for text, args := range map[string][]string{
		"-level 10":                     {"-level", "10"},
		"-tokens -1":                    {"-tokens", "-1"},
		"-rounds -1":                    {"-rounds", "-1"},
		"-fov 180":                      {"-fov", "180"},
		"-fov NaN":                      {"-fov", "nan"},
		"unexpected argument":           {"photo.jpg"},
		"flag provided but not defined": {"-nothing"},
	} {
		out := filepath.Join(t.TempDir(), "out")
		status, stdout, stderr := depthIn(t, context.Background(), append(args, "-out", out)...)
		require.Equal(t, 2, status, text)
		require.Empty(t, stdout)
		require.Contains(t, stderr, text)
		require.NoDirExists(t, out)
	}
	status, _, stderr := depthIn(t, context.Background(), "-help")
	require.Zero(t, status)
	require.Contains(t, stderr, "-tokens")
}

// Bad files end the program before any model runs, and leave no result.
func TestBadFiles(t *testing.T) {
	folder := t.TempDir()
	text := filepath.Join(folder, "text.png")
	require.NoError(t, os.WriteFile(text, []byte("this is no picture"), 0o666))
	for expected, args := range map[string][]string{
		"no such file":       {"-image", filepath.Join(folder, "none.png")},
		"unknown format":     {"-image", text},
		"not a checkpoint":   {"-model", text},
		"holds neither":      {"-model", folder},
		"unknown; there are": {"-backend", "abacus"},
		"only MoGe-3 has":    {"-rounds", "2"},
		"patches, not in":    {"-tokens", "1000000"},
	} {
		out := filepath.Join(t.TempDir(), "out")
		status, stdout, stderr := depthIn(t, context.Background(), append(args, "-out", out, "-json")...)
		require.Equal(t, 1, status, expected)
		require.Contains(t, stderr, expected)
		var failure map[string]string
		require.NoError(t, json.Unmarshal([]byte(stdout), &failure))
		require.Contains(t, failure["error"], expected)
		entries, err := os.ReadDir(out)
		require.NoError(t, err)
		require.Empty(t, entries, expected)
	}
	status, _, stderr := depthIn(t, context.Background(), "-out", filepath.Join(text, "out"))
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "not a directory")
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	out := filepath.Join(t.TempDir(), "out")
	status, _, stderr := depthIn(t, ctx, "-out", out)
	require.Equal(t, 1, status)
	require.Contains(t, stderr, context.Canceled.Error())
	entries, err := os.ReadDir(out)
	require.NoError(t, err)
	require.Empty(t, entries)
}
