// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package imageio

import (
	"image"
	"image/color"
	"testing"

	"github.com/stretchr/testify/require"
)

// strip returns a picture of one row.
func strip(colors ...color.NRGBA) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, len(colors), 1))
	for x, c := range colors {
		img.SetNRGBA(x, 0, c)
	}
	return img
}

func paletted(palette color.Palette, pix ...uint8) *image.Paletted {
	return &image.Paletted{Pix: pix, Stride: len(pix), Rect: image.Rect(0, 0, len(pix), 1), Palette: palette}
}

func TestMask(t *testing.T) {
	black, white := color.NRGBA{0, 0, 0, 255}, color.NRGBA{255, 255, 255, 255}
	red, dark := color.NRGBA{255, 0, 0, 255}, color.NRGBA{0, 40, 0, 255}
	gray := func(v ...uint8) *image.Gray {
		return &image.Gray{Pix: v, Stride: len(v), Rect: image.Rect(0, 0, len(v), 1)}
	}
	for name, test := range map[string]struct {
		img  image.Image
		want []uint8
	}{
		"grey, soft":                  {gray(0, 1, 100, 255), []uint8{0, 1, 100, 255}},
		"bytes of 0 and 1":            {gray(0, 1, 1, 0), []uint8{0, 255, 255, 0}},
		"one label":                   {gray(0, 38, 38), []uint8{0, 255, 255}},
		"one value above half, soft":  {gray(0, 200, 200), []uint8{0, 200, 200}},
		"two labels are not a mask":   {gray(0, 1, 2), []uint8{0, 1, 2}},
		"nothing":                     {gray(0, 0), []uint8{0, 0}},
		"red paint":                   {strip(black, red, red), []uint8{0, 255, 255}},
		"dark paint":                  {strip(black, dark), []uint8{0, 255}},
		"opaque RGBA":                 {strip(black, white), []uint8{0, 255}},
		"alpha varies":                {strip(color.NRGBA{9, 9, 9, 0}, color.NRGBA{0, 0, 0, 180}, black), []uint8{0, 180, 255}},
		"alpha of 0 and 1":            {strip(color.NRGBA{255, 255, 255, 0}, color.NRGBA{A: 1}), []uint8{0, 255}},
		"alpha is constant, not full": {strip(color.NRGBA{A: 9}, color.NRGBA{255, 255, 255, 9}), []uint8{0, 255}},
		"alpha picture": {&image.Alpha{Pix: []uint8{7, 255}, Stride: 2, Rect: image.Rect(0, 0, 2, 1)},
			[]uint8{7, 255}},
		"alpha picture, constant": {&image.Alpha{Pix: []uint8{200, 200}, Stride: 2, Rect: image.Rect(0, 0, 2, 1)},
			[]uint8{200, 200}},
		"16-bit grey": {&image.Gray16{Pix: []uint8{0, 0, 255, 0, 255, 255}, Stride: 6, Rect: image.Rect(0, 0, 3, 1)},
			[]uint8{0, 254, 255}},
		"palette, black first":   {paletted(color.Palette{black, white}, 0, 1, 1), []uint8{0, 255, 255}},
		"palette, white first":   {paletted(color.Palette{white, black}, 0, 1, 0), []uint8{0, 255, 0}},
		"palette of labels":      {paletted(color.Palette{black, color.NRGBA{128, 0, 0, 255}, dark}, 0, 1, 2), []uint8{0, 255, 255}},
		"palette of greys":       {paletted(color.Palette{black, color.Gray{90}, white}, 0, 1, 2), []uint8{0, 90, 255}},
		"palette, padded":        {paletted(color.Palette{black, white, black, black}, 0, 1), []uint8{0, 255}},
		"palette, alpha":         {paletted(color.Palette{white, color.NRGBA{}, red}, 0, 1, 2), []uint8{255, 0, 255}},
		"palette, unused alpha":  {paletted(color.Palette{white, red, color.NRGBA{}}, 0, 1), []uint8{0, 255}},
		"palette index too high": {paletted(color.Palette{black}, 0, 200), []uint8{0, 255}},
	} {
		t.Run(name, func(t *testing.T) {
			mask, err := Mask(test.img)
			require.NoError(t, err)
			require.Equal(t, test.want, mask.Pix)
			require.Equal(t, image.Rect(0, 0, len(test.want), 1), mask.Rect)
		})
	}
}

func TestMaskOfLossyPicture(t *testing.T) {
	img := image.NewYCbCr(image.Rect(0, 0, 4, 1), image.YCbCrSubsampleRatio444)
	copy(img.Y, []uint8{3, 127, 128, 250})
	for i := range img.Cb {
		img.Cb[i], img.Cr[i] = 128, 128
	}
	mask, err := Mask(img)
	require.NoError(t, err)
	require.Equal(t, []uint8{0, 0, 255, 255}, mask.Pix)
}

// A mask never shares memory with the picture it was taken from.
func TestMaskIsACopy(t *testing.T) {
	img := &image.Gray{Pix: []uint8{0, 1}, Stride: 2, Rect: image.Rect(0, 0, 2, 1)}
	_, err := Mask(img)
	require.NoError(t, err)
	require.Equal(t, []uint8{0, 1}, img.Pix)
}

func TestMaskOfEveryType(t *testing.T) {
	for _, img := range pictures(21, 9) {
		mask, err := Mask(img)
		require.NoError(t, err, "%T", img)
		require.Len(t, mask.Pix, 21*9)
	}
}

func TestMaskRefuses(t *testing.T) {
	_, err := Mask(nil)
	require.ErrorIs(t, err, ErrEmpty)
	_, err = Mask(image.NewPaletted(image.Rectangle{}, nil))
	require.ErrorIs(t, err, ErrEmpty)
	for _, img := range []image.Image{
		&image.Paletted{Rect: image.Rect(0, 0, 9, 9), Stride: 9, Pix: make([]uint8, 80)},
		&image.Paletted{Rect: image.Rect(0, 0, 9, 9), Stride: -9, Pix: make([]uint8, 81)},
		&image.Paletted{Rect: image.Rect(0, 0, 9, 9), Stride: 1 << 62, Pix: make([]uint8, 81)},
		&image.Gray{Rect: image.Rect(0, 0, 9, 9), Stride: 9}, (*image.Paletted)(nil),
	} {
		require.NotPanics(t, func() { _, err = Mask(img) })
		require.Error(t, err)
	}
}

func TestAlpha(t *testing.T) {
	_, found := Alpha(strip(color.NRGBA{1, 2, 3, 255}, color.NRGBA{4, 5, 6, 255}))
	require.False(t, found)
	mask, found := Alpha(strip(color.NRGBA{1, 2, 3, 255}, color.NRGBA{4, 5, 6, 254}))
	require.True(t, found)
	require.Equal(t, []uint8{255, 254}, mask.Pix)
}
