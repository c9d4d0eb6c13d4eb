// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package geom

import "math"

// Quat is the quaternion w + xi + yj + zk. The zero Quat is no rotation at all (it has no direction); use IdentityQuat.
type Quat struct{ W, X, Y, Z float64 }

// IdentityQuat returns the quaternion that turns nothing.
func IdentityQuat() Quat { return Quat{W: 1} }

// QuatFromWXYZ returns the quaternion of an array ordered w, x, y, z.
func QuatFromWXYZ(q [4]float64) Quat { return Quat{q[0], q[1], q[2], q[3]} }

// WXYZ returns the four parts in the order of this project.
func (q Quat) WXYZ() [4]float64 { return [4]float64{q.W, q.X, q.Y, q.Z} }

// XYZW returns the four parts in the order of glTF.
func (q Quat) XYZW() [4]float64 { return [4]float64{q.X, q.Y, q.Z, q.W} }

// Conj returns the conjugate, which is the inverse of a unit quaternion.
func (q Quat) Conj() Quat { return Quat{q.W, -q.X, -q.Y, -q.Z} }

// Norm returns the length of q.
func (q Quat) Norm() float64 { return math.Sqrt(q.W*q.W + q.X*q.X + q.Y*q.Y + q.Z*q.Z) }

// Normalize returns q/|q|. A quaternion shorter than 1e-12 is divided by 1e-12, so that zero stays zero.
func (q Quat) Normalize() Quat {
	n := max(q.Norm(), 1e-12)
	return Quat{q.W / n, q.X / n, q.Y / n, q.Z / n}
}

// Mul returns the Hamilton product q*p with its sign chosen so that w >= 0 (PyTorch3D, quaternion_multiply).
// As rotations, R(q*p) = R(q)*R(p).
func (q Quat) Mul(p Quat) Quat {
	return Quat{
		q.W*p.W - q.X*p.X - q.Y*p.Y - q.Z*p.Z,
		q.W*p.X + q.X*p.W + q.Y*p.Z - q.Z*p.Y,
		q.W*p.Y - q.X*p.Z + q.Y*p.W + q.Z*p.X,
		q.W*p.Z + q.X*p.Y - q.Y*p.X + q.Z*p.W,
	}.standard()
}

// standard returns whichever of q and -q, the same rotation, has w >= 0.
func (q Quat) standard() Quat {
	if q.W < 0 {
		return Quat{-q.W, -q.X, -q.Y, -q.Z}
	}
	return q
}

// Matrix returns the rotation matrix of q. The length of q does not matter (PyTorch3D, quaternion_to_matrix);
// a zero quaternion gives NaN.
func (q Quat) Matrix() Mat3 {
	f := 2 / (q.W*q.W + q.X*q.X + q.Y*q.Y + q.Z*q.Z)
	return Mat3{
		{1 - f*(q.Y*q.Y+q.Z*q.Z), f * (q.X*q.Y - q.Z*q.W), f * (q.X*q.Z + q.Y*q.W)},
		{f * (q.X*q.Y + q.Z*q.W), 1 - f*(q.X*q.X+q.Z*q.Z), f * (q.Y*q.Z - q.X*q.W)},
		{f * (q.X*q.Z - q.Y*q.W), f * (q.Y*q.Z + q.X*q.W), 1 - f*(q.X*q.X+q.Y*q.Y)},
	}
}

// QuatFromMatrix returns the quaternion of a rotation matrix, with w >= 0 (PyTorch3D, matrix_to_quaternion).
// It divides by the largest of the four parts, the first among equals. The result is not normalised, and a matrix
// that is no rotation is not refused; NaN entries give NaN parts.
func QuatFromMatrix(m Mat3) Quat {
	a := [4]float64{
		rootOfPositive(1 + m[0][0] + m[1][1] + m[2][2]),
		rootOfPositive(1 + m[0][0] - m[1][1] - m[2][2]),
		rootOfPositive(1 - m[0][0] + m[1][1] - m[2][2]),
		rootOfPositive(1 - m[0][0] - m[1][1] + m[2][2]),
	}
	best := 0
	for i := range a {
		if a[i] > a[best] {
			best = i
		}
	}
	// a[i] is twice the absolute part i, and each candidate is the quaternion times four times its part.
	var q Quat
	switch best {
	case 0:
		q = Quat{a[0] * a[0], m[2][1] - m[1][2], m[0][2] - m[2][0], m[1][0] - m[0][1]}
	case 1:
		q = Quat{m[2][1] - m[1][2], a[1] * a[1], m[1][0] + m[0][1], m[0][2] + m[2][0]}
	case 2:
		q = Quat{m[0][2] - m[2][0], m[1][0] + m[0][1], a[2] * a[2], m[1][2] + m[2][1]}
	case 3:
		q = Quat{m[1][0] - m[0][1], m[2][0] + m[0][2], m[2][1] + m[1][2], a[3] * a[3]}
	}
	d := 2 * max(a[best], 0.1)
	return Quat{q.W / d, q.X / d, q.Y / d, q.Z / d}.standard()
}

// rootOfPositive is the square root, and zero for negative values and NaN.
func rootOfPositive(x float64) float64 {
	if x > 0 {
		return math.Sqrt(x)
	}
	return 0
}
