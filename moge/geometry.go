// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"errors"
	"fmt"
	"math"

	"github.com/gomlx3d/image3d/internal/geom"
	"github.com/gomlx3d/image3d/internal/imageio"
)

// ErrCamera is wrapped when no camera can be fitted to a point map: a coordinate that is not finite, or a depth of zero,
// among the points that the solver looks at, or a camera that would look backwards where one is needed.
var ErrCamera = errors.New("moge: no camera fits the points")

// sampleSide is the side of the grid of points that the camera is fitted to, whatever the size of the map.
const sampleSide = 64

// FocalShift is the camera of a point map whose depths are known up to a common shift.
type FocalShift struct {
	// Focal is the focal length relative to half the diagonal of the picture. It is negative for a map whose x and y
	// axes are mirrored; only a positive one describes a camera.
	Focal float32
	// Shift is what has to be added to every z.
	Shift float32
	// Samples is the number of valid points among those looked at. With fewer than two nothing is fitted: Shift is 0,
	// and Focal is 1 or the one that was given.
	Samples int
}

// RecoverFocalShift finds the focal length and the shift for which a point map projects best onto the pixels it belongs
// to (MoGe, section 3.1; recover_focal_shift of moge/utils/geometry_torch.py). It minimises
//
//	sum over samples of |Focal * (x, y)/(z + Shift) - (u, v)|²
//
// over 64x64 samples of the map, u and v being centred on the picture and 1 at its corners. The solver stops early, as
// the original's does, and that is part of the result.
//
//	points [height, width, 3] x right, y down, z forward, in any unit
//	mask   [height, width], false for points to leave out, or nil; those may be anything
//
// The error wraps ErrCamera or ErrInput.
func RecoverFocalShift(points []float32, height, width int, mask []bool) (FocalShift, error) {
	return recoverCamera(points, height, width, mask, 0, (*fit).minimise)
}

// RecoverShift is RecoverFocalShift for a known focal length, which must be positive.
func RecoverShift(points []float32, height, width int, mask []bool, focal float32) (FocalShift, error) {
	if !(focal > 0) || math.IsInf(float64(focal), 0) {
		return FocalShift{}, fmt.Errorf("%w: focal length %g", ErrInput, focal)
	}
	return recoverCamera(points, height, width, mask, focal, (*fit).minimise)
}

// FocalFromFOV returns the focal length, relative to half the diagonal, of a horizontal field of view in degrees.
// aspect is width/height.
func FocalFromFOV(degrees, aspect float64) float32 {
	return float32(geom.IntrinsicsFromFOV(degrees*math.Pi/180, aspect).Focal(aspect))
}

// recoverCamera fits the shift and, if focal is 0, the focal length, with one of the solvers.
func recoverCamera(points []float32, height, width int, mask []bool, focal float32, solve func(*fit) (search, error)) (FocalShift, error) {
	if height < 1 || width < 1 || len(points)/3/height != width || len(points) != 3*height*width {
		return FocalShift{}, fmt.Errorf("%w: %d values for a %dx%d point map", ErrInput, len(points), height, width)
	}
	if mask != nil && len(mask) != height*width {
		return FocalShift{}, fmt.Errorf("%w: a mask of %d for a %dx%d point map", ErrInput, len(mask), height, width)
	}
	problem := &fit{samples: takeSamples(points, height, width, mask), known: float64(focal)}
	found := FocalShift{Focal: focal, Samples: len(problem.samples)}
	if len(problem.samples) < 2 {
		if focal == 0 {
			found.Focal = 1
		}
		return found, nil
	}
	for _, s := range problem.samples {
		if sum := s.x + s.y + s.z; sum-sum != 0 {
			return FocalShift{}, fmt.Errorf("%w: point (%g, %g, %g)", ErrCamera, s.x, s.y, s.z)
		}
	}
	result, err := solve(problem)
	if err != nil {
		return FocalShift{}, err
	}
	found.Shift = float32(result.shift)
	if focal == 0 {
		found.Focal = focalAt(problem.samples, found.Shift)
	}
	if bad := float64(found.Focal + found.Shift); math.IsNaN(bad) || math.IsInf(bad, 0) {
		return FocalShift{}, fmt.Errorf("%w: focal length %g, shift %g", ErrCamera, found.Focal, found.Shift)
	}
	return found, nil
}

// takeSamples returns the valid points of a 64x64 nearest-neighbour sampling, row by row. A map smaller than that is
// sampled more than once.
func takeSamples(points []float32, height, width int, mask []bool) []sample {
	rows, cols := imageio.NearestIndex(height, sampleSide), imageio.NearestIndex(width, sampleSide)
	spanU, spanV := spans(float64(width) / float64(height))
	samples := make([]sample, 0, sampleSide*sampleSide)
	for _, row := range rows {
		v := centre(row, height, spanV)
		for _, col := range cols {
			i := row*width + col
			if mask != nil && !mask[i] {
				continue
			}
			samples = append(samples, sample{
				x: float64(points[3*i]), y: float64(points[3*i+1]), z: float64(points[3*i+2]),
				u: float64(centre(col, width, spanU)), v: float64(v),
			})
		}
	}
	return samples
}

// spans returns the half width and half height of a picture whose half diagonal is 1.
func spans(aspect float64) (u, v float64) {
	diagonal := math.Sqrt(1 + aspect*aspect)
	return aspect / diagonal, 1 / diagonal
}

// centre returns the coordinate of a pixel's centre on an axis that reaches from -span to span.
func centre(i, size int, span float64) float32 {
	return float32(span * (float64(2*i+1)/float64(size) - 1))
}

// centres returns the coordinates of all pixels' centres along an axis.
func centres(size int, span float64) []float32 {
	out := make([]float32, size)
	for i := range out {
		out[i] = centre(i, size, span)
	}
	return out
}

// coordinates returns those of the pixel centres of a map of a picture of the given aspect, half its diagonal being 1.
func coordinates(rows, cols int, aspect float64) (u, v []float32) {
	spanU, spanV := spans(aspect)
	return centres(cols, spanU), centres(rows, spanV)
}

// focalAt returns the best focal length for the shift as it is returned, in float32.
func focalAt(samples []sample, shift float32) float32 {
	var along, square float64
	for _, s := range samples {
		z := float32(s.z) + shift
		px, py := float64(float32(s.x)/z), float64(float32(s.y)/z)
		along += px*s.u + py*s.v
		square += px*px + py*py
	}
	return float32(along / square)
}
