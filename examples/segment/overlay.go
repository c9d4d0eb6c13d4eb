// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"math"

	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"

	"github.com/gomlx3d/image3d/examples/internal/segmenter"
)

// colours are those of the objects in turn.
var colours = []color.NRGBA{
	{230, 60, 60, 255}, {60, 160, 235, 255}, {70, 190, 90, 255}, {245, 180, 40, 255},
	{170, 90, 220, 255}, {40, 200, 200, 255}, {240, 110, 180, 255}, {150, 150, 60, 255},
}

// overlay draws the masks into the photograph, with boxes and scores.
func overlay(picture image.Image, objects []segmenter.Object) *image.RGBA {
	size := picture.Bounds().Size()
	out := image.NewRGBA(image.Rectangle{Max: size})
	draw.Draw(out, out.Rect, image.White, image.Point{}, draw.Src)
	draw.Draw(out, out.Rect, picture, picture.Bounds().Min, draw.Over)
	thick := max(1, min(size.X, size.Y)/300)
	for i, object := range objects {
		colour := colours[i%len(colours)]
		tint(out, object.Mask, colour)
	}
	for i, object := range objects { // over all masks
		colour := colours[i%len(colours)]
		b := object.Box
		frame := image.Rect(pixel(b.X0, size.X), pixel(b.Y0, size.Y), pixel(b.X1, size.X), pixel(b.Y1, size.Y))
		outline(out, frame, thick, colour)
		caption(out, frame.Min, fmt.Sprintf("%d: %.2f", i, object.Score), colour)
	}
	return out
}

// pixel rounds a coordinate, which may be far outside, to the picture.
func pixel(v float64, size int) int { return int(math.Round(min(max(v, 0), float64(size)))) }

// tint mixes half of a colour into what is inside a mask.
func tint(out *image.RGBA, mask *image.Gray, c color.NRGBA) {
	size := mask.Rect.Size()
	for y := range size.Y {
		for x := range size.X {
			if mask.Pix[y*mask.Stride+x] != 0 {
				p := out.Pix[out.PixOffset(x, y):]
				p[0], p[1], p[2] = half(p[0], c.R), half(p[1], c.G), half(p[2], c.B)
			}
		}
	}
}

func half(a, b uint8) uint8 { return uint8((int(a) + int(b)) / 2) }

// outline draws the edges of a rectangle, inwards.
func outline(out *image.RGBA, r image.Rectangle, thick int, c color.NRGBA) {
	fill := func(r image.Rectangle) {
		draw.Draw(out, r.Intersect(out.Rect), image.NewUniform(c), image.Point{}, draw.Src)
	}
	fill(image.Rect(r.Min.X, r.Min.Y, r.Max.X, r.Min.Y+thick))
	fill(image.Rect(r.Min.X, r.Max.Y-thick, r.Max.X, r.Max.Y))
	fill(image.Rect(r.Min.X, r.Min.Y, r.Min.X+thick, r.Max.Y))
	fill(image.Rect(r.Max.X-thick, r.Min.Y, r.Max.X, r.Max.Y))
}

// caption writes a line of text on a plate of a colour, its upper left corner at the given place.
func caption(out *image.RGBA, at image.Point, text string, c color.NRGBA) {
	face := basicfont.Face7x13
	plate := image.Rect(at.X, at.Y, at.X+face.Advance*len(text)+4, at.Y+face.Height+2)
	draw.Draw(out, plate.Intersect(out.Rect), image.NewUniform(c), image.Point{}, draw.Src)
	drawer := font.Drawer{Dst: out, Src: image.Black, Face: face, Dot: fixed.P(at.X+2, at.Y+face.Ascent+1)}
	drawer.DrawString(text)
}
