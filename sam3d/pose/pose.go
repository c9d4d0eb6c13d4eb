// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package pose decodes the pose latents of the structure flow into where an object stands in the camera frame
// (SAM 3D Objects, pose_target.py and transforms_3d.py). It is plain Go.
package pose

import (
	"errors"
	"fmt"

	"github.com/gomlx3d/image3d/internal/geom"
)

// Errors that callers tell apart with errors.Is.
var (
	// ErrNotFinite says that latents, or the pose they give, hold NaN or an infinity.
	ErrNotFinite = errors.New("pose: not finite")
	// ErrLatents says that latents do not have the size of one object.
	ErrLatents = errors.New("pose: bad latents")
	// ErrConvention says that a convention is unknown.
	ErrConvention = errors.New("pose: unknown convention")
)

// Pose places an object in the camera frame: a point p of the object's unit cube, as a row vector, goes to
// p*Scale*R + Translation, R the ordinary matrix of Rotation. For column vectors the rotation is the inverse of R.
type Pose struct {
	Rotation    [4]float64 // w, x, y, z, of length 1 and with w >= 0
	Translation [3]float64 // in the unit of the point map
	Scale       float64    // side of the object's cube, in the unit of the point map
}

// Transform returns the pose as a transform.
func (p Pose) Transform() geom.Transform {
	return geom.Transform{Rotation: geom.QuatFromWXYZ(p.Rotation), Translation: p.Translation, Scale: p.Scale}
}

// Apply returns a point of the object's cube in the camera frame.
func (p Pose) Apply(point [3]float64) [3]float64 { return p.Transform().Apply(point) }

// Downsampled returns the pose of an object whose voxels were made coarser by a factor (1 or 2), and which therefore
// fills that much less of its cube: the scale grows, nothing else changes.
func (p Pose) Downsampled(factor int) Pose {
	p.Scale *= float64(factor)
	return p
}

// finite reports whether no number of the pose is NaN or infinite.
func (p Pose) finite() bool {
	q := p.Rotation
	return geom.Vec3(p.Translation).Finite() && geom.Vec3{q[1], q[2], q[3]}.Finite() && geom.Vec3{q[0], p.Scale}.Finite()
}

// Latents are the final latents of one object, as the structure flow leaves them.
type Latents struct {
	Rotation         [6]float64 // two columns of the rotation matrix, standardised (6drotation_normalized)
	Translation      [3]float64 // in units of the scene
	Scale            [3]float64 // logarithms
	TranslationScale float64    // a logarithm
}

// NewLatents takes the four outputs of the flow: rotation [1, 1, 6], translation and scale [1, 1, 3] and
// translationScale [1, 1, 1]. The error wraps ErrLatents.
func NewLatents(rotation, translation, scale, translationScale []float32) (Latents, error) {
	var l Latents
	for _, part := range []struct {
		name string
		from []float32
		to   []float64
	}{
		{"rotation", rotation, l.Rotation[:]},
		{"translation", translation, l.Translation[:]},
		{"scale", scale, l.Scale[:]},
		{"translation scale", translationScale, make([]float64, 1)},
	} {
		if len(part.from) != len(part.to) {
			return Latents{}, fmt.Errorf("%w: %s has %d values, one object has %d",
				ErrLatents, part.name, len(part.from), len(part.to))
		}
		for i, v := range part.from {
			part.to[i] = float64(v)
		}
	}
	l.TranslationScale = float64(translationScale[0])
	return l, nil
}

// Scene is how the point map was normalised: a point p of the camera frame is (p - Shift)/Scale in the scene's units.
type Scene struct{ Scale, Shift [3]float64 }

// NoScene returns the scene of a run without a point map, whose units are the camera's.
func NoScene() Scene { return Scene{Scale: [3]float64{1, 1, 1}} }
