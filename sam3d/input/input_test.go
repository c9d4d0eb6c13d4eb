// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package input

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/imageio"
)

// scene returns a picture of noise, a mask of a rectangle and a plane of points behind it.
func scene(width, height int, object image.Rectangle) (*image.NRGBA, *image.Gray, PointMap) {
	rng := rand.New(rand.NewPCG(uint64(width), uint64(height)))
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range img.Pix {
		img.Pix[i] = uint8(rng.Uint32()) | uint8(255*(i&3/3))
	}
	mask := image.NewGray(img.Rect)
	for y := object.Min.Y; y < object.Max.Y; y++ {
		for x := object.Min.X; x < object.Max.X; x++ {
			mask.SetGray(x, y, color.Gray{255})
		}
	}
	points := PointMap{Width: width, Height: height}
	for y := range height {
		for x := range width {
			z := 2 + float32(x)/float32(width)
			points.Points = append(points.Points, 1-2*float32(x)/float32(width), 1-2*float32(y)/float32(height), z)
		}
	}
	return img, mask, points
}

func checkShapes(t *testing.T, c *Conditions, size int, points bool) {
	require.Equal(t, size, c.Size)
	for _, v := range []View{c.Crop, c.Full} {
		require.Len(t, v.Image, 3*size*size)
		require.Len(t, v.Mask, size*size)
		if points {
			require.Len(t, v.Points, 3*size*size)
		} else {
			require.Nil(t, v.Points)
		}
		for _, value := range slices.Concat(v.Image, v.Mask) {
			if !(value >= 0 && value <= 1.00001) {
				t.Fatalf("colour or mask of %g", value)
			}
		}
		for i := range len(v.Points) / 3 { // a point is valid as a whole, or not at all
			x, y, z := v.Points[i], v.Points[i+size*size], v.Points[i+2*size*size]
			if !(isNaN(x) && isNaN(y) && isNaN(z) || finite(x) && finite(y) && finite(z)) {
				t.Fatalf("point (%g, %g, %g)", x, y, z)
			}
		}
	}
}

func TestNewErrors(t *testing.T) {
	img, mask, _ := scene(64, 48, image.Rect(10, 10, 30, 30))
	for name, test := range map[string]struct {
		img, mask image.Image
		want      error
	}{
		"no picture":            {nil, mask, ErrPicture},
		"nil pointer":           {(*image.NRGBA)(nil), mask, ErrPicture},
		"nil pointer as mask":   {img, (*image.Gray)(nil), ErrPicture},
		"no pixels":             {image.NewNRGBA(image.Rectangle{}), mask, ErrPicture},
		"mask has no pixels":    {img, image.NewGray(image.Rectangle{}), ErrPicture},
		"buffer too short":      {&image.NRGBA{Rect: img.Rect, Stride: 256}, mask, ErrPicture},
		"opaque, no mask":       {img, nil, ErrNoMask},
		"transparent":           {image.NewNRGBA(img.Rect), nil, ErrEmptyMask},
		"empty mask":            {img, image.NewGray(img.Rect), ErrEmptyMask},
		"labels, none at half":  {img, labels(img.Rect, 0, 1, 2), ErrEmptyMask},
		"one pixel":             {img, maskOf(img.Rect, image.Rect(5, 5, 6, 6)), ErrMaskTooSmall},
		"two by one":            {img, maskOf(img.Rect, image.Rect(5, 5, 7, 6)), ErrMaskTooSmall},
		"two wide":              {img, maskOf(img.Rect, image.Rect(5, 5, 7, 40)), ErrMaskTooSmall},
		"two high":              {img, maskOf(img.Rect, image.Rect(5, 5, 40, 7)), ErrMaskTooSmall},
		"picture of one pixel":  {image.NewNRGBA(image.Rect(0, 0, 1, 1)), labels(image.Rect(0, 0, 1, 1), 255), ErrMaskTooSmall},
		"smallest that will do": {img, maskOf(img.Rect, image.Rect(5, 5, 8, 8)), nil},
		"bytes of 0 and 1":      {img, labels(img.Rect, 0, 1), nil},
	} {
		t.Run(name, func(t *testing.T) {
			picture, err := New(test.img, test.mask)
			require.ErrorIs(t, err, test.want)
			if test.want == nil {
				conditions, err := picture.Prepare(nil, Options{Size: 28})
				require.NoError(t, err)
				checkShapes(t, conditions, 28, false)
			}
		})
	}
}

func maskOf(bounds, object image.Rectangle) *image.Gray {
	mask := image.NewGray(bounds)
	for y := object.Min.Y; y < object.Max.Y; y++ {
		for x := object.Min.X; x < object.Max.X; x++ {
			mask.SetGray(x, y, color.Gray{255})
		}
	}
	return mask
}

