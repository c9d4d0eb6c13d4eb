// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package geom is the host mathematics of rotations, poses and cameras, in float64.
//
// Vectors that belong to a pose are rows: a point p is mapped by p*s*R + t. R is the ordinary matrix of a quaternion,
// the one that would rotate a column vector as R*p; a row vector is therefore turned the other way round. Quaternions
// are ordered w, x, y, z. Nothing here panics: degenerate values give NaN or Inf, as float arithmetic does.
package geom

import "math"

// Vec3 is a point or a direction (x, y, z).
type Vec3 [3]float64

// Add returns v + u.
func (v Vec3) Add(u Vec3) Vec3 { return Vec3{v[0] + u[0], v[1] + u[1], v[2] + u[2]} }

// Sub returns v - u.
func (v Vec3) Sub(u Vec3) Vec3 { return Vec3{v[0] - u[0], v[1] - u[1], v[2] - u[2]} }

// Scale returns f*v.
func (v Vec3) Scale(f float64) Vec3 { return Vec3{f * v[0], f * v[1], f * v[2]} }

// Mul returns the product of v and u, coordinate by coordinate.
func (v Vec3) Mul(u Vec3) Vec3 { return Vec3{v[0] * u[0], v[1] * u[1], v[2] * u[2]} }

// Dot returns the scalar product of v and u.
func (v Vec3) Dot(u Vec3) float64 { return v[0]*u[0] + v[1]*u[1] + v[2]*u[2] }

// Cross returns the vector product of v and u.
func (v Vec3) Cross(u Vec3) Vec3 {
	return Vec3{v[1]*u[2] - v[2]*u[1], v[2]*u[0] - v[0]*u[2], v[0]*u[1] - v[1]*u[0]}
}

// Norm returns the Euclidean length of v.
func (v Vec3) Norm() float64 { return math.Sqrt(v.Dot(v)) }

// Normalize returns v/|v|. A vector shorter than 1e-12 is divided by 1e-12, so that zero stays zero.
func (v Vec3) Normalize() Vec3 {
	n := max(v.Norm(), 1e-12)
	return Vec3{v[0] / n, v[1] / n, v[2] / n}
}

// Finite reports whether no coordinate is NaN or infinite.
func (v Vec3) Finite() bool {
	// x-x is zero for finite values and NaN for all others.
	return v[0]-v[0] == 0 && v[1]-v[1] == 0 && v[2]-v[2] == 0
}
