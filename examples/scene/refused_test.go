// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"image"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWrongCommandLines(t *testing.T) {
	for text, args := range map[string][]string{
		"at least one step":             {"-steps", "0"},
		"-latent-steps -1":              {"-latent-steps", "-1"},
		`unknown "splat"`:               {"-formats", "gaussian,splat"},
		"need an -image":                {"mask.png"},
		"-pointmap and -depth need an":  {"-pointmap", "points.npy"},
		"needs masks":                   {"-image", "photo.jpg"},
		"exclude each other":            {"-image", "photo.jpg", "-labels", "labels.png", "mask.png"},
		"-max-pixels 0":                 {"-max-pixels", "0"},
		`unknown "opengl"`:              {"-pointmap-axes", "opengl"},
		"-depth needs -intrinsics":      {"-image", "a.png", "-depth", "d.png", "mask.png"},
		"-pointmap and -depth exclude":  {"-image", "a.png", "-depth", "d.png", "-pointmap", "p.npy", "mask.png"},
		"-depth-scale NaN":              {"-depth-scale", "NaN"},
		"3 numbers, not four":           {"-intrinsics", "1,2,3"},
		"focal lengths 0":               {"-intrinsics", "0,1,2,3"},
		"invalid syntax":                {"-intrinsics", "a,1,2,3"},
		"flag provided but not defined": {"-nothing"},
	} {
		out := filepath.Join(t.TempDir(), "out")
		status, stdout, stderr := sceneIn(t, context.Background(), append([]string{"-out", out}, args...)...)
		require.Equal(t, 2, status, text)
		require.Empty(t, stdout)
		require.Contains(t, stderr, text)
		require.NoDirExists(t, out)
	}
	status, _, stderr := sceneIn(t, context.Background(), "-help")
	require.Zero(t, status)
	require.Contains(t, stderr, "-latent-steps")
}

// What ends the program before any model runs leaves no results.
func TestBadFiles(t *testing.T) {
	r := newRoom(t)
	mask := r.mask("mask.png", image.Rect(4, 4, 30, 40))
	require.NoError(t, os.Mkdir(r.path("empty"), 0o777))
	text := r.text("text.png", "this is no picture")
	for expected, args := range map[string][]string{
		"no such file":       {r.path("none.png")},
		"there is no mask":   {r.path("empty")},
		"unknown format":     {"-image", text, mask},
		"not a picture file": {"-labels", text},
		"not a label image":  {"-labels", r.mask("black.png", image.Rectangle{})},
		"not a point map":    {"-pointmap", text, mask},
		"missing":            {"-model", r.path("nothing"), mask},
		"neither an officia": {"-model", r.path("empty"), mask},
		"unknown; there are": {"-backend", "abacus", mask},
		"the limit is 9":     {"-max-pixels", "9", mask},
	} {
		require.NoError(t, os.RemoveAll(r.path("out")))
		status, stdout, stderr := sceneIn(t, context.Background(), r.args(append([]string{"-json"}, args...)...)...)
		require.Equal(t, 1, status, expected)
		require.Contains(t, stderr, expected)
		var failure map[string]string
		require.NoError(t, json.Unmarshal([]byte(stdout), &failure))
		require.Contains(t, failure["error"], expected)
		for _, o := range []string{"scene.ply", "scene.glb", "objects"} {
			require.NoFileExists(t, filepath.Join(r.path("out"), o))
		}
	}
}

// Files of others are left alone.
func TestForeignFolders(t *testing.T) {
	r := newRoom(t)
	args := r.args("-formats", "gaussian4", r.mask("mask.png", image.Rect(4, 4, 30, 40)))
	for name, content := range map[string]string{
		"out/scene.ply": "mine", "out/scene.glb": "mine", "out/objects/mine.txt": "mine", "out/scene.json": "{", "out/scene.json/x": "mine",
	} {
		require.NoError(t, os.RemoveAll(r.path("out")))
		path := r.text(name, content)
		status, _, stderr := sceneIn(t, context.Background(), args...)
		require.Equal(t, 1, status, name)
		require.Contains(t, stderr, "scene.json", name)
		left, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, content, string(left))
	}
	require.NoError(t, os.RemoveAll(r.path("out")))
	r.text("out/scene.json", `{"objects": [null]}`)
	status, _, stderr := sceneIn(t, context.Background(), args...)
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "another photograph")
	r.text("file", "")
	status, _, _ = sceneIn(t, context.Background(), append(args, "-out", r.path("file"))...)
	require.Equal(t, 1, status)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(t, os.RemoveAll(r.path("out")))
	status, _, stderr = sceneIn(t, ctx, args...)
	require.Equal(t, 1, status)
	require.Contains(t, stderr, context.Canceled.Error())
	require.Equal(t, []string{"mask pending"}, r.states())
}

func TestNames(t *testing.T) {
	names := []string{"m10.png", "m9.png", "m1.png", "m.png", "m1b.png", "m01.png", "a.png", "m1.2.png", "m1.10.png"}
	slices.SortStableFunc(names, byNumbers)
	require.Equal(t, []string{"a.png", "m1.2.png", "m1.10.png", "m1.png", "m01.png", "m1b.png", "m9.png", "m10.png", "m.png"}, names)
}
