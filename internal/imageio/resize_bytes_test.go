// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package imageio

import (
	"image"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func noise(w, h int) *image.NRGBA {
	r := rand.New(rand.NewPCG(uint64(w), uint64(h)))
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for i := range img.Pix {
		img.Pix[i] = uint8(r.Uint32())
	}
	return img
}

// TestResizeBytes: whole numbers stay within a step or two of the exact sums, because they are rounded twice.
func TestResizeBytes(t *testing.T) {
	for _, size := range [][4]int{{31, 17, 10, 12}, {10, 12, 31, 17}, {1, 1, 5, 4}, {300, 2, 7, 9}, {7, 9, 7, 20}, {64, 64, 1, 1}} {
		img := noise(size[0], size[1])
		got, err := ResizeBytes(img, size[2], size[3])
		require.NoError(t, err)
		want, err := Resize(RGB(img), size[3], size[2], BilinearAntialias)
		require.NoError(t, err)
		for y := range size[3] {
			for x := range size[2] {
				pixel := got.Pix[got.PixOffset(x, y):]
				for c := range 3 {
					require.InDelta(t, 255*want.Row(c, y)[x], pixel[c], 1.1, "%v at %d, %d", size, x, y)
				}
				require.EqualValues(t, 255, pixel[3])
			}
		}
	}
}

func TestResizeBytesKeeps(t *testing.T) {
	img := noise(40, 30)
	same, err := ResizeBytes(img, 40, 30)
	require.NoError(t, err)
	require.Equal(t, RGB(img), RGB(same))
	white := image.NewNRGBA(image.Rect(0, 0, 1000, 3))
	for i := range white.Pix {
		white.Pix[i] = 255
	}
	small, err := ResizeBytes(white, 9, 31)
	require.NoError(t, err)
	for _, v := range small.Pix {
		require.EqualValues(t, 255, v)
	}
}

func TestResizeBytesRefuses(t *testing.T) {
	_, err := ResizeBytes(noise(4, 4), 0, 3)
	require.ErrorIs(t, err, ErrEmpty)
	_, err = ResizeBytes(noise(4, 4), math.MaxInt32, math.MaxInt32)
	require.ErrorIs(t, err, ErrTooLarge)
	_, err = ResizeBytes(noise(1, 1<<16), 1<<20, 1)
	require.ErrorIs(t, err, ErrTooLarge, "too large between the two passes")
	_, err = ResizeBytes(&image.NRGBA{}, 1, 1)
	require.ErrorIs(t, err, ErrEmpty)
}
