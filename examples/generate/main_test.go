// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/qmuntal/gltf"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/export"
	"github.com/gomlx3d/image3d/sam3d"
)

// generateIn runs the program and returns its exit status and what it printed.
func generateIn(t *testing.T, ctx context.Context, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, log bytes.Buffer
	status = run(ctx, args, &out, &log)
	return status, out.String(), log.String()
}

func TestDemo(t *testing.T) {
	out := filepath.Join(t.TempDir(), "new", "folder")
	status, stdout, stderr := generateIn(t, context.Background(), "-out", out, "-json", "-formats", "gaussian,gaussian4,mesh", "-mesh-format", "glb,obj,stl")
	require.Zero(t, status, stderr)
	require.Contains(t, stderr, "random weights")
	require.Contains(t, stderr, "structure 3/3")

	var s summary
	decoder := json.NewDecoder(strings.NewReader(stdout))
	require.NoError(t, decoder.Decode(&s))
	require.False(t, decoder.More(), "one document")
	require.Equal(t, 32*s.Voxels, s.Splats)
	require.Equal(t, 4*s.Voxels, s.Splats4)
	var names []string
	for _, file := range s.Files {
		names = append(names, filepath.Base(file))
	}
	require.Equal(t, []string{"gaussians.ply", "gaussians4.ply", "mesh.glb", "mesh.obj", "mesh.stl", "pose.json"}, names)
	entries, err := os.ReadDir(out)
	require.NoError(t, err)
	require.Len(t, entries, len(names), "nothing else is left in the folder")

	file, err := os.Open(filepath.Join(out, "gaussians.ply"))
	require.NoError(t, err)
	defer file.Close()
	splats, err := export.ReadPLY(file)
	require.NoError(t, err)
	require.Equal(t, s.Splats, splats.Len())
	document, err := gltf.Open(filepath.Join(out, "mesh.glb"))
	require.NoError(t, err)
	require.Equal(t, s.Vertices, document.Accessors[document.Meshes[0].Primitives[0].Attributes[gltf.POSITION]].Count)

	var pose poseJSON
	text, err := os.ReadFile(filepath.Join(out, "pose.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &pose))
	require.Equal(t, s.Pose, pose)
	require.False(t, pose.Metric, "MoGe-1 does not know metres")
	require.True(t, poseOf(&sam3d.Result{Metric: true}).Metric)

	before, err := os.ReadFile(filepath.Join(out, "gaussians.ply"))
	require.NoError(t, err)
	status, _, stderr = generateIn(t, context.Background(), "-out", out)
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "-force")
	status, _, stderr = generateIn(t, context.Background(), "-out", out, "-force")
	require.Zero(t, status, stderr)
	after, err := os.ReadFile(filepath.Join(out, "gaussians.ply"))
	require.NoError(t, err)
	require.Equal(t, before, after, "the same seed gives the same bytes")
}

func TestWrongCommandLines(t *testing.T) {
	for text, args := range map[string][]string{
		"at least one step":             {"-steps", "0"},
		"-latent-steps -1":              {"-latent-steps", "-1"},
		`unknown "splat"`:               {"-formats", "gaussian,splat"},
		`unknown "ply"`:                 {"-mesh-format", "ply"},
		"unexpected argument":           {"photo.jpg"},
		"need an -image":                {"-mask", "mask.png"},
		"-depth needs -intrinsics":      {"-image", "a.png", "-depth", "d.png"},
		"exclude each other":            {"-image", "a.png", "-depth", "d.png", "-pointmap", "p.npy"},
		"-depth-scale NaN":              {"-depth-scale", "NaN"},
		"-max-pixels 0":                 {"-max-pixels", "0"},
		`unknown "opengl"`:              {"-pointmap-axes", "opengl"},
		"3 numbers, not four":           {"-intrinsics", "1,2,3"},
		"focal lengths 0":               {"-intrinsics", "0,1,2,3"},
		"invalid syntax":                {"-intrinsics", "a,1,2,3"},
		"flag provided but not defined": {"-nothing"},
	} {
		status, stdout, stderr := generateIn(t, context.Background(), append(args, "-out", filepath.Join(t.TempDir(), "out"))...)
		require.Equal(t, 2, status, text)
		require.Empty(t, stdout)
		require.Contains(t, stderr, text)
	}
	status, _, stderr := generateIn(t, context.Background(), "-help")
	require.Zero(t, status)
	require.Contains(t, stderr, "-latent-steps")
}

// Bad files end the program before any model runs, and leave no result.
func TestBadFiles(t *testing.T) {
	folder := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, data, 0o666))
		return path
	}
	picture := func(name string, width, height int, value uint8) string {
		img := image.NewGray(image.Rect(0, 0, width, height))
		for i := range img.Pix {
			img.Pix[i] = value
		}
		var data bytes.Buffer
		require.NoError(t, png.Encode(&data, img))
		return write(name, data.Bytes())
	}
	photo, text := picture("photo.png", 64, 48, 128), write("text.png", []byte("this is no picture"))
	for expected, args := range map[string][]string{
		"no such file":       {"-image", filepath.Join(folder, "none.png")},
		"unknown format":     {"-image", text},
		"-fit-mask":          {"-image", photo, "-mask", picture("turned.png", 48, 64, 255)},
		"mask is empty":      {"-image", photo, "-mask", picture("black.png", 64, 48, 0)},
		"-mask names":        {"-image", photo},
		"not a point map":    {"-image", photo, "-mask", picture("white.png", 64, 48, 255), "-pointmap", text},
		"holds no depths":    {"-image", photo, "-mask", picture("white.png", 64, 48, 255), "-depth", photo, "-intrinsics", "50,50,32,24"},
		"the limit is 3071":  {"-image", photo, "-max-pixels", "3071"},
		"neither an officia": {"-image", photo, "-mask", picture("white.png", 64, 48, 255), "-model", folder},
		"unknown; there are": {"-backend", "abacus"},
	} {
		out := filepath.Join(t.TempDir(), "out")
		status, stdout, stderr := generateIn(t, context.Background(), append(args, "-out", out, "-json")...)
		require.Equal(t, 1, status, expected)
		require.Contains(t, stderr, expected)
		var failure map[string]string
		require.NoError(t, json.Unmarshal([]byte(stdout), &failure))
		require.Contains(t, failure["error"], expected)
		entries, err := os.ReadDir(out)
		require.NoError(t, err)
		require.Empty(t, entries, expected)
	}
	status, _, stderr := generateIn(t, context.Background(), "-out", filepath.Join(photo, "out"))
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "not a directory")
}

