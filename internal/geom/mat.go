// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package geom

// Mat3 is a 3x3 matrix by rows: m[row][column].
type Mat3 [3]Vec3

// Identity3 returns the identity matrix.
func Identity3() Mat3 { return Mat3{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}} }

// Diag returns the matrix with v on its diagonal.
func Diag(v Vec3) Mat3 { return Mat3{{v[0], 0, 0}, {0, v[1], 0}, {0, 0, v[2]}} }

// Transpose returns the transposed matrix.
func (m Mat3) Transpose() Mat3 {
	return Mat3{{m[0][0], m[1][0], m[2][0]}, {m[0][1], m[1][1], m[2][1]}, {m[0][2], m[1][2], m[2][2]}}
}

// Mul returns the matrix product m*n.
func (m Mat3) Mul(n Mat3) Mat3 { return Mat3{n.RowMul(m[0]), n.RowMul(m[1]), n.RowMul(m[2])} }

// MulVec returns m*v, v a column.
func (m Mat3) MulVec(v Vec3) Vec3 { return Vec3{m[0].Dot(v), m[1].Dot(v), m[2].Dot(v)} }

// RowMul returns v*m, v a row: the convention of poses.
func (m Mat3) RowMul(v Vec3) Vec3 {
	return Vec3{
		v[0]*m[0][0] + v[1]*m[1][0] + v[2]*m[2][0],
		v[0]*m[0][1] + v[1]*m[1][1] + v[2]*m[2][1],
		v[0]*m[0][2] + v[1]*m[1][2] + v[2]*m[2][2],
	}
}

// Det returns the determinant: 1 for a rotation.
func (m Mat3) Det() float64 { return m[0].Dot(m[1].Cross(m[2])) }
