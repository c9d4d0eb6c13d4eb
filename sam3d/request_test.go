// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d_test

import (
	"context"
	"errors"
	"image"
	"image/color"
	"image/color/palette"
	"image/draw"
	"image/jpeg"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/sam3d"
	"github.com/gomlx3d/image3d/sam3d/input"
)

// promising is a picture that promises more pixels than it has.
type promising struct{ bounds image.Rectangle }

func (promising) ColorModel() color.Model   { return color.NRGBAModel }
func (p promising) Bounds() image.Rectangle { return p.bounds }
func (promising) At(x, y int) color.Color   { panic("no such pixel") }

// TestRequestErrors checks that what can be seen to be wrong is, before any model runs and with nothing but the device
// in the way: another Generate holds it all the while.
func TestRequestErrors(t *testing.T) {
	p, good := pipeline(t), request(t)
	release := occupied(t, p)
	size := good.Image.Bounds()
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	points := func(width, height int, values ...float32) *sam3d.PointMap {
		m := &sam3d.PointMap{Width: width, Height: height, Points: make([]float32, 3*width*height)}
		for i := range m.Points {
			m.Points[i] = values[i%len(values)]
		}
		return m
	}
	short := points(size.Dx(), size.Dy(), 1, 2, 3)
	short.Points = short.Points[:len(short.Points)-1]
	noise := func(changed map[string][]float32) *sam3d.Noise {
		n := &sam3d.Noise{Structure: map[string][]float32{
			"6drotation_normalized": make([]float32, 6), "scale": make([]float32, 3), "shape": make([]float32, 8*64),
			"translation": make([]float32, 3), "translation_scale": make([]float32, 1),
		}}
		for name, values := range changed {
			n.Structure[name] = values
		}
		return n
	}
	for name, test := range map[string]struct {
		change func(r *sam3d.Request)
		want   error
	}{
		"no image":           {func(r *sam3d.Request) { r.Image = nil }, sam3d.ErrRequest},
		"nil image":          {func(r *sam3d.Request) { r.Image = (*image.NRGBA)(nil) }, sam3d.ErrRequest},
		"nil image, nil map": {func(r *sam3d.Request) { r.Image, r.Mask = (*image.Paletted)(nil), nil }, sam3d.ErrRequest},
		"no pixels":          {func(r *sam3d.Request) { r.Image = image.NewGray(image.Rect(5, 5, 5, 9)) }, sam3d.ErrRequest},
		"inside out":         {func(r *sam3d.Request) { r.Image = promising{image.Rectangle{image.Pt(9, 9), image.Pt(2, 2)}} }, sam3d.ErrRequest},
		"huge": {func(r *sam3d.Request) {
			r.Image = promising{image.Rect(math.MinInt, math.MinInt, math.MaxInt, math.MaxInt)}
		}, sam3d.ErrRequest},
		"huge product":      {func(r *sam3d.Request) { r.Image = promising{image.Rect(0, 0, 1<<33, 1<<33)} }, sam3d.ErrRequest},
		"too many pixels":   {func(r *sam3d.Request) { r.Image = promising{image.Rect(0, 0, 20_000, 20_000)} }, sam3d.ErrRequest},
		"pixels that panic": {func(r *sam3d.Request) { r.Image = promising{size} }, sam3d.ErrRequest},
		"buffer too short":  {func(r *sam3d.Request) { r.Image = &image.RGBA{Pix: make([]byte, 9), Stride: 4 * 320, Rect: size} }, sam3d.ErrRequest},
		"mask that panics":  {func(r *sam3d.Request) { r.Mask = promising{size} }, sam3d.ErrRequest},
		"nil mask":          {func(r *sam3d.Request) { r.Mask = (*image.Gray)(nil) }, sam3d.ErrRequest},
		"no mask":           {func(r *sam3d.Request) { r.Mask = nil }, input.ErrNoMask},
		"empty mask":        {func(r *sam3d.Request) { r.Mask = image.NewGray(size) }, sam3d.ErrEmptyMask},
		"small mask":        {func(r *sam3d.Request) { r.Mask = rectangle(size, image.Rect(4, 4, 6, 60)) }, sam3d.ErrMaskTooSmall},
		"negative steps":    {func(r *sam3d.Request) { r.Steps = -1 }, sam3d.ErrRequest},
		"many steps":        {func(r *sam3d.Request) { r.Steps = sam3d.MaxSteps + 1 }, sam3d.ErrRequest},
		"least steps":       {func(r *sam3d.Request) { r.LatentSteps = math.MinInt }, sam3d.ErrRequest},
		"most steps":        {func(r *sam3d.Request) { r.LatentSteps = math.MaxInt }, sam3d.ErrRequest},
		"unknown output":    {func(r *sam3d.Request) { r.Outputs = sam3d.Mesh | 1<<7 }, sam3d.ErrRequest},
		"short points":      {func(r *sam3d.Request) { r.PointMap = short }, input.ErrPointMap},
		"no points":         {func(r *sam3d.Request) { r.PointMap = &sam3d.PointMap{} }, input.ErrPointMap},
		"points overflow":   {func(r *sam3d.Request) { r.PointMap = &sam3d.PointMap{Width: 1 << 62, Height: 4} }, input.ErrPointMap},
		"negative points": {func(r *sam3d.Request) {
			r.PointMap = &sam3d.PointMap{Width: -1, Height: -3, Points: make([]float32, 9)}
		}, input.ErrPointMap},
		"all points NaN":    {func(r *sam3d.Request) { r.PointMap = points(size.Dx(), size.Dy(), nan) }, input.ErrNoPoints},
		"all points inf":    {func(r *sam3d.Request) { r.PointMap = points(31, 7, inf, 1, 1) }, input.ErrNoPoints},
		"flat points":       {func(r *sam3d.Request) { r.PointMap = points(31, 7, 2) }, input.ErrFlatPoints},
		"noise, none":       {func(r *sam3d.Request) { r.Noise = &sam3d.Noise{Structure: map[string][]float32{}} }, sam3d.ErrRequest},
		"noise, short":      {func(r *sam3d.Request) { r.Noise = noise(map[string][]float32{"shape": make([]float32, 511)}) }, sam3d.ErrRequest},
		"noise, unknown":    {func(r *sam3d.Request) { r.Noise = noise(map[string][]float32{"colour": {1}}) }, sam3d.ErrRequest},
		"noise, NaN":        {func(r *sam3d.Request) { r.Noise = noise(map[string][]float32{"translation_scale": {nan}}) }, sam3d.ErrRequest},
		"latent noise, odd": {func(r *sam3d.Request) { r.Noise = &sam3d.Noise{Latent: make([]float32, 9)} }, sam3d.ErrRequest},
		"latent noise, 0":   {func(r *sam3d.Request) { r.Noise = &sam3d.Noise{Latent: []float32{}} }, sam3d.ErrRequest},
		"latent noise, inf": {func(r *sam3d.Request) { r.Noise = &sam3d.Noise{Latent: slices.Repeat([]float32{inf}, 8)} }, sam3d.ErrRequest},
	} {
		t.Run(name, func(t *testing.T) {
			r := good
			r.Progress = func(e sam3d.Event) {
				require.Equal(t, sam3d.StageInput, e.Stage)
				require.NotEqual(t, e.Of, e.Step)
			}
			test.change(&r)
			result, err := p.Generate(context.Background(), r)
			require.ErrorIs(t, err, test.want)
			require.Nil(t, result)
			require.NotContains(t, err.Error(), "internal fault")
		})
	}
	r := good
	r.Mask = image.NewGray(image.Rect(0, 0, size.Dy(), size.Dx()))
	_, err := p.Generate(context.Background(), r)
	var mismatch *input.SizeMismatchError
	require.True(t, errors.As(err, &mismatch), "%v", err)
	require.ErrorContains(t, err, "240x320")
	require.ErrorContains(t, err, "320x240")
	require.NoError(t, release())
}

