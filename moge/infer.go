// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"context"
	"fmt"
	"math"

	"github.com/gomlx3d/image3d/internal/geom"
	"github.com/gomlx3d/image3d/internal/imageio"
)

// Options are the choices of Infer. The zero value is the call of SAM 3D Objects: the finest resolution level, an
// unknown camera, points where the network sees them, and only the valid ones.
type Options struct {
	// ResolutionLevel chooses the number of patches between Config.MinTokens (level 0) and Config.MaxTokens (level 9);
	// nil is 9. Other levels extrapolate.
	ResolutionLevel *int
	// NumTokens is the number of patches, if it is not 0. ResolutionLevel does not count then.
	NumTokens int
	// FOVX is the horizontal field of view in degrees, above 0 and below 180; 0 is unknown.
	FOVX float64
	// ForceProjection moves the points, each at its depth, to where the camera sees their pixels (the default of the
	// original, though not of SAM 3D Objects).
	ForceProjection bool
	// KeepInvalid leaves the points outside the mask as they are (apply_mask=False of the original).
	KeepInvalid bool
}

// Result is the geometry of a picture. Axes: x right, y down, z forward; the unit of length is unknown.
type Result struct {
	Height, Width int
	Points        []float32 // [Height, Width, 3]; +Inf outside the mask
	Depth         []float32 // [Height, Width], z of the points; +Inf outside the mask
	Mask          []bool    // [Height, Width], whether a point is valid
	// Intrinsics is the camera matrix for column vectors, in units of the picture's width and height, its centre being
	// (0.5, 0.5).
	Intrinsics [3][3]float64
	// Focal is the focal length relative to half the diagonal of the picture, and Shift what was added to the
	// network's z.
	FocalShift
}

// Degenerate reports that the camera means nothing: too few valid points to find one (Focal is 1 then, or the given
// one, and Shift 0), or a focal length that is not positive.
func (r *Result) Degenerate() bool { return r.Samples < 2 || !(r.Focal > 0) }

// Infer estimates the points and the camera of a picture (infer of moge/model/v1.py, in float32).
//
// Errors wrap ErrInput or ErrCamera, or are the context's.
func (m *Model) Infer(ctx context.Context, image Image, opt Options) (*Result, error) {
	numTokens, err := m.cfg.tokens(opt)
	if err != nil {
		return nil, err
	}
	if opt.FOVX != 0 && !(opt.FOVX > 0 && opt.FOVX < 180) {
		return nil, fmt.Errorf("%w: a field of view of %g degrees", ErrInput, opt.FOVX)
	}
	raw, err := m.Forward(ctx, image, numTokens)
	if err != nil {
		return nil, err
	}
	valid := make([]bool, len(raw.Mask))
	for i, value := range raw.Mask {
		valid[i] = value > m.cfg.MaskThreshold
	}
	var camera FocalShift
	if opt.FOVX == 0 {
		camera, err = RecoverFocalShift(raw.Points, raw.Height, raw.Width, valid)
	} else {
		focal := FocalFromFOV(opt.FOVX, float64(raw.Width)/float64(raw.Height))
		camera, err = RecoverShift(raw.Points, raw.Height, raw.Width, valid, focal)
	}
	if err != nil {
		return nil, err
	}
	if opt.ForceProjection && !(camera.Focal > 0) {
		return nil, fmt.Errorf("%w: focal length %g", ErrCamera, camera.Focal)
	}
	return newResult(raw.Height, raw.Width, raw.Points, valid, camera, opt), nil
}

// tokens returns the number of patches that the options ask for.
func (c Config) tokens(opt Options) (int, error) {
	if opt.NumTokens != 0 {
		return opt.NumTokens, nil // Forward checks it
	}
	level := 9.0
	if opt.ResolutionLevel != nil {
		level = float64(*opt.ResolutionLevel)
	}
	n := float64(c.MinTokens) + level/9*float64(c.MaxTokens-c.MinTokens)
	if n < 1 || n > maxNumTokens {
		return 0, fmt.Errorf("%w: resolution level %g asks for %.0f patches, not in 1 to %d", ErrInput, level, n, maxNumTokens)
	}
	return int(n), nil
}

// newResult shifts or projects points, which it changes in place, and hides those outside the mask.
func newResult(height, width int, points []float32, mask []bool, found FocalShift, opt Options) *Result {
	r := &Result{
		Height: height, Width: width, Points: points, Depth: make([]float32, height*width), Mask: mask, FocalShift: found,
	}
	camera := geom.IntrinsicsFromFocal(float64(found.Focal), float64(width)/float64(height))
	for i, row := range camera.Matrix() {
		r.Intrinsics[i] = row
	}
	imageio.ForRows(height, rowsPerTask, func(lo, hi int) {
		for i := lo * width; i < hi*width; i++ {
			p := points[3*i : 3*i+3]
			if !opt.KeepInvalid && !mask[i] {
				p[0], p[1], p[2], r.Depth[i] = inf, inf, inf, inf
				continue
			}
			p[2] += found.Shift
			r.Depth[i] = p[2]
			if opt.ForceProjection {
				u, v := (float64(i%width)+0.5)/float64(width), (float64(i/width)+0.5)/float64(height)
				seen := camera.Unproject(u, v, float64(p[2]))
				p[0], p[1] = float32(seen[0]), float32(seen[1])
			}
		}
	})
	return r
}

const rowsPerTask = 16

var inf = float32(math.Inf(1))
