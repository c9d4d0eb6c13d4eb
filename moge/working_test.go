// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/imageio"
	"github.com/gomlx3d/image3d/internal/nn"
)

func TestTokens(t *testing.T) {
	for level, want := range []int{1275, 1416, 1558, 1700, 1842, 1983, 2125, 2267, 2409, 2551} {
		got, err := V1().tokens(Options{ResolutionLevel: &level})
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	got, err := V1().tokens(Options{})
	require.NoError(t, err)
	require.Equal(t, 2551, got)
	level := 3
	got, err = V1().tokens(Options{ResolutionLevel: &level, NumTokens: 77})
	require.NoError(t, err)
	require.Equal(t, 77, got)
	for _, level := range []int{-9, 1000, math.MinInt, math.MaxInt} {
		_, err := V1().tokens(Options{ResolutionLevel: &level})
		require.ErrorIs(t, err, ErrInput)
	}
}

func TestWorkingSize(t *testing.T) {
	for _, c := range []struct {
		height, width, tokens int
		want                  working
	}{
		{518, 518, 2551, working{707, 707, 50, 50}},
		{518, 518, 1275, working{499, 499, 35, 35}},
		{720, 1280, 2551, working{530, 942, 37, 67}},
		{48, 66, 20, working{53, 73, 3, 5}},
		{1, 1, 2551, working{707, 707, 50, 50}},
		{40, 3000, 2551, working{81, 6123, 5, 437}},
	} {
		got, err := workingSize(c.height, c.width, c.tokens)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	for _, c := range [][3]int{{1, 240, 20}, {240, 1, 20}, {518, 500, 1}} {
		_, err := workingSize(c[0], c[1], c[2])
		require.ErrorIs(t, err, ErrInput, c)
	}
}

// TestTaps compares with the dense weights of the shared graph function.
func TestTaps(t *testing.T) {
	for _, size := range [][2]int{{8, 13}, {13, 8}, {8, 8}, {1, 5}, {400, 707}} {
		in, out := size[0], size[1]
		matrix, taps := nn.BilinearMatrix(in, out), newTaps(in, out)
		for i := range out {
			row := make([]float32, in)
			row[taps.first[i]] += 1 - taps.share[i]
			row[taps.second[i]] += taps.share[i]
			require.InDeltaSlice(t, matrix[i*in:(i+1)*in], row, 1e-6)
		}
	}
}

func TestClamped(t *testing.T) {
	require.Equal(t, []int{5, 5, 6, 7, 7, 7}, clamped([]int{5, 6, 7}, -1, 5))
	require.Equal(t, []int{6}, clamped([]int{5, 6, 7}, 1, 2))
}

// TestCoordinates: the corners of every map lie on the unit circle.
func TestCoordinates(t *testing.T) {
	w := working{height: 530, width: 942}
	for _, size := range [][2]int{{1, 1}, {37, 67}, {530, 942}} {
		u, v := w.coordinates(size[0], size[1])
		require.Len(t, u, size[1])
		require.Len(t, v, size[0])
		right := float64(u[len(u)-1]) * float64(size[1]) / max(1, float64(size[1]-1))
		bottom := float64(v[len(v)-1]) * float64(size[0]) / max(1, float64(size[0]-1))
		if size[0] > 1 {
			require.InDelta(t, 1, math.Hypot(right, bottom), 1e-6)
		}
		require.InDelta(t, -u[0], u[len(u)-1], 1e-7)
	}
}

func TestImageCheck(t *testing.T) {
	for name, change := range map[string]func(i *Image){
		"one channel":     func(i *Image) { i.Pixels = i.Pixels[:4*6] },
		"four channels":   func(i *Image) { i.Pixels = append(i.Pixels, i.Pixels[:4*6]...) },
		"empty":           func(i *Image) { *i = Image{} },
		"no width":        func(i *Image) { i.Width = 0 },
		"negative":        func(i *Image) { i.Height, i.Width = -i.Height, -i.Width },
		"huge":            func(i *Image) { i.Height, i.Width = 1<<62, 1<<62 },
		"NaN":             func(i *Image) { i.Pixels[5] = float32(math.NaN()) },
		"infinite":        func(i *Image) { i.Pixels[5] = float32(math.Inf(-1)) },
		"bytes":           func(i *Image) { i.Pixels[5] = 255 },
		"already centred": func(i *Image) { i.Pixels[5] = -1 },
	} {
		image := testImage(4, 6)
		require.NoError(t, image.check())
		change(&image)
		require.ErrorIs(t, image.check(), ErrInput, name)
	}
}

func TestRemap(t *testing.T) {
	values := imageio.NewPlanes(4, 1, 2)
	copy(values.Data, []float32{1, -2, 0.5, 3, 0.25, -1, 9, 9})
	sinh := func(x float64) float32 { return float32(math.Sinh(x)) }
	exp := func(x float64) float32 { return float32(math.Exp(x)) }
	for remap, want := range map[Remap][]float32{
		RemapLinear:  {1, 0.5, 0.25, -2, 3, -1},
		RemapSinh:    {sinh(1), sinh(0.5), sinh(0.25), sinh(-2), sinh(3), sinh(-1)},
		RemapExp:     {exp(0.25), 0.5 * exp(0.25), exp(0.25), -2 * exp(-1), 3 * exp(-1), exp(-1)},
		RemapSinhExp: {sinh(1), sinh(0.5), exp(0.25), sinh(-2), sinh(3), exp(-1)},
	} {
		require.InDeltaSlice(t, want, remap.points(values), 1e-6, remap)
	}
}
