// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package render draws Gaussians and meshes into pictures, on the processor and with all of its cores.
//
//	splats, err := render.NewSplats(result.Gaussians)
//	orbit := render.Orbit{Target: render.Fit(splats.Bounds()), Elevation: 20, FOV: 40}
//	frame, err := splats.Draw(ctx, orbit.Camera(0, 512, 512))
//	picture := frame.Over(image.White)
//
// Splats are drawn as 3D Gaussian splatting does: every splat becomes the Gaussian of its projection linearised at its
// centre (EWA), a low-pass filter of about a pixel is added to it, and splats are laid over each other from front to
// back. Meshes get a depth buffer with several samples a pixel and a light at the camera.
//
// A frame depends on the camera and on the set of splats or triangles alone: neither on the order of splats nor on the
// number of cores. Coordinates are those of the data; Orbit turns about their z axis, which is up in the object frame.
// InCameraFrame is the camera that took the photograph: it sees posed objects where they are in it.
//
// It is plain Go and builds without an inference backend.
package render

import (
	"errors"
	"fmt"
	"math"

	"github.com/gomlx3d/image3d/internal/geom"
)

// ErrCamera is wrapped by errors about cameras that cannot make a picture.
var ErrCamera = errors.New("render: invalid camera")

// MaxSize is the largest width and height of a picture.
const MaxSize = 8192

// Camera is a pinhole camera. It sees the point p at
//
//	x = FX*Right·(p-Eye)/z + CX,  y = FY*Down·(p-Eye)/z + CY,  z = Forward·(p-Eye)
//
// in pixels: x grows to the right, y downwards, and the centre of the first pixel is (0.5, 0.5).
type Camera struct {
	Width, Height int // 1 to MaxSize

	Eye                  [3]float64
	Right, Down, Forward [3]float64 // orthogonal, of length 1; either handedness

	FX, FY, CX, CY float64
	Near           float64 // nothing nearer is drawn (as a z, not a distance); above 0
}

// InCameraFrame returns the camera at the origin of the camera frame, which is +X left, +Y up, +Z forward. fov is the
// angle from the left to the right edge, in degrees. Near is a hundredth.
func InCameraFrame(fov float64, width, height int) Camera {
	c := Camera{
		Width: width, Height: height,
		Right: [3]float64{-1, 0, 0}, Down: [3]float64{0, -1, 0}, Forward: [3]float64{0, 0, 1},
		Near: 0.01,
	}
	k := geom.IntrinsicsFromFOV(fov*math.Pi/180, float64(width)/float64(height)).Pixels(width, height)
	c.FX, c.FY, c.CX, c.CY = k.FX, k.FY, k.CX, k.CY
	return c
}

// LookAt returns a camera at eye with target in the middle of its picture. fov is the angle, in degrees, that the
// shorter side of the picture spans. A direction of up along the line of sight is replaced by another. Near is a
// hundredth of the distance. Where there is no line of sight the camera is invalid.
func LookAt(eye, target, up [3]float64, fov float64, width, height int) Camera {
	sight := geom.Vec3(target).Sub(eye)
	forward := sight.Normalize()
	right := forward.Cross(geom.Vec3(up).Normalize())
	if right.Norm() < 1e-6 {
		right = forward.Cross(geom.Vec3{0, 1, 0})
		if right.Norm() < 1e-6 {
			right = forward.Cross(geom.Vec3{1, 0, 0})
		}
	}
	right = right.Normalize()
	focal := float64(min(width, height)) / 2 / math.Tan(fov*math.Pi/360)
	return Camera{
		Width: width, Height: height,
		Eye: eye, Right: right, Down: forward.Cross(right), Forward: forward,
		FX: focal, FY: focal, CX: float64(width) / 2, CY: float64(height) / 2,
		Near: sight.Norm() / 100,
	}
}

