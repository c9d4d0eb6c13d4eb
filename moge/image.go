// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"fmt"
	"image"

	"github.com/gomlx3d/image3d/internal/imageio"
)

// Image is a picture of three planes, red, green and blue.
type Image struct {
	Height, Width int
	Pixels        []float32 // [3, Height, Width], 0..1
}

// NewImage converts a picture of any kind. Greys become three equal planes; transparency is left out, so that the
// colours under it count. The error wraps ErrInput.
func NewImage(picture image.Image) (Image, error) {
	if picture == nil {
		return Image{}, fmt.Errorf("%w: no picture", ErrInput)
	}
	pixels, err := imageio.NRGBA(picture)
	if err != nil {
		return Image{}, fmt.Errorf("%w: %w", ErrInput, err)
	}
	planes := imageio.RGB(pixels)
	return Image{Height: planes.H, Width: planes.W, Pixels: planes.Data}, nil
}

// planes returns the picture without copying it.
func (i Image) planes() imageio.Planes {
	return imageio.Planes{C: 3, H: i.Height, W: i.Width, Data: i.Pixels}
}

// Values of a picture that are no mistake: resampling may have left them a little outside 0..1.
const (
	minPixel = -0.25
	maxPixel = 1.25
)

// check reports a picture that is not one.
func (i Image) check() error {
	if i.Height < 1 || i.Width < 1 || len(i.Pixels)/3/i.Height != i.Width || len(i.Pixels) != 3*i.Height*i.Width {
		return fmt.Errorf("%w: %d values for a %dx%d picture of three channels", ErrInput, len(i.Pixels), i.Width, i.Height)
	}
	for at, p := range i.Pixels {
		if !(p >= minPixel && p <= maxPixel) { // false for NaN
			return fmt.Errorf("%w: pixel value %g at %d, not in 0..1", ErrInput, p, at)
		}
	}
	return nil
}
