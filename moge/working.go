// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"fmt"
	"math"

	"github.com/gomlx3d/image3d/internal/imageio"
)

// working holds the sizes that the network works at.
type working struct {
	height, width int // of the resized picture
	rows, cols    int // of the grid of patches
}

// workingSize scales a picture to an area of numTokens patches. Sizes are cut off, not rounded, and in float64, as in
// the original.
func workingSize(height, width, numTokens int) (working, error) {
	if numTokens < 1 || numTokens > maxNumTokens {
		return working{}, fmt.Errorf("%w: %d patches, not in 1 to %d", ErrInput, numTokens, maxNumTokens)
	}
	scale := math.Sqrt(float64(numTokens*patch*patch) / (float64(height) * float64(width)))
	w := working{height: int(float64(height) * scale), width: int(float64(width) * scale)}
	w.rows, w.cols = w.height/patch, w.width/patch
	if w.rows < 1 || w.cols < 1 {
		return working{}, fmt.Errorf("%w: a %dx%d picture is too narrow for %d patches", ErrInput, width, height, numTokens)
	}
	return w, nil
}

// prepare resizes a picture twice, as the original does: to the working size, then to whole patches.
//
//	out [3, 14 rows, 14 cols], not clamped
func (w working) prepare(image Image) (imageio.Planes, error) {
	planes := imageio.Planes{C: 3, H: image.Height, W: image.Width, Data: image.Pixels}
	planes, err := imageio.Resize(planes, w.height, w.width, imageio.BicubicAntialias)
	if err != nil {
		return planes, err
	}
	return imageio.Resize(planes, patch*w.rows, patch*w.cols, imageio.BilinearAntialias)
}

// coordinates returns those of the pixel centres of a map of the picture; see spans. The aspect is that of the resized
// picture whatever the map's is.
func (w working) coordinates(rows, cols int) (u, v []float32) {
	spanU, spanV := spans(float64(w.width) / float64(w.height))
	return centres(cols, spanU), centres(rows, spanV)
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

// points turns the network's first three values of each pixel into points.
//
//	values [4, H, W]
//	out    [H, W, 3]
func (r Remap) points(values imageio.Planes) []float32 {
	out := make([]float32, 3*values.H*values.W)
	exp := func(x float32) float32 { return float32(math.Exp(float64(x))) }
	sinh := func(x float32) float32 { return float32(math.Sinh(float64(x))) }
	imageio.ForRows(values.H, rowsPerTask, func(lo, hi int) {
		for y := lo; y < hi; y++ {
			as, bs, cs := values.Row(0, y), values.Row(1, y), values.Row(2, y)
			for x := range as {
				a, b, c := as[x], bs[x], cs[x]
				switch r {
				case RemapExp:
					c = exp(c)
					a, b = a*c, b*c
				case RemapSinh:
					a, b, c = sinh(a), sinh(b), sinh(c)
				case RemapSinhExp:
					a, b, c = sinh(a), sinh(b), exp(c)
				}
				copy(out[3*(y*values.W+x):], []float32{a, b, c})
			}
		}
	})
	return out
}