// TestInputs: a mask of another size and a depth map of another one still, when asked for.
func TestInputs(t *testing.T) {
	folder := t.TempDir()
	write := func(name string, img image.Image) string {
		var data bytes.Buffer
		require.NoError(t, png.Encode(&data, img))
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, data.Bytes(), 0o666))
		return path
	}
	photo, mask, depth := image.NewGray(image.Rect(0, 0, 64, 48)), image.NewGray(image.Rect(0, 0, 32, 24)), image.NewGray16(image.Rect(0, 0, 16, 12))
	for i := range photo.Pix {
		photo.Pix[i] = uint8(i)
	}
	for i := range mask.Pix {
		if i%32 > 10 {
			mask.Pix[i] = 255
		}
	}
	for i := range depth.Pix {
		depth.Pix[i] = 8 // 2056
	}
	args := []string{"-image", write("photo.png", photo), "-mask", write("mask.png", mask), "-fit-mask", "-depth", write("depth.png", depth),
		"-intrinsics", "12, 12, 8, 6", "-depth-scale", "0.001", "-steps", "1", "-latent-steps", "1", "-formats", "gaussian4", "-json",
		"-out", filepath.Join(folder, "out")}
	status, stdout, stderr := generateIn(t, context.Background(), args...)
	require.Zero(t, status, stderr)
	var s summary
	require.NoError(t, json.Unmarshal([]byte(stdout), &s))
	require.Empty(t, s.Warnings)
	require.Greater(t, s.Pose.Translation[2], 0.5, "the plane is 2 m away")
	require.Less(t, s.Pose.Translation[2], 8.0)
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	out := filepath.Join(t.TempDir(), "out")
	status, _, stderr := generateIn(t, ctx, "-out", out)
	require.Equal(t, 1, status)
	require.Contains(t, stderr, context.Canceled.Error())
	entries, err := os.ReadDir(out)
	require.NoError(t, err)
	require.Empty(t, entries)
}