// TestLatentNoiseOfOtherVoxels: only the structure tells how much latent noise there must be.
func TestLatentNoiseOfOtherVoxels(t *testing.T) {
	skipIfShort(t)
	r := request(t)
	r.Noise = &sam3d.Noise{Latent: make([]float32, 8)}
	_, err := pipeline(t).Generate(context.Background(), r)
	require.ErrorIs(t, err, sam3d.ErrRequest)
	require.ErrorContains(t, err, "8 values of latent noise")
}

// TestPictures makes objects of pictures of awkward kinds and sizes.
func TestPictures(t *testing.T) {
	skipIfShort(t)
	p := pipeline(t)
	noisy := func(img draw.Image) image.Image {
		b := img.Bounds()
		for y := b.Min.Y; y < b.Max.Y; y++ {
			for x := b.Min.X; x < b.Max.X; x++ {
				img.Set(x, y, color.NRGBA{uint8(x * 7), uint8(y * 5), uint8(x * y), 255})
			}
		}
		return img
	}
	all := image.Rect(-1<<20, -1<<20, 1<<20, 1<<20)
	for name, test := range map[string]struct {
		picture image.Image
		object  image.Rectangle
		warning string
	}{
		"wide":              {noisy(image.NewNRGBA(image.Rect(0, 0, 3000, 40))), image.Rect(1000, 5, 1100, 35), ""},
		"high":              {noisy(image.NewRGBA(image.Rect(0, 0, 40, 3000))), image.Rect(5, 1000, 35, 2000), ""},
		"origin elsewhere":  {noisy(image.NewNRGBA(image.Rect(-70, 1000, 30, 1090))), image.Rect(-60, 1010, 0, 1070), ""},
		"sub-image":         {noisy(image.NewNRGBA(image.Rect(0, 0, 200, 200))).(*image.NRGBA).SubImage(image.Rect(50, 60, 150, 130)), image.Rect(60, 70, 90, 100), ""},
		"16-bit grey":       {noisy(image.NewGray16(image.Rect(0, 0, 90, 80))), image.Rect(20, 20, 60, 60), ""},
		"CMYK":              {noisy(image.NewCMYK(image.Rect(0, 0, 90, 80))), image.Rect(20, 20, 60, 60), ""},
		"palette":           {noisy(image.NewPaletted(image.Rect(0, 0, 90, 80), palette.Plan9)), image.Rect(20, 20, 60, 60), ""},
		"smallest":          {noisy(image.NewNRGBA(image.Rect(0, 0, 3, 3))), all, "may be inverted"},
		"touches a corner":  {noisy(image.NewNRGBA(image.Rect(0, 0, 90, 80))), image.Rect(0, 0, 30, 30), ""},
		"touches all sides": {noisy(image.NewNRGBA(image.Rect(0, 0, 90, 80))), all, "may be inverted"},
		"all but a corner":  {noisy(image.NewNRGBA(image.Rect(0, 0, 90, 80))), image.Rect(0, 0, 90, 77), ""},
		"speck":             {noisy(image.NewNRGBA(image.Rect(0, 0, 400, 300))), image.Rect(5, 5, 8, 8), "little to see"},
	} {
		t.Run(name, func(t *testing.T) {
			mask := rectangle(test.picture.Bounds(), test.object.Intersect(test.picture.Bounds()))
			r := sam3d.Request{Image: test.picture, Mask: mask, Steps: 1, LatentSteps: 1, Outputs: sam3d.Gaussians4, NoDepth: true}
			result, err := p.Generate(context.Background(), r)
			require.NoError(t, err)
			require.NotZero(t, result.Gaussians4.Len())
			if test.warning == "" {
				require.Empty(t, result.Warnings)
				return
			}
			require.Len(t, result.Warnings, 1)
			require.Contains(t, result.Warnings[0], test.warning)
		})
	}
	one := image.NewNRGBA(image.Rect(0, 0, 1, 1))
	_, err := p.Generate(context.Background(), sam3d.Request{Image: one, Mask: rectangle(one.Rect, one.Rect)})
	require.ErrorIs(t, err, sam3d.ErrMaskTooSmall)
}

