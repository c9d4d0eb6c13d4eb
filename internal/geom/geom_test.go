// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package geom

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func randomQuat(rng *rand.Rand) Quat {
	return Quat{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()}.Normalize().standard()
}

func randomVec(rng *rand.Rand) Vec3 {
	return Vec3{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()}
}

func requireVec(t *testing.T, want, got Vec3, eps float64) {
	t.Helper()
	require.InDeltaSlice(t, want[:], got[:], eps)
}

func requireMat(t *testing.T, want, got Mat3, eps float64) {
	t.Helper()
	for i := range want {
		requireVec(t, want[i], got[i], eps)
	}
}

func TestQuatMatrixRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		q := randomQuat(rng)
		m := q.Matrix()
		requireMat(t, Identity3(), m.Mul(m.Transpose()), 1e-12)
		require.InDelta(t, 1, m.Det(), 1e-12)
		got, want := QuatFromMatrix(m).WXYZ(), q.WXYZ()
		require.InDeltaSlice(t, want[:], got[:], 1e-12)
	}
}

// Each of the four branches, and half turns where w is zero.
func TestQuatFromMatrixBranches(t *testing.T) {
	h := math.Sqrt(0.5)
	for _, q := range []Quat{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}, {0, h, h, 0}, {h, 0, 0, -h}} {
		got := QuatFromMatrix(q.Matrix())
		requireMat(t, q.Matrix(), got.Matrix(), 1e-12)
		require.GreaterOrEqual(t, got.W, 0.0)
	}
}

func TestQuatFromDegenerateMatrix(t *testing.T) {
	nan := math.NaN()
	q := QuatFromMatrix(Mat3{{nan, nan, nan}, {nan, nan, nan}, {nan, nan, nan}})
	require.Zero(t, q.W)
	require.True(t, math.IsNaN(q.X) && math.IsNaN(q.Y) && math.IsNaN(q.Z))
	require.Equal(t, Quat{W: 0.5}, QuatFromMatrix(Mat3{}), "no rotation, not refused")
	require.True(t, math.IsNaN(Quat{}.Matrix()[0][1]))
}

func TestQuatMul(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		a, b := randomQuat(rng), randomQuat(rng)
		c := a.Mul(b)
		require.GreaterOrEqual(t, c.W, 0.0)
		requireMat(t, a.Matrix().Mul(b.Matrix()), c.Matrix(), 1e-12)
		requireMat(t, a.Matrix().Transpose(), a.Conj().Matrix(), 1e-12)
		long := Quat{3 * a.W, 3 * a.X, 3 * a.Y, 3 * a.Z}
		requireMat(t, a.Matrix(), long.Matrix(), 1e-12)
	}
	require.Equal(t, [4]float64{2, 3, 4, 1}, QuatFromWXYZ([4]float64{1, 2, 3, 4}).XYZW())
}

func TestTransform(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	random := func() Transform {
		return Transform{Rotation: randomQuat(rng), Translation: randomVec(rng), Scale: 0.1 + rng.Float64()}
	}
	for range 200 {
		a, b, p, q := random(), random(), randomVec(rng), randomVec(rng)
		requireVec(t, b.Apply(a.Apply(p)), a.Then(b).Apply(p), 1e-12)
		requireVec(t, p, a.Inverse().Apply(a.Apply(p)), 1e-12)
		require.InDelta(t, a.Scale*p.Sub(q).Norm(), a.Apply(p).Sub(a.Apply(q)).Norm(), 1e-12)

		m := a.Matrix4() // columns of the matrix for column vectors
		var column Vec3
		for i := range column {
			column[i] = m[i]*p[0] + m[4+i]*p[1] + m[8+i]*p[2] + m[12+i]
		}
		requireVec(t, a.Apply(p), column, 1e-12)
		requireVec(t, a.Apply(p), a.ColumnRotation().Matrix().MulVec(p.Scale(a.Scale)).Add(a.Translation), 1e-12)
	}
	requireVec(t, Vec3{1, 2, 3}, IdentityTransform().Apply(Vec3{1, 2, 3}), 0)
}

// A quarter turn about z turns a row vector from x to -y: the convention that is easily got wrong.
func TestTransformRowConvention(t *testing.T) {
	h := math.Sqrt(0.5)
	quarter := Transform{Rotation: Quat{W: h, Z: h}, Scale: 2}
	requireVec(t, Vec3{0, -2, 0}, quarter.Apply(Vec3{1, 0, 0}), 1e-12)
}

func TestVec(t *testing.T) {
	requireVec(t, Vec3{0, 0, 1}, Vec3{1, 0, 0}.Cross(Vec3{0, 1, 0}), 0)
	requireVec(t, Vec3{}, Vec3{}.Normalize(), 0)
	requireVec(t, Vec3{0, 6, 14}, Vec3{0, 2, 2}.Mul(Vec3{1, 3, 7}), 0)
	requireMat(t, Mat3{{2, 0, 0}, {0, 3, 0}, {0, 0, 4}}, Diag(Vec3{2, 3, 4}), 0)
	require.True(t, Vec3{1, 2, 3}.Finite())
	require.False(t, Vec3{1, math.Inf(-1), 3}.Finite())
	require.False(t, Vec3{1, 2, math.NaN()}.Finite())
}

func TestIntrinsics(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 100 {
		focal, aspect := 0.2+3*rng.Float64(), 0.3+2*rng.Float64()
		k := IntrinsicsFromFocal(focal, aspect)
		require.InDelta(t, focal, k.Focal(aspect), 1e-12)
		fov := IntrinsicsFromFOV(k.FOVX(), aspect)
		require.InDelta(t, k.FX, fov.FX, 1e-12)
		require.InDelta(t, k.FY, fov.FY, 1e-12)
		require.InDelta(t, 2*math.Atan(0.5/k.FY), k.FOVY(), 1e-12)

		p := k.Unproject(rng.Float64(), rng.Float64(), 1+rng.Float64())
		u, v := k.Project(p)
		requireVec(t, p, k.Unproject(u, v, p[2]), 1e-12)
		pixel := k.Pixels(640, 480)
		requireVec(t, k.Matrix().MulVec(p), Vec3{u * p[2], v * p[2], p[2]}, 1e-12)
		requireVec(t, Vec3{640 * u, 480 * v, 1}, pixel.Matrix().MulVec(p.Scale(1/p[2])), 1e-9)
	}
}
