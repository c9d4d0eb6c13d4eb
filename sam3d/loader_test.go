// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/sam3d"
)

// npz is a .npz file of float32 arrays whose shapes are in their headers.
func npz(t *testing.T, arrays map[string][]byte) []byte {
	t.Helper()
	var file bytes.Buffer
	w := zip.NewWriter(&file)
	for name, data := range arrays {
		member, err := w.Create(name + ".npy")
		require.NoError(t, err)
		_, err = member.Write(data)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return file.Bytes()
}

func TestLoaderNPZ(t *testing.T) {
	points := array(1, header("<f4", "False", "(1, 2, 3)"), floats([]float32{1, 2, 3, 4, 5, 6}))
	depth := array(1, header("<f4", "False", "(1, 2)"), floats([]float32{7, 8}))
	want := &sam3d.PointMap{Width: 2, Height: 1, Points: []float32{1, 2, 3, 4, 5, 6}}
	several := map[string][]byte{"points": points, "depth": depth, "other": depth}
	for name, test := range map[string]struct {
		arrays map[string][]byte
		loader sam3d.Loader
	}{
		"the only one": {map[string][]byte{"arr_0": points}, sam3d.Loader{}},
		"usual name":   {several, sam3d.Loader{}},
		"name":         {map[string][]byte{"points": depth, "xyz": points}, sam3d.Loader{Array: "xyz"}},
	} {
		m, err := test.loader.PointMap(bytes.NewReader(npz(t, test.arrays)))
		require.NoError(t, err, name)
		require.Equal(t, want, m, name)
	}
	_, err := sam3d.Loader{}.PointMap(bytes.NewReader(npz(t, map[string][]byte{"a": points, "b": points})))
	require.ErrorIs(t, err, sam3d.ErrPointMapFile)
	require.ErrorContains(t, err, "there are")
	_, err = sam3d.Loader{Array: "depth"}.PointMap(bytes.NewReader(npz(t, several)))
	require.ErrorContains(t, err, "[1 2]")
	m, err := sam3d.Loader{}.DepthMap(bytes.NewReader(npz(t, several)), camera, 1)
	require.NoError(t, err)
	require.Equal(t, float32(8), m.Points[5])
	// An archive longer than its limit of pixels allows.
	large := append(npz(t, map[string][]byte{"a": points}), make([]byte, 2<<20)...)
	_, err = sam3d.Loader{MaxPixels: 2}.PointMap(bytes.NewReader(large))
	require.ErrorIs(t, err, sam3d.ErrTooLarge)
}

var camera = sam3d.Intrinsics{FX: 100, FY: 50, CX: 1, CY: 0}

// TestLoaderDepth: the same depths as a picture of millimetres and as an array of metres, with holes.
func TestLoaderDepth(t *testing.T) {
	millimetres := image.NewGray16(image.Rect(0, 0, 3, 2))
	metres := []float32{2, 1.5, 0, 4, float32(math.Inf(1)), -1}
	for i, v := range []uint16{2000, 1500, 0, 4000, 0, 0} {
		millimetres.SetGray16(i%3, i/3, color.Gray16{Y: v})
	}
	var picture bytes.Buffer
	require.NoError(t, png.Encode(&picture, millimetres))
	nan := float32(math.NaN())
	hole := []float32{nan, nan, nan}
	// Left is positive in x, above is positive in y.
	want := slices.Concat([]float32{0.02, 0, 2}, []float32{0, 0, 1.5}, hole, []float32{0.04, -0.08, 4}, hole, hole)
	for _, test := range []struct {
		file  []byte
		scale float64
	}{
		{picture.Bytes(), 0.001},
		{array(1, header("<f4", "False", "(2, 3)"), floats(metres)), 1},
		{npz(t, map[string][]byte{"depth": array(1, header("<f4", "False", "(2, 3)"), floats(metres))}), 1},
	} {
		m, err := sam3d.Loader{}.DepthMap(bytes.NewReader(test.file), camera, test.scale)
		require.NoError(t, err)
		require.Equal(t, [2]int{3, 2}, [2]int{m.Width, m.Height})
		for i, v := range want {
			if v != v {
				require.True(t, m.Points[i] != m.Points[i], "value %d", i)
				continue
			}
			require.InDelta(t, v, m.Points[i], 1e-6, "value %d", i)
		}
	}
}

func TestLoaderDepthErrors(t *testing.T) {
	encode := func(img image.Image) []byte {
		var b bytes.Buffer
		require.NoError(t, png.Encode(&b, img))
		return b.Bytes()
	}
	good := encode(image.NewGray16(image.Rect(0, 0, 3, 2)))
	for name, test := range map[string]struct {
		camera sam3d.Intrinsics
		scale  float64
		file   []byte
		want   error
	}{
		"no focal length":    {sam3d.Intrinsics{FX: 1}, 1, good, sam3d.ErrRequest},
		"negative":           {sam3d.Intrinsics{FX: 1, FY: -1}, 1, good, sam3d.ErrRequest},
		"NaN":                {sam3d.Intrinsics{FX: 1, FY: 1, CX: math.NaN()}, 1, good, sam3d.ErrRequest},
		"infinite":           {sam3d.Intrinsics{FX: math.Inf(1), FY: 1}, 1, good, sam3d.ErrRequest},
		"no scale":           {camera, 0, good, sam3d.ErrRequest},
		"scale is NaN":       {camera, math.NaN(), good, sam3d.ErrRequest},
		"scale is infinite":  {camera, math.Inf(1), good, sam3d.ErrRequest},
		"8 bits":             {camera, 1, encode(image.NewGray(image.Rect(0, 0, 3, 2))), sam3d.ErrPointMapFile},
		"colour":             {camera, 1, encode(image.NewNRGBA64(image.Rect(0, 0, 3, 2))), sam3d.ErrPointMapFile},
		"empty":              {camera, 1, nil, sam3d.ErrPointMapFile},
		"cut off":            {camera, 1, good[:len(good)-20], sam3d.ErrPointMapFile},
		"points":             {camera, 1, array(1, header("<f4", "False", "(1, 1, 3)"), make([]byte, 12)), sam3d.ErrPointMapFile},
		"too many in array":  {camera, 1, array(1, header("<f4", "False", "(200, 200)"), nil), sam3d.ErrTooLarge},
		"too many in a file": {camera, 1, encode(image.NewGray16(image.Rect(0, 0, 200, 200))), sam3d.ErrTooLarge},
	} {
		_, err := sam3d.Loader{MaxPixels: 30000}.DepthMap(bytes.NewReader(test.file), test.camera, test.scale)
		require.ErrorIs(t, err, test.want, name)
	}
}

// TestLoaderErrors: each kind of failure has an error of its own, whatever is read.
func TestLoaderErrors(t *testing.T) {
	var picture bytes.Buffer
	require.NoError(t, png.Encode(&picture, photo(20, 10)))
	broken := errors.New("broken line")
	l := sam3d.Loader{MaxPixels: 199}
	type read func(r io.Reader) error
	loads := map[string]struct {
		read  read
		kind  error
		large []byte
	}{
		"image": {func(r io.Reader) error { _, err := l.Image(r); return err }, sam3d.ErrImageFile, picture.Bytes()},
		"mask":  {func(r io.Reader) error { _, err := l.Mask(r); return err }, sam3d.ErrImageFile, picture.Bytes()},
		"points": {func(r io.Reader) error { _, err := l.PointMap(r); return err }, sam3d.ErrPointMapFile,
			array(1, header("<f4", "False", "(20, 10, 3)"), nil)},
		"depth": {func(r io.Reader) error { _, err := l.DepthMap(r, camera, 1); return err }, sam3d.ErrPointMapFile, picture.Bytes()},
	}
	for name, load := range loads {
		for _, data := range []string{"", "x", "this is nothing of the kind", "PK\x03\x04", "\x93NUMPY\x01\x00", "\x89PNG\r\n\x1a\n"} {
			err := load.read(bytes.NewReader([]byte(data)))
			require.ErrorIs(t, err, load.kind, "%s %q", name, data)
			require.NotErrorIs(t, err, sam3d.ErrTooLarge)
			err = load.read(io.MultiReader(bytes.NewReader([]byte(data)), failing{broken}))
			require.True(t, errors.Is(err, broken) || len(data) >= 12 && errors.Is(err, load.kind), "%s %q: %v", name, data, err)
		}
		require.ErrorIs(t, load.read(bytes.NewReader(load.large)), sam3d.ErrTooLarge, name)
	}
	_, err := sam3d.Loader{}.Image(bytes.NewReader([]byte("no picture")))
	require.ErrorIs(t, err, image.ErrFormat)
	_, err = sam3d.LoadImage(filepath.Join(t.TempDir(), "none.png"), 0)
	require.ErrorIs(t, err, fs.ErrNotExist)
	mask, err := sam3d.LoadMask(filepath.Join(t.TempDir(), "none.png"), 0)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Nil(t, mask)
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestLoaderMask: the options, and files as well as readers.
func TestLoaderMask(t *testing.T) {
	var data bytes.Buffer
	painted := rectangle(image.Rect(0, 0, 48, 48), image.Rect(11, 13, 31, 33))
	require.NoError(t, jpeg.Encode(&data, painted, &jpeg.Options{Quality: 60}))
	path := filepath.Join(t.TempDir(), "mask.jpg")
	require.NoError(t, os.WriteFile(path, data.Bytes(), 0o600))
	mask, err := sam3d.LoadMask(path, 0)
	require.NoError(t, err)
	require.Equal(t, painted, mask)
	all, err := sam3d.FromFile(path, sam3d.Loader{NonZeroMask: true}.Mask)
	require.NoError(t, err)
	require.NotEqual(t, painted, all)
	_, err = sam3d.FromFile(path, sam3d.Loader{MaxPixels: 48*48 - 1}.Mask)
	require.ErrorIs(t, err, sam3d.ErrTooLarge)
	require.ErrorContains(t, err, path)
}