// Validate returns an error that wraps ErrCamera for a size out of range, numbers that are not finite, axes that are
// not orthonormal, and a focal length or Near that is not positive.
func (c Camera) Validate() error {
	if c.Width < 1 || c.Height < 1 || c.Width > MaxSize || c.Height > MaxSize {
		return fmt.Errorf("%w: a picture of %dx%d, want 1 to %d each", ErrCamera, c.Width, c.Height, MaxSize)
	}
	if !geom.Vec3(c.Eye).Finite() {
		return fmt.Errorf("%w: it is at %v", ErrCamera, c.Eye)
	}
	axes := [3]geom.Vec3{c.Right, c.Down, c.Forward}
	for i, a := range axes {
		if next := axes[(i+1)%3]; !(math.Abs(a.Norm()-1) < 1e-6 && math.Abs(a.Dot(next)) < 1e-6) {
			return fmt.Errorf("%w: axes %v, %v, %v are not orthonormal", ErrCamera, c.Right, c.Down, c.Forward)
		}
	}
	if !(c.FX > 0 && c.FX < 1e9 && c.FY > 0 && c.FY < 1e9 && math.Abs(c.CX) < 1e9 && math.Abs(c.CY) < 1e9) {
		return fmt.Errorf("%w: focal lengths %v, %v and centre %v, %v", ErrCamera, c.FX, c.FY, c.CX, c.CY)
	}
	if !(c.Near > 0 && c.Near <= math.MaxFloat32) {
		return fmt.Errorf("%w: nearest depth %v", ErrCamera, c.Near)
	}
	return nil
}

// view returns p in the camera's axes: right, down, forward.
func (c *Camera) view(p [3]float32) (x, y, z float64) {
	px, py, pz := float64(p[0])-c.Eye[0], float64(p[1])-c.Eye[1], float64(p[2])-c.Eye[2]
	return c.Right[0]*px + c.Right[1]*py + c.Right[2]*pz,
		c.Down[0]*px + c.Down[1]*py + c.Down[2]*pz,
		c.Forward[0]*px + c.Forward[1]*py + c.Forward[2]*pz
}

// Sphere is what a picture should hold.
type Sphere struct {
	Center [3]float64
	Radius float64
}

// Fit returns the sphere around a box. An empty, inverted or endless box gives the sphere of the unit cube.
func Fit(lo, hi [3]float32) Sphere {
	a, b := geom.Vec3{float64(lo[0]), float64(lo[1]), float64(lo[2])}, geom.Vec3{float64(hi[0]), float64(hi[1]), float64(hi[2])}
	diagonal := b.Sub(a)
	if !diagonal.Finite() || diagonal[0] < 0 || diagonal[1] < 0 || diagonal[2] < 0 || diagonal.Norm() == 0 {
		return Sphere{Radius: math.Sqrt(3) / 2}
	}
	return Sphere{Center: a.Add(b).Scale(0.5), Radius: diagonal.Norm() / 2}
}

// Orbit is a turn of the camera around an object whose up is +z. Angles are in degrees.
type Orbit struct {
	Target    Sphere
	Elevation float64 // of the camera above the horizon of Target.Center
	FOV       float64 // what the shorter side of the picture spans; 0 means 40
	Distance  float64 // from Target.Center; 0 means as near as Target stays inside the picture
}

// Camera returns the camera at an azimuth. At 0 it stands at -y, sees +x on its right, and is where glTF's viewers
// stand; at 90 it stands at +x. Growing angles move it counter-clockwise seen from above, so that the object turns
// clockwise.
func (o Orbit) Camera(azimuth float64, width, height int) Camera {
	fov := o.FOV
	if fov == 0 {
		fov = 40
	}
	distance := o.Distance
	if distance == 0 {
		distance = o.Target.Radius / math.Sin(fov*math.Pi/360)
	}
	sinA, cosA := math.Sincos(azimuth * math.Pi / 180)
	sinE, cosE := math.Sincos(o.Elevation * math.Pi / 180)
	from := geom.Vec3{sinA * cosE, -cosA * cosE, sinE}.Scale(distance)
	// The direction of growing elevation is up in the picture, also straight above the object.
	up := geom.Vec3{-sinA * sinE, cosA * sinE, cosE}
	return LookAt(from.Add(o.Target.Center), o.Target.Center, up, fov, width, height)
}
