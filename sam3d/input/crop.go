// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package input

import "image"

// window is a square part of the plane a picture lies in, to be resized to the network's input. It may reach beyond
// the picture.
type window struct {
	square image.Rectangle // in pixels of the picture
	crop   image.Rectangle // inside square; what is outside was added to make a square of the crop
}

// fullView returns the window that shows a whole picture, centred. The odd pixel goes to the right or the bottom.
func fullView(width, height int) window {
	side := max(width, height)
	at := image.Pt(-((side - width) / 2), -((side - height) / 2))
	square := image.Rectangle{Min: at, Max: at.Add(image.Pt(side, side))}
	return window{square: square, crop: square}
}

// boxFactor is how much larger than the object its cut-out is.
const boxFactor = 1.2

// cropAround returns the window around an object whose mask touches the pixels of box
// (crop_around_mask_with_padding with box_size_factor 1.2).
func cropAround(box image.Rectangle) window {
	// The original works with the first and the last pixel, and rounds toward zero: a crop that starts left of the
	// picture can be a pixel narrower than high.
	last := box.Max.Sub(image.Pt(1, 1))
	side := max(last.X-box.Min.X, last.Y-box.Min.Y, 2)
	half := float64(int(float64(side)*boxFactor) / 2)
	cx, cy := float64(box.Min.X+last.X)/2, float64(box.Min.Y+last.Y)/2
	crop := image.Rect(int(cx-half), int(cy-half), int(cx+half), int(cy+half))

	full := fullView(crop.Dx(), crop.Dy())
	return window{square: full.square.Add(crop.Min), crop: crop}
}
