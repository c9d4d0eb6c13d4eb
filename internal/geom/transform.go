// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package geom

// Transform is a similarity: it maps the row vector p to p*Scale*R + Translation, R the matrix of Rotation.
// An object's pose is one, from its unit cube to the camera's space. The zero Transform maps everything to NaN;
// use IdentityTransform.
type Transform struct {
	Rotation    Quat
	Translation Vec3
	Scale       float64
}

// IdentityTransform returns the transform that changes nothing.
func IdentityTransform() Transform { return Transform{Rotation: IdentityQuat(), Scale: 1} }

// Apply maps one point. To map many, take Linear once.
func (t Transform) Apply(p Vec3) Vec3 { return t.Linear().RowMul(p).Add(t.Translation) }

// Linear returns Scale*R, to be multiplied from the right to row vectors.
func (t Transform) Linear() Mat3 {
	m := t.Rotation.Matrix()
	return Mat3{m[0].Scale(t.Scale), m[1].Scale(t.Scale), m[2].Scale(t.Scale)}
}

// Then returns the transform that applies t first and then next.
func (t Transform) Then(next Transform) Transform {
	return Transform{
		Rotation:    t.Rotation.Mul(next.Rotation),
		Translation: next.Apply(t.Translation),
		Scale:       t.Scale * next.Scale,
	}
}

// Inverse returns the transform that undoes t. A scale of zero has none: the result holds infinities.
func (t Transform) Inverse() Transform {
	inv := Transform{Rotation: t.Rotation.Conj(), Scale: 1 / t.Scale}
	inv.Translation = inv.Linear().RowMul(t.Translation).Scale(-1)
	return inv
}

// ColumnRotation returns the rotation for column vectors, as glTF and Gaussian covariances use it: the conjugate.
func (t Transform) ColumnRotation() Quat { return t.Rotation.Conj() }

// Matrix4 returns the 4x4 matrix of t for column vectors, by columns (the layout of a glTF node's matrix).
// The same 16 numbers are the matrix for row vectors, by rows.
func (t Transform) Matrix4() [16]float64 {
	m, d := t.Linear(), t.Translation
	return [16]float64{
		m[0][0], m[0][1], m[0][2], 0,
		m[1][0], m[1][1], m[1][2], 0,
		m[2][0], m[2][1], m[2][2], 0,
		d[0], d[1], d[2], 1,
	}
}
