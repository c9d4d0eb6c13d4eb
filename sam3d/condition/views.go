// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package condition

import (
	"fmt"
	"slices"
)

// Views are the six inputs, all squares of the same size, in planes.
type Views struct {
	Size     int       // side S in pixels
	Image    []float32 // [3, S, S] colours in 0..1, cut out around the object
	RGBImage []float32 // [3, S, S] the whole picture
	Mask     []float32 // [S, S] in 0..1, cut out around the object
	RGBMask  []float32 // [S, S] the whole mask
	// The points of the cut-out and of the whole picture, [3, S, S], normalised. A point with a coordinate that is not
	// finite is missing. Nil if there is no point map.
	PointMap    []float32
	RGBPointMap []float32
	// Features stand for RGBImage if they are known. They must be of the same encoder.
	Features *Features
}

// modality returns the values of a modality and the number of their planes.
func (v Views) modality(m Modality) (flat []float32, channels int) {
	switch m {
	case Image:
		return v.Image, 3
	case RGBImage:
		return v.RGBImage, 3
	case Mask:
		return v.Mask, 1
	case RGBMask:
		return v.RGBMask, 1
	case PointMap:
		return v.PointMap, 3
	case RGBPointMap:
		return v.RGBPointMap, 3
	}
	return nil, 0
}

// validate checks the inputs that are there.
func (v Views) validate() error {
	if v.Size < 1 || v.Size > maxSide {
		return fmt.Errorf("%w: views of side %d, not 1 to %d", ErrInput, v.Size, maxSide)
	}
	for _, m := range modalities {
		flat, channels := v.modality(m)
		if want := channels * v.Size * v.Size; flat != nil && len(flat) != want {
			return fmt.Errorf("%w: %s has %d values instead of %d", ErrInput, m, len(flat), want)
		}
		if !m.points() && slices.ContainsFunc(flat, func(x float32) bool { return !finite(x) }) {
			return fmt.Errorf("%w: %s has a value that is not finite", ErrInput, m)
		}
	}
	return nil
}
