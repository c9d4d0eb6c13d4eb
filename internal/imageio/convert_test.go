// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package imageio

import (
	"fmt"
	"image"
	"image/color"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// plain hides the type of a picture, so that nothing but At is left.
type plain struct{ image.Image }

// pictures returns one picture of each type, of random pixels and with an origin that is not (0, 0).
func pictures(width, height int) []image.Image {
	rng := rand.New(rand.NewPCG(1, 2))
	fill := func(pix []uint8) {
		for i := range pix {
			pix[i] = uint8(rng.Uint32())
		}
	}
	// The pictures are parts of larger ones.
	r := image.Rect(3, 5, 3+width+7, 5+height+2)
	part := image.Rect(5, 6, 5+width, 6+height)

	nrgba, nrgba64, gray, gray16 := image.NewNRGBA(r), image.NewNRGBA64(r), image.NewGray(r), image.NewGray16(r)
	alpha, alpha16, cmyk := image.NewAlpha(r), image.NewAlpha16(r), image.NewCMYK(r)
	rgba, rgba64 := image.NewRGBA(r), image.NewRGBA64(r)
	ycbcr, ycbcra := image.NewYCbCr(r, image.YCbCrSubsampleRatio420), image.NewNYCbCrA(r, image.YCbCrSubsampleRatio444)
	palette := color.Palette{
		color.NRGBA{1, 2, 3, 0}, color.RGBA{10, 20, 30, 40}, color.Gray{77}, color.NRGBA{200, 100, 50, 128}, color.White,
	}
	paletted := image.NewPaletted(r, palette)
	for _, pix := range [][]uint8{nrgba.Pix, nrgba64.Pix, gray.Pix, gray16.Pix, alpha.Pix, alpha16.Pix, cmyk.Pix,
		ycbcr.Y, ycbcr.Cb, ycbcr.Cr, ycbcra.Y, ycbcra.Cb, ycbcra.Cr, ycbcra.A, paletted.Pix} {
		fill(pix)
	}
	for i, v := range paletted.Pix {
		paletted.Pix[i] = v % uint8(len(palette))
	}
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			rgba.Set(x, y, nrgba.At(x, y))
			rgba64.Set(x, y, nrgba64.At(x, y))
		}
	}
	return []image.Image{
		nrgba.SubImage(part), nrgba64.SubImage(part), gray.SubImage(part), gray16.SubImage(part), alpha.SubImage(part),
		alpha16.SubImage(part), cmyk.SubImage(part), ycbcr.SubImage(part), ycbcra.SubImage(part),
		paletted.SubImage(part), rgba.SubImage(part), rgba64.SubImage(part),
	}
}

// Every fast path gives what reading pixel by pixel gives.
func TestNRGBAOfEveryType(t *testing.T) {
	for _, img := range pictures(67, 131) {
		t.Run(fmt.Sprintf("%T", img), func(t *testing.T) {
			fast, err := NRGBA(img)
			require.NoError(t, err)
			require.Equal(t, image.Rect(0, 0, 67, 131), fast.Rect)
			require.Len(t, fast.Pix, 4*67*131)
			slow, err := NRGBA(plain{img})
			require.NoError(t, err)
			require.Equal(t, slow.Pix, fast.Pix)
		})
	}
}

func TestNRGBAKeepsHiddenColours(t *testing.T) {
	img := image.NewNRGBA(image.Rect(0, 0, 2, 1))
	copy(img.Pix, []uint8{200, 30, 10, 0, 7, 8, 9, 255})
	got, err := NRGBA(img)
	require.NoError(t, err)
	require.Same(t, img, got, "nothing to convert")
	require.Equal(t, []float32{Unit(200), Unit(7), Unit(30), Unit(8), Unit(10), Unit(9)}, RGB(got).Data)

	wide := image.NewNRGBA64(image.Rect(0, 0, 1, 1))
	wide.SetNRGBA64(0, 0, color.NRGBA64{200 * 257, 30 * 257, 10 * 257, 0})
	got, err = NRGBA(wide)
	require.NoError(t, err)
	require.Equal(t, []uint8{200, 30, 10, 0}, got.Pix)

	palette := image.NewPaletted(image.Rect(0, 0, 1, 1), color.Palette{color.NRGBA{200, 30, 10, 0}})
	got, err = NRGBA(palette)
	require.NoError(t, err)
	require.Equal(t, []uint8{200, 30, 10, 0}, got.Pix)
}

func TestSixteenBitsAreScaled(t *testing.T) {
	img := image.NewGray16(image.Rect(0, 0, 6, 1))
	for x, v := range []uint16{0, 1000, 65280, 65535, 128, 129} {
		img.SetGray16(x, 0, color.Gray16{Y: v})
	}
	got, err := NRGBA(img)
	require.NoError(t, err)
	var red []uint8
	for x := range 6 {
		red = append(red, got.Pix[4*x])
	}
	require.Equal(t, []uint8{0, 4, 254, 255, 0, 1}, red)
}

func TestUnpremultiply(t *testing.T) {
	// All pairs of a straight value and an alpha survive as well as 8 bits allow.
	for a := 1; a < 256; a++ {
		for v := range 256 {
			premultiplied := uint8((v*a + 127) / 255)
			var got [4]uint8
			unpremultiply(got[:], []uint8{premultiplied, premultiplied, premultiplied, uint8(a)})
			again := (int(got[0])*a + 127) / 255
			require.Equal(t, int(premultiplied), again, "%d at alpha %d", v, a)
		}
	}
}

func TestUnitIsCorrectlyRounded(t *testing.T) {
	for v := range 256 {
		require.Equal(t, float32(v)/255, Unit(uint8(v)))
	}
}

type hugeImage struct{ image.Image }

func (hugeImage) Bounds() image.Rectangle { return image.Rect(0, 0, 1<<40, 1<<40) }

func TestNRGBARefuses(t *testing.T) {
	for name, img := range map[string]image.Image{
		"nil": nil, "no pixels": image.NewNRGBA(image.Rect(0, 0, 0, 5)), "no rows": image.NewGray(image.Rect(3, 3, 9, 3)),
	} {
		_, err := NRGBA(img)
		require.ErrorIs(t, err, ErrEmpty, name)
	}
	_, err := NRGBA(hugeImage{image.NewGray(image.Rect(0, 0, 1, 1))})
	require.ErrorIs(t, err, ErrTooLarge)
	// Buffers shorter than the bounds promise, read by one or by many goroutines.
	r := image.Rect(0, 0, 300, 300)
	for _, img := range []image.Image{
		&image.NRGBA{Rect: r, Stride: 1200}, &image.Gray{Rect: r, Stride: 300, Pix: make([]uint8, 1000)},
		&image.YCbCr{Rect: r}, &image.Paletted{Rect: r, Stride: 300}, plain{&image.CMYK{Rect: r, Stride: 1200}},
		(*image.NRGBA)(nil),
	} {
		require.NotPanics(t, func() { _, err = NRGBA(img) })
		require.Error(t, err, "%T", img)
	}
}

func TestForRows(t *testing.T) {
	for _, n := range []int{0, 1, 63, 64, 65, 1000} {
		seen := make([]int, n)
		ForRows(n, 64, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				seen[i]++
			}
		})
		for i := range seen {
			require.Equal(t, 1, seen[i])
		}
	}
	require.PanicsWithValue(t, "row", func() { ForRows(1000, 1, func(int, int) { panic("row") }) })
}
