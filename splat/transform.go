// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package splat

import (
	"errors"
	"fmt"
	"math"

	"github.com/gomlx3d/image3d/internal/geom"
)

// Pose places an object in a scene: it maps the row vector p to p*Scale*R + Translation, R the matrix of the unit
// quaternion Rotation. Rotation has the fields W, X, Y and Z, and Translation is [3]float64. Poses come from a pipeline
// (sam3d.Pose.Transform) or from NewPose; the zero Pose is invalid.
type Pose = geom.Transform

// ErrPose is wrapped by the error about a pose that is not finite, has no rotation or a scale that is not positive.
var ErrPose = errors.New("splat: invalid pose")

// NewPose returns the pose of a quaternion w, x, y, z, a translation and a scale.
func NewPose(rotation [4]float64, translation [3]float64, scale float64) Pose {
	return Pose{Rotation: geom.QuatFromWXYZ(rotation), Translation: translation, Scale: scale}
}

// CheckPose returns an error that wraps ErrPose if no object can be placed by pose.
func CheckPose(pose Pose) error {
	norm := pose.Rotation.Norm()
	if !(norm > 1e-9 && norm < 1e9) {
		return fmt.Errorf("%w: rotation %v", ErrPose, pose.Rotation.WXYZ())
	}
	if !pose.Translation.Finite() {
		return fmt.Errorf("%w: translation %v", ErrPose, pose.Translation)
	}
	if !(pose.Scale > 0 && pose.Scale <= math.MaxFloat32) {
		return fmt.Errorf("%w: scale %v", ErrPose, pose.Scale)
	}
	return nil
}

// Transform moves the set by pose: centres as the pose says, rotations with them, scales and kernel by its scale.
// Colours and opacities stay. On an error nothing has changed.
func (g *Gaussians) Transform(pose Pose) error {
	if err := g.Validate(); err != nil {
		return err
	}
	if err := CheckPose(pose); err != nil {
		return err
	}
	shift := math.Log(pose.Scale)
	place(g, g, pose, func(l float64) float64 { return l + shift })
	g.Kernel *= pose.Scale
	return nil
}

// place writes src, moved by pose, to dst, which has the same length and may be src. Logarithms of scales go through
// logScale.
func place(dst, src *Gaussians, pose Pose, logScale func(float64) float64) {
	linear, rotation := pose.Linear(), pose.Rotation.Normalize().Conj()
	inParallel(src.Len(), func(start, end int) {
		for i := start; i < end; i++ {
			m := src.Means[3*i : 3*i+3]
			p := linear.RowMul(geom.Vec3{float64(m[0]), float64(m[1]), float64(m[2])}).Add(pose.Translation)
			// The pose turns row vectors and a splat's rotation columns: hence the conjugate.
			q := rotation.Mul(src.quat(i).Normalize()).WXYZ()
			for k := range p {
				dst.Means[3*i+k] = float32(p[k])
				dst.LogScales[3*i+k] = float32(logScale(float64(src.LogScales[3*i+k])))
			}
			for k := range q {
				dst.Rotations[4*i+k] = float32(q[k])
			}
		}
	})
}

// Object is one part of a scene: Gaussians in the object's own frame, and where they belong.
type Object struct {
	Gaussians *Gaussians
	Pose      Pose
}

// MakeScene returns the Gaussians of all objects, in their order, in the frame that their poses lead to (make_scene of
// SAM 3D Objects). The objects are only read.
//
// Scales follow the original. The kernel k of each object grows with its pose, no scale becomes smaller than 1.1*k, and
// the scene's kernel is the smallest of them, m. Since the original keeps the scales without their kernel, the scene's
// are sqrt(s^2 - k^2 + m^2): those of large objects shrink a little next to a small one.
func MakeScene(objects []Object) (*Gaussians, error) {
	if len(objects) == 0 {
		return nil, fmt.Errorf("%w: a scene of no objects", ErrInvalid)
	}
	total, kernel := 0, math.Inf(1)
	for i, o := range objects {
		if o.Gaussians == nil {
			return nil, fmt.Errorf("%w: object %d has none", ErrInvalid, i)
		}
		if err := errors.Join(o.Gaussians.Validate(), CheckPose(o.Pose)); err != nil {
			return nil, fmt.Errorf("splat: object %d: %w", i, err)
		}
		total += o.Gaussians.Len()
		kernel = min(kernel, o.Gaussians.Kernel*o.Pose.Scale)
	}
	scene := newGaussians(total)
	scene.Kernel = kernel
	start := 0
	for _, o := range objects {
		end := start + o.Gaussians.Len()
		part := scene.window(start, end)
		copy(part.SH, o.Gaussians.SH)
		copy(part.OpacityLogits, o.Gaussians.OpacityLogits)
		place(part, o.Gaussians, o.Pose, sceneScale(o.Pose.Scale, o.Gaussians.Kernel*o.Pose.Scale, kernel))
		start = end
	}
	return scene, nil
}

// PlaceInScene moves the set to where MakeScene has it in a scene with the given kernel, which is the smallest of
// Kernel*Scale of the scene's objects. So a scene can be made one object at a time. On an error nothing has changed.
func (g *Gaussians) PlaceInScene(pose Pose, kernel float64) error {
	if err := errors.Join(g.Validate(), CheckPose(pose)); err != nil {
		return err
	}
	own := g.Kernel * pose.Scale
	if !(kernel >= 0 && kernel <= own) {
		return fmt.Errorf("%w: a kernel of %v in a scene with %v", ErrInvalid, own, kernel)
	}
	place(g, g, pose, sceneScale(pose.Scale, own, kernel))
	g.Kernel = kernel
	return nil
}

// sceneScale returns the map of log scales of an object with the given scale and (scaled) kernel k to those in a scene
// with kernel m.
func sceneScale(scale, k, m float64) func(float64) float64 {
	return func(l float64) float64 {
		s := max(scale*math.Exp(l), 1.1*k)
		return math.Log(s*s-k*k+m*m) / 2
	}
}

// window returns the splats start to end; they share memory with g.
func (g *Gaussians) window(start, end int) *Gaussians {
	return &Gaussians{
		Means: g.Means[3*start : 3*end], SH: g.SH[3*start : 3*end], LogScales: g.LogScales[3*start : 3*end],
		Rotations: g.Rotations[4*start : 4*end], OpacityLogits: g.OpacityLogits[start:end], Kernel: g.Kernel,
	}
}
