// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package imageio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"image"
)

// Mask returns the mask that a picture shows, 0 outside to 255 inside, dense and with its origin at (0, 0).
//
//   - Grey and alpha pictures (also 1-bit and 16-bit ones) are taken as they are, soft edges included.
//   - A picture whose alpha varies means its alpha.
//   - A palette means: index 0 outside, every other index inside, whatever the colours, as label images have it. A
//     palette whose colours in use are a ramp of greys from black to light means its greys.
//   - Any other picture means what was painted on black: greys are taken as they are, any other colour counts in full.
//     Pictures that were compressed with loss (YCbCr, CMYK) mean their brightness, the largest of red, green and blue,
//     cut at one half: compression leaves traces of grey where nothing was painted.
//
// A mask with a single value other than zero below one half, such as bytes of 0 and 1, is scaled to 0 and 255.
func Mask(img image.Image) (mask *image.Gray, err error) {
	values, err := valuesOf(img, false)
	if err != nil {
		return nil, err
	}
	return values.mask(), nil
}

// maskValues is what a picture says of a mask, before it is decided what counts.
type maskValues struct {
	gray  *image.Gray // dense
	lossy bool        // the values are not exact
}

// mask is the mask as Mask documents it.
func (v maskValues) mask() *image.Gray {
	if v.lossy {
		binarise(v.gray, 128)
	}
	normaliseBinary(v.gray.Pix)
	return v.gray
}

// nonZero is the mask of all pixels that are not zero.
func (v maskValues) nonZero() *image.Gray {
	binarise(v.gray, 1)
	return v.gray
}

// valuesOf reads a picture as a mask. It keeps no memory of the picture. lossy says that the picture was compressed with
// loss, if its type does not.
func valuesOf(img image.Image, lossy bool) (values maskValues, err error) {
	defer func() {
		if r := recover(); r != nil { // as in NRGBA
			values, err = maskValues{}, fmt.Errorf("imageio: reading a mask of type %T: %v", img, r)
		}
	}()
	b, err := checkedBounds(img)
	if err != nil {
		return values, err
	}
	switch m := img.(type) {
	case *image.Paletted:
		return maskValues{gray: paletteMask(m)}, nil
	case *image.Gray:
		mask := image.NewGray(image.Rect(0, 0, b.Dx(), b.Dy()))
		for y := range b.Dy() {
			copy(mask.Pix[y*mask.Stride:], m.Pix[m.PixOffset(b.Min.X, b.Min.Y+y):][:b.Dx()])
		}
		return maskValues{mask, lossy}, nil
	case *image.Gray16:
		return maskValues{gray: wideMask(m)}, nil
	}
	// Alpha pictures convert to white with that alpha.
	pixels, err := NRGBA(img)
	if err != nil {
		return values, err
	}
	alpha := alphaVaries(pixels.Pix)
	switch img.(type) {
	case *image.Alpha, *image.Alpha16:
		alpha = true
	case *image.YCbCr, *image.CMYK, *image.NYCbCrA:
		lossy = true
	}
	lossy = lossy && !alpha // what has alpha compresses it on its own, and better
	return maskValues{paintedMask(pixels, alpha, lossy), lossy}, nil
}

// paintedMask is the alpha, the brightness, or the paint of a picture.
func paintedMask(pixels *image.NRGBA, alpha, lossy bool) *image.Gray {
	// Greys may be tinted a little by conversions.
	const tint = 16
	mask := image.NewGray(pixels.Rect)
	width := pixels.Rect.Dx()
	ForRows(pixels.Rect.Dy(), rowsPerTask, func(lo, hi int) {
		for y := lo; y < hi; y++ {
			from := row(pixels, y)
			for x, to := 0, mask.Pix[y*mask.Stride:][:width]; x < len(to); x++ {
				p := from[4*x : 4*x+4]
				most := max(p[0], p[1], p[2])
				switch {
				case alpha:
					to[x] = p[3]
				case !lossy && most-min(p[0], p[1], p[2]) >= tint:
					to[x] = 255
				default:
					to[x] = most
				}
			}
		}
	})
	return mask
}

// wideMask scales 16 bits to 8. A single value other than zero below one half, which might vanish, becomes 255.
func wideMask(m *image.Gray16) *image.Gray {
	b := m.Bounds()
	mask := image.NewGray(image.Rect(0, 0, b.Dx(), b.Dy()))
	var value uint16
	single := true
	for y := range b.Dy() {
		line := m.Pix[m.PixOffset(b.Min.X, b.Min.Y+y):][:2*b.Dx()]
		narrow(mask.Pix[y*mask.Stride:][:b.Dx()], line)
		for x := 0; x < len(line) && single; x += 2 {
			if v := binary.BigEndian.Uint16(line[x:]); v != 0 && v != value {
				single = value == 0 && v < 1<<15
				value = v
			}
		}
	}
	if single && value != 0 {
		for y := range b.Dy() {
			for x, to := 0, mask.Pix[y*mask.Stride:][:b.Dx()]; x < len(to); x++ {
				if at := m.PixOffset(b.Min.X+x, b.Min.Y+y); m.Pix[at]|m.Pix[at+1] != 0 {
					to[x] = 255
				}
			}
		}
	}
	return mask
}

// FitMask returns the mask at another size, each pixel taken from the nearest one. At the same size it is returned as
// it is. mask must be dense, as those of Mask are.
func FitMask(mask *image.Gray, width, height int) (*image.Gray, error) {
	from := mask.Rect.Size()
	if from == image.Pt(width, height) {
		return mask, nil
	}
	if err := errors.Join(checkPixels(from.X, from.Y, DefaultMaxPixels), checkPixels(width, height, DefaultMaxPixels)); err != nil {
		return nil, err
	}
	out := image.NewGray(image.Rect(0, 0, width, height))
	columns := NearestIndex(from.X, width)
	for y, v := range NearestIndex(from.Y, height) {
		line := mask.Pix[v*mask.Stride:][:from.X]
		for x, u := range columns {
			out.Pix[y*out.Stride+x] = line[u]
		}
	}
	return out, nil
}

// Alpha returns the alpha of a picture as a mask, and whether there is one: an opaque picture has none. As in Mask, an
// alpha of zeros and one other value below one half is scaled.
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
	normaliseBinary(mask.Pix)
	return mask, true
}

// binarise sets a mask to 0 and 255, cut at a value.
func binarise(mask *image.Gray, least uint8) {
	for i, v := range mask.Pix {
		mask.Pix[i] = 0
		if v >= least {
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
