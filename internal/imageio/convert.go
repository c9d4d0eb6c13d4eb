// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package imageio turns pictures of any kind into the arrays that models read: 8-bit colour with straight alpha,
// planes of float32 [C, H, W], masks, and exact resampling of them.
package imageio

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
)

// Errors that callers tell apart.
var (
	// ErrEmpty says that a picture has no pixels.
	ErrEmpty = errors.New("imageio: picture has no pixels")
	// ErrTooLarge says that a picture, or a file, is larger than the limit.
	ErrTooLarge = errors.New("imageio: too large")
)

// DefaultMaxPixels is the number of pixels that a picture may have unless the caller says otherwise.
const DefaultMaxPixels = 100_000_000

// rowsPerTask is how many rows of a picture one worker takes at a time. It is even, so that rows that share
// chroma samples stay together.
const rowsPerTask = 64

// NRGBA returns the picture with 8 bits a channel and straight (not premultiplied) alpha, its origin at (0, 0) and its
// rows without gaps. Colours below transparent pixels survive where img stores them. 16-bit channels are divided by 257
// and rounded; grey, palette, YCbCr and CMYK pictures become RGB. A picture that is so already is returned as it is.
// It fails for a picture without pixels, with more than DefaultMaxPixels, or whose buffer is too short.
func NRGBA(img image.Image) (out *image.NRGBA, err error) {
	b, err := checkedBounds(img)
	if err != nil {
		return nil, err
	}
	defer func() {
		// A picture made by hand may lack pixels that its bounds promise, and At may be anybody's code.
		if r := recover(); r != nil {
			out, err = nil, fmt.Errorf("imageio: reading a picture of type %T: %v", img, r)
		}
	}()
	if m, ok := img.(*image.NRGBA); ok && b.Min == (image.Point{}) && m.Stride == 4*b.Dx() && len(m.Pix) == 4*b.Dx()*b.Dy() {
		return m, nil
	}
	out = image.NewNRGBA(image.Rect(0, 0, b.Dx(), b.Dy()))
	convert := rowConverter(out, img)
	if convert == nil {
		for y := range b.Dy() { // At need not be safe for concurrent use
			convertAny(row(out, y), img, b.Min.Y+y)
		}
		return out, nil
	}
	ForRows(b.Dy(), rowsPerTask, func(lo, hi int) { convert(lo, hi) })
	return out, nil
}

// checkedBounds returns the bounds of a picture that has pixels, and not too many.
func checkedBounds(img image.Image) (b image.Rectangle, err error) {
	defer func() {
		if r := recover(); r != nil { // a nil pointer to a picture, most likely
			err = fmt.Errorf("%w: bounds of a %T: %v", ErrEmpty, img, r)
		}
	}()
	if img == nil {
		return b, fmt.Errorf("%w: it is nil", ErrEmpty)
	}
	b = img.Bounds()
	if b.Empty() {
		return b, fmt.Errorf("%w: bounds %v", ErrEmpty, b)
	}
	return b, checkPixels(b.Dx(), b.Dy(), DefaultMaxPixels)
}

func checkPixels(width, height, limit int) error {
	if width <= 0 || height <= 0 {
		return fmt.Errorf("%w: %dx%d", ErrEmpty, width, height)
	}
	if width > limit/height { // the product may overflow
		return fmt.Errorf("%w: %dx%d pixels, the limit is %d in all", ErrTooLarge, width, height, limit)
	}
	return nil
}

func row(m *image.NRGBA, y int) []uint8 {
	i := m.PixOffset(m.Rect.Min.X, m.Rect.Min.Y+y)
	return m.Pix[i : i+4*m.Rect.Dx()]
}

// rowConverter returns a function that fills rows [lo, hi) of out from img, or nil for a type it does not know.
func rowConverter(out *image.NRGBA, img image.Image) func(lo, hi int) {
	b := img.Bounds()
	width := b.Dx()
	eachRow := func(fill func(dst []uint8, y int)) func(lo, hi int) {
		return func(lo, hi int) {
			for y := lo; y < hi; y++ {
				fill(row(out, y), b.Min.Y+y)
			}
		}
	}
	switch m := img.(type) {
	case *image.NRGBA:
		return eachRow(func(dst []uint8, y int) { copy(dst, m.Pix[m.PixOffset(b.Min.X, y):][:4*width]) })
	case *image.RGBA:
		return eachRow(func(dst []uint8, y int) { unpremultiply(dst, m.Pix[m.PixOffset(b.Min.X, y):][:4*width]) })
	case *image.NRGBA64:
		return eachRow(func(dst []uint8, y int) { narrow(dst, m.Pix[m.PixOffset(b.Min.X, y):][:8*width]) })
	case *image.RGBA64:
		return eachRow(func(dst []uint8, y int) { unpremultiply64(dst, m.Pix[m.PixOffset(b.Min.X, y):][:8*width]) })
	case *image.Gray:
		return eachRow(func(dst []uint8, y int) { spread(dst, m.Pix[m.PixOffset(b.Min.X, y):][:width]) })
	case *image.Gray16:
		return eachRow(func(dst []uint8, y int) {
			grey := make([]uint8, width)
			narrow(grey, m.Pix[m.PixOffset(b.Min.X, y):][:2*width])
			spread(dst, grey)
		})
	case *image.Paletted:
		table := paletteTable(m.Palette)
		return eachRow(func(dst []uint8, y int) {
			for x, index := range m.Pix[m.PixOffset(b.Min.X, y):][:width] {
				copy(dst[4*x:4*x+4], table[index][:])
			}
		})
	case *image.YCbCr, *image.CMYK:
		return func(lo, hi int) { drawOpaque(out, img, lo, hi) }
	case *image.NYCbCrA:
		return func(lo, hi int) {
			drawOpaque(out, &m.YCbCr, lo, hi)
			for y := lo; y < hi; y++ {
				for x, a := range m.A[m.AOffset(b.Min.X, b.Min.Y+y):][:width] {
					out.Pix[out.PixOffset(x, y)+3] = a
				}
			}
		}
	}
	return nil
}

