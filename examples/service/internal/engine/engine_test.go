// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/examples/service/internal/store"
	"github.com/gomlx3d/image3d/export"
	"github.com/gomlx3d/image3d/sam3d"
	"github.com/gomlx3d/image3d/testdata"
)

func folderWith(t *testing.T, files map[string][]byte) string {
	t.Helper()
	folder := t.TempDir()
	for name, data := range files {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), data, 0o600))
	}
	return folder
}

func grey(t *testing.T, width, height int, value uint8) []byte {
	t.Helper()
	img := image.NewGray(image.Rect(0, 0, width, height))
	for i := range img.Pix {
		img.Pix[i] = value
	}
	var data bytes.Buffer
	require.NoError(t, png.Encode(&data, img))
	return data.Bytes()
}

func TestCheck(t *testing.T) {
	e := &Engine{MaxPixels: 320 * 240}
	good := store.Job{HasMask: true}
	require.NoError(t, e.Check(good, folderWith(t, map[string][]byte{"image": testdata.Image, "mask": testdata.Mask})))
	var field *FileError
	err := e.Check(good, folderWith(t, map[string][]byte{"image": testdata.Image, "mask": []byte("no picture")}))
	require.ErrorAs(t, err, &field)
	require.Equal(t, "mask", field.Field)
	require.ErrorIs(t, err, sam3d.ErrImageFile)
	require.NotContains(t, err.Error(), os.TempDir())

	large := grey(t, 321, 240, 255)
	require.ErrorIs(t, e.Check(good, folderWith(t, map[string][]byte{"image": large, "mask": large})), sam3d.ErrTooLarge)
	black := grey(t, 320, 240, 0)
	require.ErrorIs(t, e.Check(good, folderWith(t, map[string][]byte{"image": testdata.Image, "mask": black})), sam3d.ErrEmptyMask)
	other := grey(t, 240, 320, 255)
	require.ErrorContains(t, e.Check(good, folderWith(t, map[string][]byte{"image": testdata.Image, "mask": other})), "240x320")
	points := store.Job{HasMask: true, HasPoints: true}
	require.ErrorIs(t, e.Check(points, folderWith(t, map[string][]byte{"image": testdata.Image, "mask": testdata.Mask,
		"points": []byte("x")})), sam3d.ErrPointMapFile)
	_, err = e.Make(context.Background(), good, t.TempDir(), nil)
	require.ErrorIs(t, err, ErrNotReady)
	require.NoError(t, e.Close())
}

func TestMake(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: runs the model several times")
	}
	e := &Engine{MaxPixels: 1 << 20}
	require.ErrorIs(t, e.Open(context.Background(), "", "abacus"), sam3d.ErrBackend)
	require.False(t, e.Ready())
	require.NoError(t, e.Open(context.Background(), "", "go"))
	defer e.Close()
	require.True(t, e.Ready())
	job := store.Job{HasMask: true, Options: store.Options{Seed: 3, Steps: 1, LatentSteps: 1, Outputs: []string{"gaussians", "gaussians4", "mesh"}}}
	folder := folderWith(t, map[string][]byte{"image": testdata.Image, "mask": testdata.Mask})
	var stages []sam3d.Stage
	summary, err := e.Make(context.Background(), job, folder, func(e sam3d.Event) { stages = append(stages, e.Stage) })
	require.NoError(t, err)
	require.Contains(t, stages, sam3d.StageMesh)
	var names []string
	for _, file := range summary.Files {
		names = append(names, file.Name)
		info, err := os.Stat(filepath.Join(folder, file.Name))
		require.NoError(t, err)
		require.Equal(t, info.Size(), file.Bytes)
	}
	require.Equal(t, []string{LightPLY, ResultPLY, PosedPLY, ResultGLB, ResultOBJ, ResultSTL, PosedGLB, PointsPLY, PhotoJPEG, ResultJSON}, names)
	data, err := os.ReadFile(filepath.Join(folder, ResultPLY))
	require.NoError(t, err)
	splats, err := export.ReadPLY(bytes.NewReader(data))
	require.NoError(t, err)
	require.Equal(t, summary.Gaussians, splats.Len())

	// A crash after the last file: the result is there, and nothing is made again.
	stages = nil
	again, err := e.Make(context.Background(), job, folder, func(e sam3d.Event) { stages = append(stages, e.Stage) })
	require.NoError(t, err)
	require.Equal(t, summary, again)
	require.Empty(t, stages)
	// A result that is not what it says is made again, with the same bytes.
	require.NoError(t, os.WriteFile(filepath.Join(folder, ResultPLY), data[:100], 0o600))
	again, err = e.Make(context.Background(), job, folder, func(e sam3d.Event) { stages = append(stages, e.Stage) })
	require.NoError(t, err)
	require.Equal(t, summary, again)
	require.NotEmpty(t, stages)

	// A disk that takes no more: the files that were written make room again.
	for _, file := range summary.Files {
		require.NoError(t, os.Remove(filepath.Join(folder, file.Name)))
	}
	require.NoError(t, os.Mkdir(filepath.Join(folder, PosedGLB), 0o700))
	_, err = e.Make(context.Background(), job, folder, func(sam3d.Event) {})
	require.ErrorContains(t, err, PosedGLB)
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, left, 3, "the client's files and what is in the way")

	ctx, cancel := context.WithCancel(context.Background())
	empty := folderWith(t, map[string][]byte{"image": testdata.Image, "mask": testdata.Mask})
	_, err = e.Make(ctx, job, empty, func(sam3d.Event) { cancel() })
	require.ErrorIs(t, err, context.Canceled)
	left, err = os.ReadDir(empty)
	require.NoError(t, err)
	require.Len(t, left, 2)
}