// labels fills a mask with values that follow one another.
func labels(bounds image.Rectangle, values ...uint8) *image.Gray {
	mask := image.NewGray(bounds)
	for i := range mask.Pix {
		mask.Pix[i] = values[i%len(values)]
	}
	return mask
}

func TestSizeMismatch(t *testing.T) {
	img, _, _ := scene(64, 48, image.Rectangle{})
	for _, size := range []image.Point{{48, 64}, {128, 96}, {64, 47}} {
		_, err := New(img, maskOf(image.Rectangle{Max: size}, image.Rect(10, 10, 30, 30)))
		var mismatch *SizeMismatchError
		require.True(t, errors.As(err, &mismatch), "%v", err)
		require.Equal(t, SizeMismatchError{Picture: image.Pt(64, 48), Mask: size}, *mismatch)
		require.ErrorContains(t, err, fmt.Sprintf("%dx%d", size.X, size.Y))
		require.ErrorContains(t, err, "64x48")
	}
}

func TestPrepareErrors(t *testing.T) {
	img, mask, good := scene(64, 48, image.Rect(10, 10, 30, 30))
	picture, err := New(img, mask)
	require.NoError(t, err)
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	spoil := func(value float32, where func(x, y, c int) bool) *PointMap {
		m := PointMap{Width: 64, Height: 48, Points: slices.Clone(good.Points)}
		for i := range m.Points {
			if where(i/3%64, i/3/64, i%3) {
				m.Points[i] = value
			}
		}
		return &m
	}
	everywhere := func(x, y, c int) bool { return true }
	object := func(x, y, c int) bool { return image.Pt(x, y).In(image.Rect(10, 10, 30, 30)) }
	for name, test := range map[string]struct {
		points *PointMap
		want   error
	}{
		"too short":                {&PointMap{64, 48, good.Points[:9]}, ErrPointMap},
		"too long":                 {&PointMap{64, 47, good.Points}, ErrPointMap},
		"no data":                  {&PointMap{}, ErrPointMap},
		"negative":                 {&PointMap{-64, -48, good.Points}, ErrPointMap},
		"overflow":                 {&PointMap{1 << 62, 4, nil}, ErrPointMap},
		"all NaN":                  {spoil(nan, everywhere), ErrNoPoints},
		"all infinite":             {spoil(inf, everywhere), ErrNoPoints},
		"all NaN below the mask":   {spoil(nan, object), ErrNoPoints},
		"all inf below the mask":   {spoil(inf, object), ErrNoPoints},
		"no x below the mask":      {spoil(nan, func(x, y, c int) bool { return c == 0 && object(x, y, c) }), ErrNoPoints},
		"zeros":                    {spoil(0, everywhere), ErrFlatPoints},
		"constant":                 {spoil(3.5, everywhere), ErrFlatPoints},
		"infinite sky":             {spoil(inf, func(x, y, c int) bool { return !object(x, y, c) && y < 40 }), nil},
		"negative infinite sky":    {spoil(-inf, func(x, y, c int) bool { return !object(x, y, c) && y < 40 }), nil},
		"NaN, x only":              {spoil(nan, func(x, y, c int) bool { return c == 0 && (x+y)%3 == 0 }), nil},
		"huge":                     {spoil(math.MaxFloat32, func(x, y, c int) bool { return (x+y)%2 == 0 }), nil},
		"half of them far away":    {spoil(-math.MaxFloat32, func(x, y, c int) bool { return (x+y)%2 == 0 }), ErrFlatPoints},
		"smaller":                  {&PointMap{4, 3, good.Points[:36]}, nil},
		"one point for everything": {&PointMap{1, 1, []float32{1, 2, 3}}, ErrFlatPoints},
	} {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(test.points.Points)
			c, err := picture.Prepare(test.points, Options{Size: 28})
			require.ErrorIs(t, err, test.want)
			if err == nil {
				checkShapes(t, c, 28, true)
				require.True(t, finite(c.Scale[0]) && c.Scale[0] > 0)
			}
			for i, v := range before {
				require.Equal(t, math.Float32bits(v), math.Float32bits(test.points.Points[i]), "the map was changed")
			}
		})
	}
	for _, size := range []int{-1, 1 << 20} {
		_, err := picture.Prepare(nil, Options{Size: size})
		require.ErrorIs(t, err, ErrPicture)
	}
}

