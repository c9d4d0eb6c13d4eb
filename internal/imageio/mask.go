// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package imageio

import (
	"fmt"
	"image"
)

// Mask returns the mask that a picture shows, 0 outside to 255 inside, dense and with its origin at (0, 0).
//
//   - Grey and alpha pictures (also 1-bit and 16-bit ones) are taken as they are, soft edges included.
//   - A picture whose alpha varies means its alpha.
//   - A palette means: index 0 outside, every other index inside, whatever the colours, as label images have it. A
//     palette whose colours in use are a ramp of greys from black to light means its greys.
//   - Any other picture means its brightness, the largest of red, green and blue, so that a mask painted in pure red
//     counts. Pictures that were compressed with loss (YCbCr, CMYK) are cut at half brightness: compression leaves
//     traces of grey where nothing was painted.
//
// A mask with a single value other than zero below one half, such as bytes of 0 and 1, is scaled to 0 and 255.
func Mask(img image.Image) (mask *image.Gray, err error) {
	defer func() {
		if r := recover(); r != nil { // as in NRGBA
			mask, err = nil, fmt.Errorf("imageio: reading a mask of type %T: %v", img, r)
		}
	}()
	mask, err = rawMask(img)
	if err != nil {
		return nil, err
	}
	switch img.(type) {
	case *image.YCbCr, *image.CMYK:
		binarise(mask)
	}
	normaliseBinary(mask.Pix)
	return mask, nil
}

func rawMask(img image.Image) (mask *image.Gray, err error) {
	b, err := checkedBounds(img)
	if err != nil {
		return nil, err
	}
	mask = image.NewGray(image.Rect(0, 0, b.Dx(), b.Dy()))
	switch m := img.(type) {
	case *image.Paletted:
		return paletteMask(m), nil
	case *image.Gray:
		for y := range b.Dy() {
			copy(mask.Pix[y*mask.Stride:], m.Pix[m.PixOffset(b.Min.X, b.Min.Y+y):][:b.Dx()])
		}
		return mask, nil
	}
	// Alpha pictures convert to white with that alpha, 16-bit grey ones to that grey.
	pixels, err := NRGBA(img)
	if err != nil {
		return nil, err
	}
	var alpha bool
	switch img.(type) {
	case *image.Alpha, *image.Alpha16:
		alpha = true
	default:
		alpha = alphaVaries(pixels.Pix)
	}
	ForRows(b.Dy(), rowsPerTask, func(lo, hi int) {
		for y := lo; y < hi; y++ {
			from := row(pixels, y)
			for x, to := 0, mask.Pix[y*mask.Stride:][:b.Dx()]; x < len(to); x++ {
				p := from[4*x : 4*x+4]
				if alpha {
					to[x] = p[3]
				} else {
					to[x] = max(p[0], p[1], p[2])
				}
			}
		}
	})
	return mask, nil
}

// Alpha returns the alpha of a picture as a mask, and whether there is one: an opaque picture has none.
// img must come from NRGBA.
func Alpha(img *image.NRGBA) (*image.Gray, bool) {
	opaque := true
	for i := 3; i < len(img.Pix) && opaque; i += 4 {
		opaque = img.Pix[i] == 255
	}
	if opaque {
		return nil, false
	}
	mask := image.NewGray(img.Rect)
	for i := range mask.Pix {
		mask.Pix[i] = img.Pix[4*i+3]
	}
	return mask, true
}

// binarise sets a mask to 0 and 255, cut at one half.
func binarise(mask *image.Gray) {
	for i, v := range mask.Pix {
		mask.Pix[i] = 0
		if v >= 128 {
			mask.Pix[i] = 255
		}
	}
}

// normaliseBinary scales a mask of zeros and one other value below one half to 0 and 255.
func normaliseBinary(pix []uint8) {
	var value uint8
	for _, v := range pix {
		if v != 0 && v != value {
			if value != 0 || v >= 128 {
				return
			}
			value = v
		}
	}
	if value == 0 {
		return
	}
	for i, v := range pix {
		if v != 0 {
			pix[i] = 255
		}
	}
}

func alphaVaries(pix []uint8) bool {
	for i := 3; i < len(pix); i += 4 {
		if pix[i] != pix[3] {
			return true
		}
	}
	return false
}

// paletteMask is the mask of a palette picture. What counts are the colours that occur: alpha if theirs varies,
// brightness if they are a ramp of greys that starts at black, else index 0 against the rest.
func paletteMask(m *image.Paletted) *image.Gray {
	b := m.Bounds()
	width, height := b.Dx(), b.Dy()
	mask := image.NewGray(image.Rect(0, 0, width, height))
	var used [256]bool
	for y := range height {
		line := m.Pix[y*m.Stride:][:width]
		copy(mask.Pix[y*width:], line)
		for _, index := range line {
			used[index] = true
		}
	}
	value := paletteValues(paletteTable(m.Palette), used)
	for i, index := range mask.Pix {
		mask.Pix[i] = value[index]
	}
	return mask
}

// paletteValues returns what each index means in a mask.
func paletteValues(table [256][4]uint8, used [256]bool) (value [256]uint8) {
	alpha, ramp := false, table[0] == [4]uint8{3: 255}
	previous := -1 // an index
	for i, c := range table {
		if !used[i] {
			continue
		}
		ramp = ramp && c[0] == c[1] && c[1] == c[2]
		if previous >= 0 {
			alpha = alpha || c[3] != table[previous][3]
			ramp = ramp && c[0] > table[previous][0]
		}
		previous = i
	}
	for i, c := range table {
		switch {
		case alpha:
			value[i] = c[3]
		case ramp:
			value[i] = c[0]
		case i > 0:
			value[i] = 255
		}
	}
	return value
}