// pinhole is the point map of a wall that is not parallel to the picture, seen by a camera of a known focal length.
func pinhole(width, height int, focal float64) sam3d.PointMap {
	m := sam3d.PointMap{Width: width, Height: height}
	for y := range height {
		for x := range width {
			u, v := float64(x)+0.5-float64(width)/2, float64(y)+0.5-float64(height)/2
			z := 2 + 0.01*u
			m.Points = append(m.Points, float32(-u*z/focal), float32(-v*z/focal), float32(z))
		}
	}
	return m
}

func TestCamera(t *testing.T) {
	m := pinhole(64, 48, 70)
	m.Points[30] = float32(math.NaN())
	m.Points[95] = float32(math.Inf(1))
	m.Points[122] = -1
	c := cameraOf(m, 640, 480)
	require.InDelta(t, 700, c.Focal, 0.1)
	require.InDelta(t, 2*math.Atan(240.0/700)*180/math.Pi, c.FOVY, 0.01)
	require.Nil(t, cameraOf(sam3d.PointMap{Width: 1, Height: 1, Points: []float32{0, 0, 0}}, 10, 10))
	require.Nil(t, cameraOf(pinhole(8, 8, -5), 10, 10), "a mirrored map")
}

func TestViews(t *testing.T) {
	photo := image.NewNRGBA(image.Rect(0, 0, 4000, 2000))
	for i := range photo.Pix {
		photo.Pix[i] = 255
	}
	photo.Set(3999, 1999, color.NRGBA{255, 0, 0, 255})
	var data bytes.Buffer
	require.NoError(t, writePhoto(&data, photo))
	small, err := jpeg.DecodeConfig(&data)
	require.NoError(t, err)
	require.Equal(t, 1600, small.Width)
	require.Equal(t, 800, small.Height)

	data.Reset()
	m := pinhole(4, 2, 3)
	m.Points[0] = float32(math.NaN())
	require.NoError(t, writePoints(&data, m, photo))
	header, body, _ := bytes.Cut(data.Bytes(), []byte("end_header\n"))
	require.Contains(t, string(header), "element vertex 7\n")
	require.Len(t, body, 7*15)
	data.Reset()
	require.NoError(t, writePoints(&data, pinhole(1000, 800, 900), photo))
	require.Less(t, data.Len(), 15*maxPoints+300)
	encoded, err := json.Marshal(poseOf(sam3d.Pose{}))
	require.NoError(t, err)
	require.Contains(t, string(encoded), "rotation_wxyz")
}