// The original goes on with maps that say nothing.
func TestPrepareAsOriginal(t *testing.T) {
	img, mask, points := scene(64, 48, image.Rect(10, 10, 30, 30))
	picture, err := New(img, mask)
	require.NoError(t, err)
	invalid := PointMap{Width: 64, Height: 48, Points: slices.Repeat([]float32{float32(math.NaN())}, len(points.Points))}
	c, err := picture.Prepare(&invalid, Options{Size: 28, AsOriginal: true})
	require.NoError(t, err)
	require.Equal(t, [3]float32{1, 1, 1}, c.Scale)
	require.Equal(t, [3]float32{}, c.Shift)

	flat := PointMap{Width: 64, Height: 48, Points: slices.Repeat([]float32{2}, len(points.Points))}
	c, err = picture.Prepare(&flat, Options{Size: 28, AsOriginal: true})
	require.NoError(t, err)
	require.Equal(t, [3]float32{}, c.Scale)
	for i, v := range c.Full.Points {
		// Only the strips that make a square of the picture hold a point, the origin.
		y := i / 28 % 28
		require.Equal(t, y >= 4 && y < 25, isNaN(v), "row %d", y)
	}
}

// Pictures and masks of awkward shapes and places give conditions of the right shape.
func TestPrepareShapes(t *testing.T) {
	for _, test := range []struct {
		width, height int
		object        image.Rectangle
	}{
		{3, 3, image.Rect(0, 0, 3, 3)},
		{3000, 40, image.Rect(0, 0, 3000, 40)},
		{3000, 40, image.Rect(2990, 3, 3000, 37)},
		{40, 3000, image.Rect(0, 0, 40, 3000)},
		{40, 3000, image.Rect(0, 0, 3, 3)},
		{64, 48, image.Rect(61, 45, 64, 48)},
		{64, 48, image.Rect(0, 0, 64, 48)},
		{518, 518, image.Rect(0, 17, 200, 518)},
	} {
		t.Run(fmt.Sprintf("%dx%d %v", test.width, test.height, test.object), func(t *testing.T) {
			img, mask, points := scene(test.width, test.height, test.object)
			picture, err := New(img, mask)
			require.NoError(t, err)
			require.Equal(t, test.object, picture.Box())
			area := test.object.Dx() * test.object.Dy()
			require.InDelta(t, float64(area)/float64(test.width*test.height), picture.Coverage(), 1e-12)
			for _, size := range []int{1, 14, 70} {
				c, err := picture.Prepare(&points, Options{Size: size})
				require.NoError(t, err)
				checkShapes(t, c, size, true)
			}
		})
	}
}

// The released size is the default, and a picture without points has the views of one with points.
func TestPrepareDefault(t *testing.T) {
	img, mask, points := scene(90, 60, image.Rect(20, 20, 50, 45))
	picture, err := New(img, mask)
	require.NoError(t, err)
	with, err := picture.Prepare(&points, Options{})
	require.NoError(t, err)
	without, err := picture.Prepare(nil, Options{})
	require.NoError(t, err)
	checkShapes(t, with, 518, true)
	checkShapes(t, without, 518, false)
	require.Equal(t, with.Crop.Image, without.Crop.Image)
	require.Equal(t, with.Full.Mask, without.Full.Mask)
	require.Equal(t, [3]float32{1, 1, 1}, without.Scale)
	require.Equal(t, [3]float32{}, without.Shift)
}

// Scaling and shifting a map changes how it is normalised and not the result.
func TestNormalisationIsInvariant(t *testing.T) {
	img, mask, points := scene(64, 48, image.Rect(10, 10, 30, 30))
	picture, err := New(img, mask)
	require.NoError(t, err)
	moved := PointMap{Width: 64, Height: 48, Points: slices.Clone(points.Points)}
	offset := [3]float32{0.5, -2, 7}
	for i, v := range points.Points {
		moved.Points[i] = 4*v + offset[i%3]
	}
	a, err := picture.Prepare(&points, Options{Size: 42})
	require.NoError(t, err)
	b, err := picture.Prepare(&moved, Options{Size: 42})
	require.NoError(t, err)
	require.InDeltaSlice(t, a.Crop.Points, b.Crop.Points, 1e-5)
	for c := range 3 {
		require.InDelta(t, 4*a.Scale[c], b.Scale[c], 1e-5)
		require.InDelta(t, 4*a.Shift[c]+offset[c], b.Shift[c], 1e-5)
	}
}

