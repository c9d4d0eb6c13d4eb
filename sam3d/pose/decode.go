// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package pose

import (
	"fmt"
	"math"

	"github.com/gomlx3d/image3d/internal/geom"
)

// Convention is a meaning of the translation and scale latents. The names are those of the original's registry.
type Convention string

// The conventions. The released model uses ScaleShiftInvariant, the others are of older training runs.
const (
	// ScaleShiftInvariant gives translation and scale in the units of the normalised point map.
	ScaleShiftInvariant Convention = "ScaleShiftInvariant"
	// ZeroPrediction ignores the latents but for the rotation: the object stands at the scene's shift.
	ZeroPrediction Convention = "ZeroPredictionScaleShiftInvariant"
	// ApparentSize gives the translation as a direction and translation and scale relative to the distance.
	ApparentSize Convention = "ApparentSize"
	// DisparitySpace gives the translation as an offset on the image plane and the logarithm of a depth.
	DisparitySpace Convention = "DisparitySpace"
)

// zeroPredictionScale is the logarithm of the size that ZeroPrediction gives every object.
const zeroPredictionScale = 1.337

// Mean and standard deviation of the six rotation values over the training data, with which they are standardised.
var (
	rotationMean = [6]float64{-0.06366084883674913, 0.008438224692279752, 0.00017084786438302483,
		0.0007126610473540038, -0.0030916726538816417, 0.5166093753457688}
	rotationStd = [6]float64{0.6656971967514863, 0.6787012271867754, 0.30345010594844524,
		0.4394504420678794, 0.39817973931717104, 0.6176286868761914}
)

// Decode returns the pose that the released model means by its latents.
// The error wraps ErrNotFinite: a scene of scale zero has no pose.
func Decode(l Latents, scene Scene) (Pose, error) { return ScaleShiftInvariant.Decode(l, scene) }

// Decode returns the pose that latents mean under a convention. The error wraps ErrNotFinite or ErrConvention.
func (c Convention) Decode(l Latents, scene Scene) (Pose, error) {
	translation, scale := geom.Vec3(l.Translation), exp(l.Scale)
	distance := math.Exp(l.TranslationScale)
	sceneScale, shift := geom.Vec3(scene.Scale), geom.Vec3(scene.Shift)

	p := placement{rotation: rotationOf(l.Rotation), scale: scale, translation: translation}
	switch c {
	case ScaleShiftInvariant:
		p = p.through(sceneScale, shift)
	case ZeroPrediction:
		p.translation = geom.Vec3{}
		p.scale = exp([3]float64{zeroPredictionScale, zeroPredictionScale, zeroPredictionScale})
		p = p.through(sceneScale, shift)
	case ApparentSize:
		p.scale = scale.Mul(sceneScale).Scale(distance)
		p.translation = translation.Mul(sceneScale).Scale(distance)
	case DisparitySpace:
		depth := distance * math.Exp(shift[2])
		p.scale = scale.Mul(sceneScale).Scale(depth)
		p.translation = geom.Vec3{translation[0] + shift[0], translation[1] + shift[1], 1}.Mul(sceneScale).Scale(depth)
	default:
		return Pose{}, fmt.Errorf("%w: %q", ErrConvention, string(c))
	}
	pose := Pose{
		Rotation:    p.rotation.WXYZ(),
		Translation: p.translation,
		Scale:       (p.scale[0] + p.scale[1] + p.scale[2]) / 3,
	}
	if !pose.finite() {
		return Pose{}, fmt.Errorf("%w: %+v in the scene %+v gives %+v", ErrNotFinite, l, scene, pose)
	}
	return pose, nil
}

// rotationOf decodes the continuous representation of a rotation by six numbers (Zhou et al. 2019): two vectors that
// become the first two columns of its matrix after they were made orthonormal.
func rotationOf(standardised [6]float64) geom.Quat {
	var r [6]float64
	for i, v := range standardised {
		r[i] = v*rotationStd[i] + rotationMean[i]
	}
	first := geom.Vec3(r[:3]).Normalize()
	second := geom.Vec3(r[3:])
	second = second.Sub(first.Scale(first.Dot(second))).Normalize()
	columns := geom.Mat3{first, second, first.Cross(second)}
	return geom.QuatFromMatrix(columns.Transpose())
}

// placement is a pose with one scale for each axis of the object.
type placement struct {
	rotation           geom.Quat
	scale, translation geom.Vec3
}

// through takes a placement from the scene's units to the camera frame, a point x of the scene being at x*scale + shift.
// If scale differs between the axes, the result keeps the lengths of the object's axes and loses their skew.
func (p placement) through(scale, shift geom.Vec3) placement {
	axes := p.rotation.Matrix() // the rows are the object's axes
	for i := range axes {
		axes[i] = axes[i].Scale(p.scale[i]).Mul(scale)
		p.scale[i] = axes[i].Norm()
		axes[i] = axes[i].Scale(1 / p.scale[i])
	}
	p.rotation = geom.QuatFromMatrix(axes)
	p.translation = p.translation.Mul(scale).Add(shift)
	return p
}

func exp(v [3]float64) geom.Vec3 { return geom.Vec3{math.Exp(v[0]), math.Exp(v[1]), math.Exp(v[2])} }
