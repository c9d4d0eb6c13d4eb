// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package input turns a picture, the mask of one object and a point map into what the condition encoders read:
// each of the three twice, cut out around the object and as a whole (SAM 3D Objects, preprocess_image and
// compute_pointmap). It is plain Go.
//
// Everything that can be wrong with a picture or a mask is found by New, before any model runs; what can be wrong with
// a point map is found by Prepare.
package input

import (
	"errors"
	"fmt"
	"image"

	"github.com/gomlx3d/image3d/internal/imageio"
)

// Errors that callers tell apart with errors.Is. Their texts are followed by the values at fault.
var (
	// ErrPicture says that a picture or a mask has no pixels, too many, or cannot be read.
	ErrPicture = errors.New("input: bad picture")
	// ErrNoMask says that no mask was given and that the picture is opaque, so that it has none of its own.
	ErrNoMask = errors.New("input: no mask given, and the picture is opaque")
	// ErrEmptyMask says that no pixel of the mask is above one half.
	ErrEmptyMask = errors.New("input: mask is empty")
	// ErrMaskTooSmall says that the pixels that the mask touches span fewer than three columns or rows.
	ErrMaskTooSmall = errors.New("input: mask is too small")
	// ErrPointMap says that a point map's size does not fit its data.
	ErrPointMap = errors.New("input: bad point map")
	// ErrNoPoints says that the point map has no valid point below the mask.
	ErrNoPoints = errors.New("input: no valid point below the mask")
	// ErrFlatPoints says that all points of a map are the same, or nearly, so that it has no scale.
	ErrFlatPoints = errors.New("input: point map has no extent")
)

// SizeMismatchError says that a mask does not have the size of its picture.
type SizeMismatchError struct{ Picture, Mask image.Point }

// Error names both sizes, as width x height.
func (e *SizeMismatchError) Error() string {
	return fmt.Sprintf("input: the mask is %dx%d but the picture is %dx%d",
		e.Mask.X, e.Mask.Y, e.Picture.X, e.Picture.Y)
}

// minExtent is the number of columns and rows that a mask must span at least, as in the original.
const minExtent = 3

// Picture is a picture with the mask of one object, both checked. Create it with New.
type Picture struct {
	pixels *image.NRGBA
	mask   *image.Gray
	box    image.Rectangle // of the mask's pixels that are not zero
	above  int             // number of pixels above one half
}

// New checks a picture and the mask of the object in it. mask may be any picture of the same size (imageio.Mask says
// what of it counts), or nil for the alpha of img. Soft edges of the mask are kept. Colours below transparent pixels of
// img are used: the whole picture is context. The Picture may share the memory of img, which must not change meanwhile.
//
// The error is a *SizeMismatchError or wraps ErrPicture, ErrNoMask, ErrEmptyMask or ErrMaskTooSmall.
func New(img, mask image.Image) (*Picture, error) {
	pixels, err := imageio.NRGBA(img)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPicture, err)
	}
	p := &Picture{pixels: pixels}
	if mask == nil {
		var found bool
		if p.mask, found = imageio.Alpha(pixels); !found {
			return nil, ErrNoMask
		}
	} else {
		if p.mask, err = imageio.Mask(mask); err != nil {
			return nil, fmt.Errorf("%w: the mask: %w", ErrPicture, err)
		}
		if size := p.mask.Rect.Size(); size != pixels.Rect.Size() {
			return nil, &SizeMismatchError{Picture: pixels.Rect.Size(), Mask: size}
		}
	}
	return p, p.measureMask()
}

// measureMask finds the object's box and refuses masks that show no object.
func (p *Picture) measureMask() error {
	width, height := p.Size()
	p.box = image.Rectangle{Min: image.Pt(width, height)}
	for y := range height {
		for x, v := range p.maskRow(y) {
			if v == 0 {
				continue
			}
			p.box.Min.X, p.box.Max.X = min(p.box.Min.X, x), max(p.box.Max.X, x+1)
			p.box.Min.Y, p.box.Max.Y = min(p.box.Min.Y, y), max(p.box.Max.Y, y+1)
			if v >= 128 {
				p.above++
			}
		}
	}
	if p.above == 0 {
		return fmt.Errorf("%w: none of its %dx%d pixels is above one half", ErrEmptyMask, width, height)
	}
	if p.box.Dx() < minExtent || p.box.Dy() < minExtent {
		return fmt.Errorf("%w: it spans %dx%d pixels, the least is %dx%[4]d",
			ErrMaskTooSmall, p.box.Dx(), p.box.Dy(), minExtent)
	}
	return nil
}

// Size returns the picture's width and height.
func (p *Picture) Size() (width, height int) { return p.pixels.Rect.Dx(), p.pixels.Rect.Dy() }

// RGB returns the colours as [3, H, W] in 0..1, which is what a depth model reads.
func (p *Picture) RGB() imageio.Planes { return imageio.RGB(p.pixels) }

// Coverage returns the part of the picture, 0 to 1, that the object fills. Near 1 the mask is likely inverted.
func (p *Picture) Coverage() float64 {
	width, height := p.Size()
	return float64(p.above) / float64(width) / float64(height)
}

// Box returns the bounds of the pixels that the mask touches.
func (p *Picture) Box() image.Rectangle { return p.box }

func (p *Picture) maskRow(y int) []uint8 { return p.mask.Pix[y*p.mask.Stride:][:p.mask.Rect.Dx()] }
