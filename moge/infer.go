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
	// NumTokens is the number of patches, if it is not 0. ResolutionLevel does not count then. Each patch is 14x14
	// working pixels, whatever the size of the picture.
	NumTokens int
	// RefineRounds is how often MoGe-3 corrects the depth; 0 is the released number, 3, and below 0 is never. The other
	// versions have no refiner: they refuse a number above 0.
	RefineRounds int
	// FOVX is the horizontal field of view in degrees, above 0 and below 180; 0 is unknown.
	FOVX float64
	// ForceProjection moves the points, each at its depth, to where the camera sees their pixels (the default of the
	// original, though not of SAM 3D Objects).
	ForceProjection bool
	// KeepInvalid leaves the points outside the mask as they are (apply_mask=False of the original).
	KeepInvalid bool
}

// Result is the geometry of a picture. Axes: x right, y down, z forward. The unit of length is the metre if MetricScale
// is not 0, else unknown.
type Result struct {
	Height, Width int
	Points        []float32 // [Height, Width, 3]; +Inf outside the mask
	Depth         []float32 // [Height, Width], z of the points; +Inf outside the mask
	Mask          []bool    // [Height, Width], whether a point is valid; nil if the network has no mask
	Normals       []float32 // [Height, Width, 3], of length 1, 0 outside the mask; nil if the network has none
	// MetricScale is what the network's points were multiplied with to be in metres; 0: it does not know.
	MetricScale float32
	// Intrinsics is the camera matrix for column vectors, in units of the picture's width and height, its centre being
	// (0.5, 0.5).
	Intrinsics [3][3]float64
	// Focal is the focal length relative to half the diagonal of the picture, and Shift what was added to the
	// network's z, before MetricScale.
	FocalShift
}

// Degenerate reports that the camera means nothing: too few valid points to find one (Focal is 1 then, or the given
// one, and Shift 0), or a focal length that is not positive.
func (r *Result) Degenerate() bool { return r.Samples < 2 || !(r.Focal > 0) }

// Infer estimates the points and the camera of a picture (infer of moge/model/v1.py and v2.py and of
// mlx_vlm/models/moge3, in float32).
//
// Errors wrap ErrInput or ErrCamera, or are the context's.
func (m *Model) Infer(ctx context.Context, image Image, opt Options) (*Result, error) {
	if opt.FOVX != 0 && !(opt.FOVX > 0 && opt.FOVX < 180) {
		return nil, fmt.Errorf("%w: a field of view of %g degrees", ErrInput, opt.FOVX)
	}
	raw, err := m.Forward(ctx, image, opt)
	if err != nil {
		return nil, err
	}
	valid := raw.valid(m.cfg.MaskThreshold)
	focal := float32(0)
	if opt.FOVX != 0 {
		focal = FocalFromFOV(opt.FOVX, float64(raw.Width)/float64(raw.Height))
	}
	solve := (*fit).minimise
	if m.cfg.Version == 3 {
		solve = (*fit).descend
	}
	camera, err := recoverCamera(raw.Points, raw.Height, raw.Width, valid, focal, solve)
	if err != nil {
		return nil, err
	}
	if opt.ForceProjection && !(camera.Focal > 0) {
		return nil, fmt.Errorf("%w: focal length %g", ErrCamera, camera.Focal)
	}
	return newResult(raw, valid, camera, m.cfg.Version, opt), nil
}

// valid cuts the mask at a threshold.
func (r *Raw) valid(threshold float32) []bool {
	if r.Mask == nil {
		return nil
	}
	valid := make([]bool, len(r.Mask))
	for i, value := range r.Mask {
		valid[i] = value > threshold
	}
	return valid
}

// tokens returns the number of patches that the options ask for.
func (c Config) tokens(opt Options) (int, error) {
	n := float64(opt.NumTokens)
	if opt.NumTokens == 0 {
		level := 9.0
		if opt.ResolutionLevel != nil {
			level = float64(*opt.ResolutionLevel)
		}
		n = float64(c.MinTokens) + level/9*float64(c.MaxTokens-c.MinTokens)
	}
	if n < 1 || n > maxNumTokens {
		return 0, fmt.Errorf("%w: %.0f patches, not in 1 to %d", ErrInput, n, maxNumTokens)
	}
	return int(n), nil
}

// newResult shifts or projects the points and brings them to metres, in place, and hides those outside the mask. The
// later versions also take points that are not in front of the camera out of the mask.
func newResult(raw *Raw, mask []bool, found FocalShift, version int, opt Options) *Result {
	height, width := raw.Height, raw.Width
	r := &Result{
		Height: height, Width: width, Points: raw.Points, Depth: make([]float32, height*width), Mask: mask,
		Normals: raw.Normals, MetricScale: raw.MetricScale, FocalShift: found,
	}
	camera := geom.IntrinsicsFromFocal(float64(found.Focal), float64(width)/float64(height))
	for i, row := range camera.Matrix() {
		r.Intrinsics[i] = row
	}
	scale := raw.MetricScale
	if scale == 0 {
		scale = 1
	}
	imageio.ForRows(height, rowsPerTask, func(lo, hi int) {
		for i := lo * width; i < hi*width; i++ {
			p := r.Points[3*i : 3*i+3]
			p[2] += found.Shift
			if mask != nil && version > 1 {
				mask[i] = mask[i] && p[2]*scale > 0
			}
			if mask != nil && !mask[i] && !opt.KeepInvalid {
				r.hide(i)
				continue
			}
			if opt.ForceProjection {
				u, v := (float64(i%width)+0.5)/float64(width), (float64(i/width)+0.5)/float64(height)
				seen := camera.Unproject(u, v, float64(p[2]))
				p[0], p[1] = float32(seen[0]), float32(seen[1])
			}
			p[0], p[1], p[2] = scale*p[0], scale*p[1], scale*p[2]
			r.Depth[i] = p[2]
		}
	})
	return r
}

// hide marks a pixel as invalid.
func (r *Result) hide(i int) {
	p := r.Points[3*i : 3*i+3]
	p[0], p[1], p[2], r.Depth[i] = inf, inf, inf, inf
	if r.Normals != nil {
		clear(r.Normals[3*i : 3*i+3])
	}
}

const rowsPerTask = 16

var inf = float32(math.Inf(1))