// drawOpaque converts rows of a picture without alpha, for which premultiplied and straight colours are the same.
func drawOpaque(out *image.NRGBA, img image.Image, lo, hi int) {
	opaque := &image.RGBA{Pix: out.Pix, Stride: out.Stride, Rect: out.Rect}
	from := img.Bounds().Min.Add(image.Pt(0, lo))
	draw.Draw(opaque, image.Rect(0, lo, out.Rect.Dx(), hi), img, from, draw.Src)
}

// unpremultiply divides colours by their alpha. Values that no premultiplied pixel can have are kept as they are.
func unpremultiply(dst, src []uint8) {
	for i := 0; i < len(src); i += 4 {
		a := uint32(src[i+3])
		if a == 255 {
			copy(dst[i:i+4], src[i:i+4])
			continue
		}
		for c := range 3 {
			v := uint32(src[i+c])
			if a != 0 && v <= a {
				v = (v*255 + a/2) / a
			}
			dst[i+c] = uint8(v)
		}
		dst[i+3] = uint8(a)
	}
}

// unpremultiply64 is unpremultiply for 16-bit big-endian channels.
func unpremultiply64(dst, src []uint8) {
	for i := 0; i < len(dst); i += 4 {
		s := src[2*i : 2*i+8]
		a := uint32(s[6])<<8 | uint32(s[7])
		for c := range 3 {
			dst[i+c] = to8(straight(uint32(s[2*c])<<8|uint32(s[2*c+1]), a))
		}
		dst[i+3] = to8(a)
	}
}

// straight divides a premultiplied 16-bit channel by its alpha.
func straight(v, a uint32) uint32 {
	if a == 0 || v > a {
		return v
	}
	return uint32((uint64(v)*0xffff + uint64(a)/2) / uint64(a))
}

// to8 scales 0..65535 to 0..255, rounding to the nearest.
func to8(v uint32) uint8 { return uint8((v + 128) / 257) }

// narrow scales big-endian 16-bit channels to 8 bits.
func narrow(dst, src []uint8) {
	for i := range dst {
		dst[i] = to8(uint32(src[2*i])<<8 | uint32(src[2*i+1]))
	}
}

func spread(dst, grey []uint8) {
	for x, v := range grey {
		dst[4*x], dst[4*x+1], dst[4*x+2], dst[4*x+3] = v, v, v, 255
	}
}

// paletteTable returns the straight colours of all 256 indices; those the palette lacks are black.
func paletteTable(palette color.Palette) (table [256][4]uint8) {
	for i := range table {
		table[i] = [4]uint8{3: 255}
		if i < len(palette) {
			table[i] = straightColor(palette[i])
		}
	}
	return table
}

func convertAny(dst []uint8, img image.Image, y int) {
	for x, b := 0, img.Bounds(); x < b.Dx(); x++ {
		c := straightColor(img.At(b.Min.X+x, y))
		copy(dst[4*x:], c[:])
	}
}

// straightColor returns a colour's 8-bit R, G, B and straight alpha.
func straightColor(c color.Color) [4]uint8 {
	switch c := c.(type) {
	case color.NRGBA:
		return [4]uint8{c.R, c.G, c.B, c.A}
	case color.NRGBA64:
		return [4]uint8{to8(uint32(c.R)), to8(uint32(c.G)), to8(uint32(c.B)), to8(uint32(c.A))}
	case color.RGBA:
		out := [4]uint8{}
		unpremultiply(out[:], []uint8{c.R, c.G, c.B, c.A})
		return out
	case color.NYCbCrA:
		r, g, b := color.YCbCrToRGB(c.Y, c.Cb, c.Cr)
		return [4]uint8{r, g, b, c.A}
	case color.YCbCr:
		r, g, b := color.YCbCrToRGB(c.Y, c.Cb, c.Cr)
		return [4]uint8{r, g, b, 255}
	case color.CMYK:
		r, g, b := color.CMYKToRGB(c.C, c.M, c.Y, c.K)
		return [4]uint8{r, g, b, 255}
	}
	r, g, b, a := c.RGBA()
	return [4]uint8{to8(straight(r, a)), to8(straight(g, a)), to8(straight(b, a)), to8(a)}
}
