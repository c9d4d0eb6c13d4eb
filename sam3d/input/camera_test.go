// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package input

import (
	"image"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// depths returns a bumpy wall, with some pixels that have no depth.
func depths(width, height int) []float32 {
	rng := rand.New(rand.NewPCG(3, uint64(width)))
	out := make([]float32, width*height)
	for i := range out {
		if out[i] = 1 + 3*rng.Float32(); i%7 == 3 {
			out[i] = 0
		}
	}
	return out
}

// TestCamera finds the camera that a map was made with, also one whose axis is not in the middle.
func TestCamera(t *testing.T) {
	for _, want := range []Intrinsics{
		{FX: 50, FY: 50, CX: 31.5, CY: 23.5}, {FX: 300, FY: 280, CX: 10, CY: 40}, {FX: 20, FY: 25, CX: -30, CY: 90},
	} {
		m, err := FromDepth(64, 48, depths(64, 48), want)
		require.NoError(t, err)
		got, err := m.Camera()
		require.NoError(t, err)
		require.InDeltaSlice(t, []float64{want.FX, want.FY, want.CX, want.CY}, []float64{got.FX, got.FY, got.CX, got.CY}, 2e-4)
	}
}

// TestCameraResize: a map of half the size is of the same camera.
func TestCameraResize(t *testing.T) {
	large := Intrinsics{FX: 80, FY: 70, CX: 31.5, CY: 20}
	small := large.Resize(64, 48, 32, 24)
	require.Equal(t, Intrinsics{FX: 40, FY: 35, CX: 15.5, CY: 9.75}, small)
	require.Equal(t, large, small.Resize(32, 24, 64, 48))
	x, y := large.FOV(64, 48)
	smallX, smallY := small.FOV(32, 24)
	require.InDelta(t, x, smallX, 1e-12)
	require.InDelta(t, y, smallY, 1e-12)
	right, _ := Intrinsics{FX: 1, FY: 1}.FOV(2, 2)
	require.InDelta(t, math.Pi/2, right, 1e-12)
}

func TestNoCamera(t *testing.T) {
	good, err := FromDepth(8, 6, depths(8, 6), Intrinsics{FX: 9, FY: 9, CX: 4, CY: 3})
	require.NoError(t, err)
	changed := func(change func(i int, p []float32)) PointMap {
		m := PointMap{Width: 8, Height: 6, Points: append([]float32(nil), good.Points...)}
		for i := range 48 {
			change(i, m.Points[3*i:3*i+3])
		}
		return m
	}
	for name, m := range map[string]PointMap{
		"wrong size": {Width: 3, Height: 3, Points: good.Points},
		"empty":      {},
		"invalid":    changed(func(_ int, p []float32) { p[2] = nan }),
		"one point": changed(func(i int, p []float32) {
			if i != 20 {
				p[2] = nan
			}
		}),
		"constant": changed(func(_ int, p []float32) { copy(p, []float32{1, 2, 3}) }),
		"behind":   changed(func(_ int, p []float32) { p[2] = -p[2] }),
		"flipped":  changed(func(_ int, p []float32) { p[0] = -p[0] }),
		"overflow": changed(func(_ int, p []float32) { p[0], p[2] = math.MaxFloat32, math.SmallestNonzeroFloat32 }),
	} {
		_, err := m.Camera()
		require.ErrorIs(t, err, ErrPointMap, name)
	}
}

// TestWholeImage: what is known of a picture changes nothing of the conditions of its objects.
func TestWholeImage(t *testing.T) {
	img, _, points := scene(64, 48, image.Rectangle{})
	whole, err := WholeImage(img, 28)
	require.NoError(t, err)
	for _, object := range []image.Rectangle{image.Rect(3, 3, 20, 20), image.Rect(10, 5, 60, 40)} {
		picture, err := New(img, maskOf(img.Rect, object))
		require.NoError(t, err)
		for _, m := range []*PointMap{nil, &points} {
			want, err := picture.Prepare(m, Options{Size: 28})
			require.NoError(t, err)
			got, err := picture.Prepare(m, Options{Size: 28, FullImage: whole})
			require.NoError(t, err)
			require.Equal(t, want.Full.Image, got.Full.Image)
			require.Equal(t, want.Crop.Image, got.Crop.Image)
			require.Equal(t, want.Full.Mask, got.Full.Mask)
		}
		_, err = picture.Prepare(nil, Options{Size: 28, FullImage: whole[1:]})
		require.ErrorIs(t, err, ErrPicture)
	}
	for _, size := range []int{-1, 1 << 20} {
		_, err = WholeImage(img, size)
		require.ErrorIs(t, err, ErrPicture)
	}
	_, err = WholeImage(nil, 28)
	require.ErrorIs(t, err, ErrPicture)
	released, err := WholeImage(img, 0)
	require.NoError(t, err)
	require.Len(t, released, 3*Size*Size)
}
