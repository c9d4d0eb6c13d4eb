// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import "fmt"

// Label says whether a prompt shows the object. The zero Label is none, which no prompt may have.
type Label int8

// The labels.
const (
	Foreground Label = 1  // of the object
	Background Label = -1 // not of it
)

func (l Label) check() error {
	if l != Foreground && l != Background {
		return fmt.Errorf("%w: label %d, neither Foreground nor Background", ErrInput, l)
	}
	return nil
}

// Point is a place in the picture, in pixels from its upper left corner; the centre of the first pixel is (0.5, 0.5).
type Point struct {
	X, Y  float64
	Label Label
}

// check returns an error if the point is outside a picture.
func (p Point) check(width, height int) error {
	if !(p.X >= 0 && p.X <= float64(width) && p.Y >= 0 && p.Y <= float64(height)) { // NaN is nowhere
		return fmt.Errorf("%w: point (%g, %g) is outside the picture of %d x %d", ErrInput, p.X, p.Y, width, height)
	}
	return p.Label.check()
}

// Box is a rectangle in the picture, in pixels from its upper left corner.
type Box struct{ X0, Y0, X1, Y1 float64 }

// check returns an error if the box has no area, or if it leaves a picture.
func (b Box) check(width, height int) error {
	if !(b.X0 >= 0 && b.Y0 >= 0 && b.X1 <= float64(width) && b.Y1 <= float64(height) && b.X0 < b.X1 && b.Y0 < b.Y1) {
		return fmt.Errorf("%w: box (%g, %g) to (%g, %g) in a picture of %d x %d",
			ErrInput, b.X0, b.Y0, b.X1, b.Y1, width, height)
	}
	return nil
}
