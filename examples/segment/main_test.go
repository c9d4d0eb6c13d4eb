// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/examples/internal/segmenter"
	"github.com/gomlx3d/image3d/examples/internal/segmenter/tiny"
	"github.com/gomlx3d/image3d/sam3d/segment"
)

// writeModel writes a small network with random weights and returns its folder.
func writeModel(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, tiny.Write(folder, tiny.Doubtful))
	return folder
}

func writePicture(t *testing.T, width, height int) string {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			img.Set(x, y, color.NRGBA{uint8(5 * x), uint8(7 * y), uint8(x * y), 255})
		}
	}
	var data bytes.Buffer
	require.NoError(t, png.Encode(&data, img))
	path := filepath.Join(t.TempDir(), "photo.png")
	require.NoError(t, os.WriteFile(path, data.Bytes(), 0o666))
	return path
}

// segmentIn runs the program and returns its exit status and what it printed.
func segmentIn(t *testing.T, ctx context.Context, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, log bytes.Buffer
	status = run(ctx, args, &out, &log)
	return status, out.String(), log.String()
}

func names(t *testing.T, folder string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func decode(t *testing.T, path string) image.Image {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	img, err := png.Decode(file)
	require.NoError(t, err)
	return img
}

func TestSegment(t *testing.T) {
	model, photo := writeModel(t), writePicture(t, 40, 30)
	out := filepath.Join(t.TempDir(), "new", "folder")
	base := []string{"-model", model, "-image", photo, "-out", out}
	with := func(args ...string) []string { return append(append([]string{}, base...), args...) }
	status, stdout, stderr := segmentIn(t, t.Context(), with("-text", "cat", "-threshold", "-1", "-json")...)
	require.Zero(t, status, stderr)
	var r report
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	require.Len(t, r.Detections, tiny.Queries)
	require.Equal(t, []int{40, 30}, []int{r.Width, r.Height})
	require.Equal(t, []string{"detections.json", "mask_000.png", "mask_001.png", "overlay.png"}, names(t, out))
	for _, d := range r.Detections {
		mask := decode(t, filepath.Join(out, d.Mask)).(*image.Gray)
		require.Equal(t, image.Rect(0, 0, 40, 30), mask.Rect)
		require.Equal(t, d.Pixels, inside(mask))
	}
	require.Equal(t, image.Rect(0, 0, 40, 30), decode(t, filepath.Join(out, "overlay.png")).Bounds())
	file, err := os.ReadFile(filepath.Join(out, "detections.json"))
	require.NoError(t, err)
	require.Equal(t, stdout, string(file))

	status, _, stderr = segmentIn(t, t.Context(), with("-text", "cat")...)
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "-force")
	status, stdout, stderr = segmentIn(t, t.Context(), with("-text", "cat", "-threshold", "0.999", "-force")...)
	require.Zero(t, status, stderr)
	require.Contains(t, stdout, "0 found")
	require.Equal(t, []string{"detections.json", "overlay.png"}, names(t, out), "masks of the earlier run are gone")
	status, _, stderr = segmentIn(t, t.Context(), with("-boxes", "1,2,30,20; 5,5,9,9,0", "-points", "3,4", "-text", "cat", "-threshold", "0", "-force")...)
	require.Zero(t, status, stderr)
	require.Len(t, names(t, out), 2+tiny.Queries)
}

func TestClicks(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	status, stdout, stderr := segmentIn(t, t.Context(), "-model", writeModel(t), "-image", writePicture(t, 40, 30), "-out", out,
		"-points", "20,15; 3.5,4,0", "-json")
	require.Zero(t, status, stderr)
	var r report
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	require.LessOrEqual(t, len(r.Detections), 1)
	require.Len(t, names(t, out), 2+len(r.Detections))
}

