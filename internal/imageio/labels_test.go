// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package imageio

import (
	"bytes"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// labelled is a picture of patches: what set paints for object 0 to n-1, and the masks that it must lead to.
func labelled(n int, set func(x, y, object int)) (masks []*image.Gray) {
	rng := rand.New(rand.NewPCG(7, uint64(n)))
	for range n {
		masks = append(masks, image.NewGray(image.Rect(0, 0, 30, 20)))
	}
	for i := range 600 {
		if object := rng.IntN(n + 1); object < n {
			set(i%30, i/30, object)
			masks[object].Pix[i] = 255
		}
	}
	return masks
}

func TestLabels(t *testing.T) {
	bounds := image.Rect(0, 0, 30, 20)
	grey, wide, colours := image.NewGray(bounds), image.NewGray16(bounds), image.NewNRGBA(bounds)
	palette := image.NewPaletted(bounds, color.Palette{color.White, color.Black, color.White, color.Gray{9}, color.Black, color.White})
	for name, test := range map[string]struct {
		img   image.Image
		set   func(x, y, object int)
		names []string
	}{
		"grey":    {grey, func(x, y, o int) { grey.SetGray(x, y, color.Gray{uint8(o + 1)}) }, []string{"1", "2", "3"}},
		"16 bits": {wide, func(x, y, o int) { wide.SetGray16(x, y, color.Gray16{uint16(250 + 5*o)}) }, []string{"250", "255", "260"}},
		"palette": {palette, func(x, y, o int) { palette.SetColorIndex(x, y, uint8(5-2*o)) }, []string{"5", "3", "1"}},
		"colours": {colours, func(x, y, o int) { colours.SetNRGBA(x, y, color.NRGBA{uint8(o), 255, 128, 200}) }, []string{"00ff80", "01ff80", "02ff80"}},
	} {
		masks := labelled(3, test.set)
		var file bytes.Buffer
		require.NoError(t, png.Encode(&file, test.img), name)
		labels, err := DecodeLabels(&file, 0)
		require.NoError(t, err, name)
		require.Len(t, labels.Names, 3)
		for i, got := range labels.Names {
			object := i
			if name == "palette" { // painted in the other order
				object = 2 - i
			}
			require.Equal(t, test.names[object], got, name)
			require.Equal(t, masks[object], labels.Mask(i), "%s, object %d", name, i)
		}
		require.Equal(t, image.NewGray(bounds), labels.Mask(3), "there is no such object")
	}
	var file bytes.Buffer
	require.NoError(t, gif.Encode(&file, palette, nil))
	labels, err := DecodeLabels(&file, 0)
	require.NoError(t, err)
	require.Equal(t, []string{"1", "3", "5"}, labels.Names)
}

func TestLabelsRefused(t *testing.T) {
	bounds := image.Rect(0, 0, 100, 60)
	many := image.NewGray16(bounds)
	for i := range 6000 {
		many.SetGray16(i%100, i/100, color.Gray16{uint16(i)})
	}
	hidden := image.NewNRGBA(bounds)
	for i := range hidden.Pix {
		hidden.Pix[i] = uint8(255 * (1 - i%4/3)) // white and transparent
	}
	for name, img := range map[string]image.Image{"empty": image.NewGray(bounds), "transparent": hidden, "many": many} {
		var file bytes.Buffer
		require.NoError(t, png.Encode(&file, img), name)
		_, err := DecodeLabels(&file, 0)
		require.ErrorIs(t, err, ErrLabels, name)
	}
	var file bytes.Buffer
	require.NoError(t, jpeg.Encode(&file, many, nil))
	_, err := DecodeLabels(bytes.NewReader(file.Bytes()), 0)
	require.ErrorIs(t, err, ErrLabels)
	_, err = DecodeLabels(&file, 100)
	require.ErrorIs(t, err, ErrTooLarge)
	_, err = DecodeLabels(bytes.NewReader([]byte("text")), 0)
	require.ErrorIs(t, err, image.ErrFormat)
}