// Colours that alpha hides are context, whether or not a mask is given.
func TestHiddenColoursAreUsed(t *testing.T) {
	img, mask, _ := scene(64, 48, image.Rect(10, 10, 30, 30))
	cutOut := &image.NRGBA{Pix: slices.Clone(img.Pix), Stride: img.Stride, Rect: img.Rect}
	for i, v := range mask.Pix {
		cutOut.Pix[4*i+3] = v
	}
	a, err := New(img, mask)
	require.NoError(t, err)
	b, err := New(cutOut, nil)
	require.NoError(t, err)
	x, err := a.Prepare(nil, Options{Size: 56})
	require.NoError(t, err)
	y, err := b.Prepare(nil, Options{Size: 56})
	require.NoError(t, err)
	require.Equal(t, x, y)
}

func TestSoftMaskStaysSoft(t *testing.T) {
	img, mask, _ := scene(64, 64, image.Rect(10, 10, 30, 30))
	mask.SetGray(40, 20, color.Gray{1})
	mask.SetGray(20, 20, color.Gray{77})
	picture, err := New(img, mask)
	require.NoError(t, err)
	require.Equal(t, image.Rect(10, 10, 41, 30), picture.Box(), "the faintest pixel counts for the box")
	c, err := picture.Prepare(nil, Options{Size: 64})
	require.NoError(t, err)
	require.Equal(t, imageio.Unit(77), c.Full.Mask[20*64+20])
	require.Equal(t, imageio.Unit(1), c.Full.Mask[20*64+40])
}

func TestFromDepthCamera(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	in := []float32{1, 2, 3, inf, 2, 3, 1, nan, 3, 1, 2, -inf}
	got, err := FromDepthCamera(2, 2, in)
	require.NoError(t, err)
	require.Equal(t, []float32{-1, -2, 3}, got.Points[:3])
	for _, v := range got.Points[3:] {
		require.True(t, isNaN(v))
	}
	require.Equal(t, float32(1), in[0])
	_, err = FromDepthCamera(2, 3, in)
	require.ErrorIs(t, err, ErrPointMap)
}

func TestResizePointMap(t *testing.T) {
	m := PointMap{Width: 2, Height: 1, Points: []float32{1, 2, 3, 4, 5, 6}}
	got, err := m.Resize(4, 2)
	require.NoError(t, err)
	require.Equal(t, slices.Repeat([]float32{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}, 2), got.Points)
	for _, size := range [][2]int{{0, 1}, {1, -1}, {1 << 40, 1 << 40}} {
		_, err = m.Resize(size[0], size[1])
		require.ErrorIs(t, err, ErrPointMap)
	}
}

func TestLowerMedian(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	median := func(v []float32) float32 {
		return lowerMedian(len(v), func(lo int, into []float32) { copy(into, v[lo:]) })
	}
	require.True(t, isNaN(median(nil)))
	require.True(t, isNaN(median([]float32{nan, nan})))
	require.Equal(t, float32(1), median([]float32{2, nan, 1}))
	inf := float32(math.Inf(1))
	require.Equal(t, inf, median([]float32{inf, 1, inf}))
	require.Equal(t, -inf, median([]float32{-inf, -inf, nan, 4}))
	require.Equal(t, float32(0), median([]float32{float32(math.Copysign(0, -1)), 0, 0, -1, 1}))
	for _, n := range []int{1, 2, 3, 10, 999, 1000, 200_000} {
		values := make([]float32, n)
		for i := range values {
			values[i] = float32(rng.NormFloat64()) * float32(math.Pow(10, float64(rng.IntN(9)-4)))
			if rng.IntN(4) == 0 {
				values[i] = float32(rng.IntN(3))
			}
		}
		sorted := slices.Clone(values)
		slices.Sort(sorted)
		require.Equal(t, sorted[(n-1)/2], median(values), n)
	}
}

func TestCropAround(t *testing.T) {
	// 21 columns from 10: the size is 20*1.2 = 24 around 20.
	require.Equal(t, image.Rect(8, 18, 32, 42), cropAround(image.Rect(10, 20, 31, 41)).crop)
	// At the border the box starts at -1.5 and is cut to -1, so that the crop is a pixel narrower than high.
	w := cropAround(image.Rect(0, 30, 18, 51))
	require.Equal(t, image.Rect(-3, 28, 20, 52), w.crop)
	require.Equal(t, image.Rect(-3, 28, 21, 52), w.square)
	for range 3 {
		w := fullView(5, 8)
		require.Equal(t, image.Rect(-1, 0, 7, 8), w.square)
	}
}

func BenchmarkPrepare12MP(b *testing.B) {
	img, mask, points := scene(4000, 3000, image.Rect(1000, 700, 2600, 2500))
	photo := image.NewYCbCr(img.Rect, image.YCbCrSubsampleRatio420)
	for name, m := range map[string]*PointMap{"picture": nil, "with points": &points} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				picture, err := New(photo, mask)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := picture.Prepare(m, Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