func TestWrongCommandLines(t *testing.T) {
	for text, args := range map[string][]string{
		"-model and -image are needed":  {"-text", "cat"},
		"is needed":                     {"-model", "m", "-image", "i"},
		"unexpected argument":           {"-model", "m", "-image", "i", "-text", "yellow", "bus"},
		"not 2 and perhaps a label":     {"-points", "1"},
		"not 4 and perhaps a label":     {"-boxes", "1,2,3"},
		"neither 1 nor 0":               {"-points", "1,2,3"},
		"invalid syntax":                {"-boxes", "1,2,x,4"},
		"-threshold NaN is not in":      {"-model", "m", "-image", "i", "-text", "cat", "-threshold", "NaN"},
		"-max-pixels 0":                 {"-model", "m", "-image", "i", "-text", "cat", "-max-pixels", "0"},
		"flag provided but not defined": {"-nothing"},
	} {
		status, stdout, stderr := segmentIn(t, t.Context(), append([]string{"-out", filepath.Join(t.TempDir(), "out")}, args...)...)
		require.Equal(t, 2, status, text)
		require.Empty(t, stdout)
		require.Contains(t, stderr, text)
	}
	status, _, stderr := segmentIn(t, t.Context(), "-help")
	require.Zero(t, status)
	require.Contains(t, stderr, "-vocabulary")
}

// Failures leave no file behind.
func TestFailures(t *testing.T) {
	model, photo := writeModel(t), writePicture(t, 40, 30)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for expected, args := range map[string][]string{
		"no such file":           {"-image", "none.png", "-text", "cat"},
		"the limit is 100":       {"-image", photo, "-text", "cat", "-max-pixels", "100"},
		"unknown; there are":     {"-image", photo, "-text", "cat", "-backend", "abacus"},
		"outside the picture":    {"-image", photo, "-points", "41,3"},
		"box (1, 2) to (41, 4)":  {"-image", photo, "-boxes", "1,2,41,4"},
		"nowhere":                {"-image", photo, "-text", "cat", "-vocabulary", filepath.Join(t.TempDir(), "nowhere")},
		context.Canceled.Error(): {"-image", photo, "-text", "cat"},
		"neither a folder nor":   {"-image", photo, "-text", "cat", "-model", filepath.Join(model, "none")},
	} {
		ctx := t.Context()
		if expected == context.Canceled.Error() {
			ctx = cancelled
		}
		out := filepath.Join(t.TempDir(), "out")
		status, stdout, stderr := segmentIn(t, ctx, append([]string{"-model", model, "-out", out, "-json"}, args...)...)
		require.Equal(t, 1, status, expected)
		require.Contains(t, stderr, expected)
		var failure map[string]string
		require.NoError(t, json.Unmarshal([]byte(stdout), &failure))
		require.Contains(t, failure["error"], expected)
		require.Empty(t, names(t, out), expected)
	}
	require.NoError(t, os.Remove(filepath.Join(model, "merges.txt")))
	status, _, stderr := segmentIn(t, t.Context(), "-model", model, "-image", photo, "-text", "cat", "-out", t.TempDir())
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "-vocabulary")
	status, _, _ = segmentIn(t, t.Context(), "-model", model, "-image", photo, "-text", "cat", "-out", filepath.Join(photo, "out"))
	require.Equal(t, 1, status)
}

func TestOverlay(t *testing.T) {
	picture := image.NewGray(image.Rect(5, 5, 65, 45))
	mask := image.NewGray(image.Rect(0, 0, 60, 40))
	mask.Pix[39*60+59] = 255
	out := overlay(picture, []segmenter.Object{{Mask: mask, Box: segment.Box{X0: -1e9, Y0: 10, X1: 1e9, Y1: 35}, Score: 0.5},
		{Mask: mask, Box: segment.Box{X0: 59, Y0: 39, X1: 60, Y1: 40}, Score: 0.5}})
	require.Equal(t, image.Rect(0, 0, 60, 40), out.Rect)
	require.Equal(t, color.RGBA{230, 60, 60, 255}, out.RGBAAt(0, 30), "the first box reaches the left border")
	require.Equal(t, color.RGBA{0, 0, 0, 255}, out.RGBAAt(30, 5))
	require.NotPanics(t, func() {
		overlay(image.NewGray(image.Rect(0, 0, 1, 1)), []segmenter.Object{{Mask: image.NewGray(image.Rect(0, 0, 1, 1)), Score: 1}})
	})
}
