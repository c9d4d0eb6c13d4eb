// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	"image/gif"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// picture returns a frame of a background colour with what paint puts into its inner part.
func picture(size int, background color.Color, paint func(x, y int) color.RGBA) *image.RGBA {
	p := image.NewRGBA(image.Rect(0, 0, size, size))
	for y := range size {
		for x := range size {
			p.Set(x, y, background)
			if x > 3 && y > 3 && x < size-4 && y < size-4 {
				p.SetRGBA(x, y, paint(x, y))
			}
		}
	}
	return p
}

func written(t *testing.T, a Animation) *gif.GIF {
	t.Helper()
	var data bytes.Buffer
	require.NoError(t, a.Write(context.Background(), &data))
	out, err := gif.DecodeAll(&data)
	require.NoError(t, err)
	return out
}

func TestGIF(t *testing.T) {
	background := color.RGBA{250, 247, 240, 255}
	ramp := func(shift int) func(x, y int) color.RGBA {
		return func(x, y int) color.RGBA { return color.RGBA{uint8(2 * (x + shift)), uint8(2 * y), uint8(x + y), 255} }
	}
	frames := []*image.RGBA{picture(100, background, ramp(0)), picture(100, background, ramp(9))}
	out := written(t, Animation{Delay: 70 * time.Millisecond, Frames: frames})
	require.Len(t, out.Image, 2)
	require.Equal(t, []int{7, 7}, out.Delay)
	require.Zero(t, out.LoopCount, "for ever")
	for i, frame := range out.Image {
		require.Equal(t, background, color.RGBAModel.Convert(frame.At(0, 50)), "the background keeps its colour")
		// Means of 8x8 pixels, the period of the pattern, are those of the picture.
		for y := 8; y < 88; y += 8 {
			for x := 8; x < 88; x += 8 {
				got, want := mean8(frame, x, y), mean8(frames[i], x, y)
				for k := range got {
					require.InDelta(t, want[k], got[k], 6, "frame %d at %d %d", i, x, y)
				}
			}
		}
	}
}

func mean8(p image.Image, x0, y0 int) (sum [3]float64) {
	for y := y0; y < y0+8; y++ {
		for x := x0; x < x0+8; x++ {
			c := color.RGBAModel.Convert(p.At(x, y)).(color.RGBA)
			sum[0] += float64(c.R) / 64
			sum[1] += float64(c.G) / 64
			sum[2] += float64(c.B) / 64
		}
	}
	return sum
}

func TestTransparentGIF(t *testing.T) {
	half := picture(30, color.Transparent, func(x, y int) color.RGBA {
		if x < 15 {
			return color.RGBA{100, 0, 0, 200}
		}
		return color.RGBA{10, 10, 10, 100}
	})
	out := written(t, Animation{Frames: []*image.RGBA{half, half}})
	require.Equal(t, []byte{gif.DisposalBackground, gif.DisposalBackground}, out.Disposal)
	require.Equal(t, []int{2, 2}, out.Delay)
	_, _, _, a := out.Image[1].At(0, 0).RGBA()
	require.Zero(t, a)
	_, _, _, a = out.Image[1].At(20, 10).RGBA()
	require.Zero(t, a, "mostly transparent")
	require.Equal(t, color.RGBA{128, 0, 0, 255}, color.RGBAModel.Convert(out.Image[1].At(10, 10)))

	out = written(t, Animation{Frames: []*image.RGBA{image.NewRGBA(image.Rect(0, 0, 3, 3))}})
	_, _, _, a = out.Image[0].At(1, 1).RGBA()
	require.Zero(t, a, "nothing at all")
}

// Few colours keep their values.
func TestFewColors(t *testing.T) {
	colors := []color.RGBA{{1, 2, 3, 255}, {200, 100, 50, 255}, {0, 255, 0, 255}}
	p := picture(40, colors[0], func(x, y int) color.RGBA { return colors[(x/4+y/4)%3] })
	out := written(t, Animation{Frames: []*image.RGBA{p}})
	for y := range 40 {
		for x := range 40 {
			require.Equal(t, p.RGBAAt(x, y), color.RGBAModel.Convert(out.Image[0].At(x, y)))
		}
	}
}

type failingWriter struct{}

var errFull = errors.New("no space")

func (failingWriter) Write([]byte) (int, error) { return 0, errFull }

func TestBadAnimations(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	one := image.NewRGBA(image.Rect(0, 0, 4, 4))
	for _, a := range []Animation{
		{}, {Frames: []*image.RGBA{image.NewRGBA(image.Rect(0, 0, 0, 4))}},
		{Frames: []*image.RGBA{one, image.NewRGBA(image.Rect(0, 0, 4, 5))}},
	} {
		require.ErrorIs(t, a.Write(ctx, &bytes.Buffer{}), ErrAnimation)
	}
	a := Animation{Frames: []*image.RGBA{one}}
	require.ErrorIs(t, a.Write(ctx, failingWriter{}), errFull)
	cancel()
	require.ErrorIs(t, a.Write(ctx, &bytes.Buffer{}), context.Canceled)
}

func TestBayer(t *testing.T) {
	seen := map[float32]bool{}
	for _, row := range bayer {
		sum := float32(0)
		for _, v := range row {
			seen[v] = true
			sum += v
		}
		require.Less(t, math.Abs(float64(sum)), 1.4, "no row is much brighter than another")
	}
	require.Len(t, seen, 64)
}
