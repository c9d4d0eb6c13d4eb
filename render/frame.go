// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package render

import (
	"image"
	"image/draw"
)

// Frame is a drawn picture before it has a background.
type Frame struct {
	Width, Height int
	// Pix holds red, green, blue and alpha, the colours multiplied by alpha, in the colour space of a picture (sRGB).
	// Alpha is in [0, 1]; colours of splats may exceed it.
	Pix []float32 // [Height, Width, 4]
}

func newFrame(c Camera) *Frame {
	return &Frame{Width: c.Width, Height: c.Height, Pix: make([]float32, 4*c.Width*c.Height)}
}

// Over returns the frame laid over a background, such as image.White, image.Transparent or a photograph, of which the
// part from its top left corner on is taken. Colours above 1 are cut. Where the background is transparent so is the
// result.
func (f *Frame) Over(background image.Image) *image.RGBA {
	out := image.NewRGBA(image.Rect(0, 0, f.Width, f.Height))
	draw.Draw(out, out.Rect, background, background.Bounds().Min, draw.Src)
	for i := 0; i+3 < len(f.Pix); i += 4 {
		alpha := f.Pix[i+3]
		if alpha == 0 {
			continue
		}
		behind := 1 - alpha
		for k := range 4 {
			// A premultiplied colour above its alpha would be no valid colour.
			value := 255*min(f.Pix[i+k], alpha) + behind*float32(out.Pix[i+k])
			out.Pix[i+k] = uint8(min(max(value, 0), 255) + 0.5)
		}
	}
	return out
}