// TestPictureFiles reads pictures of other kinds than programs make, and makes objects of them.
func TestPictureFiles(t *testing.T) {
	skipIfShort(t)
	folder := t.TempDir()
	bounds := image.Rect(0, 0, 64, 48)
	write := func(name string, encode func(f *os.File) error) string {
		path := filepath.Join(folder, name)
		f, err := os.Create(path)
		require.NoError(t, err)
		require.NoError(t, encode(f))
		require.NoError(t, f.Close())
		return path
	}
	labels := image.NewPaletted(bounds, color.Palette{color.Black, color.NRGBA{128, 0, 0, 255}})
	grey := image.NewGray16(bounds)
	for y := 10; y < 40; y++ {
		for x := 10; x < 50; x++ {
			labels.SetColorIndex(x, y, 1)
			grey.SetGray16(x, y, color.Gray16{Y: uint16(x * 1000)})
		}
	}
	mask := write("mask.png", func(f *os.File) error { return png.Encode(f, labels) })
	for _, path := range []string{
		write("grey16.png", func(f *os.File) error { return png.Encode(f, grey) }),
		write("palette.png", func(f *os.File) error { return png.Encode(f, labels) }),
		write("grey.jpg", func(f *os.File) error { return jpeg.Encode(f, image.NewGray(bounds), nil) }),
	} {
		img, err := sam3d.LoadImage(path, 0)
		require.NoError(t, err)
		m, err := sam3d.LoadMask(mask, 0)
		require.NoError(t, err)
		_, err = pipeline(t).Generate(context.Background(), sam3d.Request{Image: img, Mask: m, Steps: 1, LatentSteps: 1, Outputs: sam3d.Gaussians4})
		require.NoError(t, err, path)
	}
	for _, path := range []string{filepath.Join(folder, "none.png"), folder, write("text.png", func(f *os.File) error {
		_, err := f.WriteString("no picture")
		return err
	})} {
		_, err := sam3d.LoadImage(path, 0)
		require.ErrorContains(t, err, "sam3d: ")
		_, err = sam3d.LoadMask(path, 0)
		require.ErrorContains(t, err, path)
	}
	_, err := sam3d.LoadImage(mask, 64*48-1)
	require.ErrorContains(t, err, "64x48")
}
