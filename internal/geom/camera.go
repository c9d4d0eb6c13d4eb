// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package geom

import "math"

// Intrinsics are those of a pinhole camera, in units of the picture: FX and CX in widths, FY and CY in heights.
// A point (x, y, z) in front of the camera, x right, y down, z forward, is seen at u = FX*x/z + CX, v = FY*y/z + CY,
// with (0, 0) the top left and (1, 1) the bottom right corner.
type Intrinsics struct{ FX, FY, CX, CY float64 }

// IntrinsicsFromFocal returns the intrinsics, with a central principal point, of MoGe's focal length: relative to half
// the picture's diagonal. aspect is width/height.
func IntrinsicsFromFocal(focal, aspect float64) Intrinsics {
	diagonal := math.Sqrt(1 + aspect*aspect) // in heights
	return Intrinsics{FX: focal / 2 * diagonal / aspect, FY: focal / 2 * diagonal, CX: 0.5, CY: 0.5}
}

// IntrinsicsFromFOV returns the intrinsics, with a central principal point and square pixels, of a camera whose
// horizontal field of view is fovX radians. aspect is width/height.
func IntrinsicsFromFOV(fovX, aspect float64) Intrinsics {
	fx := 0.5 / math.Tan(fovX/2)
	return Intrinsics{FX: fx, FY: fx * aspect, CX: 0.5, CY: 0.5}
}

// FOVX returns the horizontal field of view in radians, for a central principal point.
func (k Intrinsics) FOVX() float64 { return 2 * math.Atan(0.5/k.FX) }

// FOVY returns the vertical field of view in radians, for a central principal point.
func (k Intrinsics) FOVY() float64 { return 2 * math.Atan(0.5/k.FY) }

// Focal is the inverse of IntrinsicsFromFocal: the focal length relative to half the diagonal.
func (k Intrinsics) Focal(aspect float64) float64 {
	return 2 * k.FX * aspect / math.Sqrt(1+aspect*aspect)
}

// Project returns where a point is seen: u, v in units of the picture.
func (k Intrinsics) Project(p Vec3) (u, v float64) {
	return k.FX*p[0]/p[2] + k.CX, k.FY*p[1]/p[2] + k.CY
}

// Unproject returns the point that is seen at (u, v) at depth z.
func (k Intrinsics) Unproject(u, v, z float64) Vec3 {
	return Vec3{(u - k.CX) / k.FX * z, (v - k.CY) / k.FY * z, z}
}

// Matrix returns the 3x3 camera matrix for column vectors.
func (k Intrinsics) Matrix() Mat3 { return Mat3{{k.FX, 0, k.CX}, {0, k.FY, k.CY}, {0, 0, 1}} }

// Pixels returns the intrinsics in pixels of a width x height picture, the centre of the first pixel being (0.5, 0.5).
func (k Intrinsics) Pixels(width, height int) Intrinsics {
	w, h := float64(width), float64(height)
	return Intrinsics{FX: k.FX * w, FY: k.FY * h, CX: k.CX * w, CY: k.CY * h}
}
