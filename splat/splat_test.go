// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package splat

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/geom"
)

var (
	inf = float32(math.Inf(1))
	nan = float32(math.NaN())
)

// random returns n decoded splats.
func random(t testing.TB, n int, seed uint64) *Gaussians {
	t.Helper()
	g, err := DefaultActivation().Decode(randomRaw(n, seed))
	require.NoError(t, err)
	return g
}

func randomRaw(n int, seed uint64) Raw {
	rng := rand.New(rand.NewPCG(seed, 1))
	normal := func(n int, factor float64) []float32 {
		out := make([]float32, n)
		for i := range out {
			out[i] = float32(factor * rng.NormFloat64())
		}
		return out
	}
	return Raw{
		XYZ: normal(3*n, 0.3), SH: normal(3*n, 1), Scaling: normal(3*n, 2),
		Rotation: normal(4*n, 1), Opacity: normal(n, 4),
	}
}

func randomPose(rng *rand.Rand) Pose {
	return NewPose([4]float64{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()},
		[3]float64{rng.NormFloat64(), rng.NormFloat64(), 2 + rng.Float64()}, math.Exp(rng.NormFloat64()))
}

func mean(g *Gaussians, i int) geom.Vec3 {
	m := g.Means[3*i:]
	return geom.Vec3{float64(m[0]), float64(m[1]), float64(m[2])}
}

func covariance(g *Gaussians, i int) geom.Mat3 {
	c := g.Covariance(i)
	return geom.Mat3{{c[0], c[1], c[2]}, {c[1], c[3], c[4]}, {c[2], c[4], c[5]}}
}

func TestActivationsAgree(t *testing.T) {
	g := random(t, 3*grain, 1)
	scales, opacities, rotations := g.Scales(), g.Opacities(), g.UnitRotations()
	for i := range g.Len() {
		s, q := g.Scale(i), g.Rotation(i)
		require.Equal(t, s[:], scales[3*i:3*i+3])
		require.Equal(t, q[:], rotations[4*i:4*i+4])
		require.Equal(t, g.Opacity(i), opacities[i])
		require.InDelta(t, 1, geom.QuatFromWXYZ([4]float64{float64(q[0]), float64(q[1]), float64(q[2]), float64(q[3])}).Norm(), 1e-6)
		for _, x := range s {
			require.GreaterOrEqual(t, x, float32(0.0009*(1-1e-6)), "the kernel is the floor")
		}
	}
}

func TestColor(t *testing.T) {
	g := &Gaussians{SH: []float32{0, 1, -9}}
	require.InDeltaSlice(t, []float32{0.5, 0.78209479, 0}, toSlice(g.Color(0)), 1e-6)
}

func toSlice(a [3]float32) []float32 { return a[:] }

func TestDecodeSaturatesLikeFloat32(t *testing.T) {
	a := DefaultActivation()
	one := Raw{XYZ: make([]float32, 3), SH: make([]float32, 3), Scaling: make([]float32, 3), Rotation: make([]float32, 4)}
	for raw, want := range map[float32]float64{
		-87: -89.19, -86: -88.197225, -20: -22.197225, 0: -2.1972246, 18: 15.802775, 19: math.Inf(1), 1e30: math.Inf(1),
	} {
		if raw == -87 {
			want = math.Inf(-1) // e^89 has no float32
		}
		one.Opacity = []float32{raw}
		g, err := a.Decode(one)
		require.NoError(t, err)
		if math.IsInf(want, 0) {
			require.Equal(t, want, float64(g.OpacityLogits[0]), "raw %v", raw)
		} else {
			require.InDelta(t, want, float64(g.OpacityLogits[0]), 1e-5, "raw %v", raw)
		}
	}
}

func TestDecodeRejects(t *testing.T) {
	good := randomRaw(5, 1)
	for name, spoil := range map[string]func(*Raw){
		"short positions":  func(r *Raw) { r.XYZ = r.XYZ[:14] },
		"long colours":     func(r *Raw) { r.SH = append(r.SH, 0) },
		"no scales":        func(r *Raw) { r.Scaling = nil },
		"short rotations":  func(r *Raw) { r.Rotation = r.Rotation[:15] },
		"too few":          func(r *Raw) { r.Opacity = r.Opacity[:4] },
		"position NaN":     func(r *Raw) { r.XYZ[4] = nan },
		"position Inf":     func(r *Raw) { r.XYZ[4] = inf },
		"colour NaN":       func(r *Raw) { r.SH[4] = nan },
		"scale -Inf":       func(r *Raw) { r.Scaling[4] = -inf },
		"scale too large":  func(r *Raw) { r.Scaling[4] = 3e38 },
		"rotation NaN":     func(r *Raw) { r.Rotation[4] = nan },
		"opacity NaN":      func(r *Raw) { r.Opacity[4] = nan },
		"opacity Inf":      func(r *Raw) { r.Opacity[4] = inf },
		"everything empty": func(r *Raw) { *r = Raw{Opacity: make([]float32, 1)} },
	} {
		r := randomRaw(5, 1)
		spoil(&r)
		_, err := DefaultActivation().Decode(r)
		require.ErrorIs(t, err, ErrInvalid, name)
	}
	require.Equal(t, good, randomRaw(5, 1))
	g, err := DefaultActivation().Decode(Raw{})
	require.NoError(t, err)
	require.Zero(t, g.Len())
}

func TestActivationValidate(t *testing.T) {
	require.NoError(t, DefaultActivation().Validate())
	for name, spoil := range map[string]func(*Activation){
		"zero":              func(a *Activation) { *a = Activation{} },
		"flat box":          func(a *Activation) { a.BoxSize[1] = 0 },
		"NaN box":           func(a *Activation) { a.BoxMin[1] = nan },
		"negative kernel":   func(a *Activation) { a.Kernel = -1 },
		"NaN kernel":        func(a *Activation) { a.Kernel = math.NaN() },
		"zero scale":        func(a *Activation) { a.ScaleBias = 0 },
		"subnormal scale":   func(a *Activation) { a.ScaleBias = 1e-60 },
		"opaque":            func(a *Activation) { a.OpacityBias = 1 },
		"almost opaque":     func(a *Activation) { a.OpacityBias = 1 - 1e-12 },
		"transparent":       func(a *Activation) { a.OpacityBias = 0 },
		"infinitely opaque": func(a *Activation) { a.OpacityBias = math.Inf(1) },
	} {
		a := DefaultActivation()
		spoil(&a)
		require.Error(t, a.Validate(), name)
		_, err := a.Decode(Raw{})
		require.Error(t, err, name)
	}
}

func TestValidate(t *testing.T) {
	require.NoError(t, (&Gaussians{}).Validate())
	for name, spoil := range map[string]func(*Gaussians){
		"means":           func(g *Gaussians) { g.Means = g.Means[1:] },
		"colours":         func(g *Gaussians) { g.SH = nil },
		"scales":          func(g *Gaussians) { g.LogScales = append(g.LogScales, 1) },
		"rotations":       func(g *Gaussians) { g.Rotations = g.Rotations[4:] },
		"opacities":       func(g *Gaussians) { g.OpacityLogits = nil },
		"mean Inf":        func(g *Gaussians) { g.Means[7] = -inf },
		"colour NaN":      func(g *Gaussians) { g.SH[0] = nan },
		"scale Inf":       func(g *Gaussians) { g.LogScales[8] = inf },
		"scale NaN":       func(g *Gaussians) { g.LogScales[8] = nan },
		"rotation Inf":    func(g *Gaussians) { g.Rotations[11] = inf },
		"opacity NaN":     func(g *Gaussians) { g.OpacityLogits[2] = nan },
		"kernel negative": func(g *Gaussians) { g.Kernel = -1e-9 },
		"kernel NaN":      func(g *Gaussians) { g.Kernel = math.NaN() },
		"kernel Inf":      func(g *Gaussians) { g.Kernel = math.Inf(1) },
	} {
		g := random(t, 3, 2)
		spoil(g)
		require.ErrorIs(t, g.Validate(), ErrInvalid, name)
		require.ErrorIs(t, g.Transform(NewPose([4]float64{1}, [3]float64{}, 1)), ErrInvalid, name)
		require.ErrorIs(t, g.Normalize(), ErrInvalid, name)
		_, err := MakeScene([]Object{{g, NewPose([4]float64{1}, [3]float64{}, 1)}})
		require.ErrorIs(t, err, ErrInvalid, name)
	}
	g := random(t, 3, 2)
	g.OpacityLogits[0], g.OpacityLogits[1], g.LogScales[4], g.Rotations = inf, -inf, -inf, make([]float32, 12)
	require.NoError(t, g.Validate())
	require.Equal(t, float32(1), g.Opacity(0))
	require.Equal(t, float32(0), g.Opacity(1))
	require.Equal(t, [4]float32{}, g.Rotation(0))
	require.NoError(t, g.Transform(randomPose(rand.New(rand.NewPCG(1, 1)))))
}

// The first bad splat is named, however many goroutines look.
func TestValidateNamesFirst(t *testing.T) {
	g := random(t, 8*grain, 3)
	for _, i := range []int{8*grain - 1, 5 * grain, 4*grain + 17} {
		g.Means[3*i+2] = nan
		require.ErrorContains(t, g.Validate(), fmt.Sprintf("Means of splat %d is", i))
	}
}

// A pose maps the covariance of row vectors: s^2 Rᵀ Σ R.
func TestTransform(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for range 20 {
		g, pose := random(t, 50, rng.Uint64()), randomPose(rng)
		got := g.Clone()
		require.NoError(t, got.Transform(pose))
		r, s := pose.Rotation.Matrix(), pose.Scale
		for i := range g.Len() {
			want := pose.Apply(mean(g, i))
			m := mean(got, i)
			require.InDeltaSlice(t, want[:], m[:], 1e-5)
			wantCov, gotCov := r.Transpose().Mul(covariance(g, i)).Mul(r), covariance(got, i)
			size := wantCov[0][0] + wantCov[1][1] + wantCov[2][2]
			for k := range wantCov {
				row := wantCov[k].Scale(s * s)
				require.InDeltaSlice(t, row[:], gotCov[k][:], 2e-6*s*s*size)
			}
		}
		require.Equal(t, g.SH, got.SH)
		require.Equal(t, g.OpacityLogits, got.OpacityLogits)
		require.InEpsilon(t, g.Kernel*s, got.Kernel, 1e-12)

		require.NoError(t, got.Transform(pose.Inverse()))
		require.InDeltaSlice(t, g.Means, got.Means, 1e-4)
		require.InDeltaSlice(t, g.LogScales, got.LogScales, 1e-5)
	}
}

func TestPoseRejected(t *testing.T) {
	g := random(t, 3, 5)
	before := g.Clone()
	for name, pose := range map[string]Pose{
		"zero":          {},
		"no rotation":   NewPose([4]float64{}, [3]float64{}, 1),
		"NaN rotation":  NewPose([4]float64{math.NaN()}, [3]float64{}, 1),
		"Inf rotation":  NewPose([4]float64{math.Inf(1)}, [3]float64{}, 1),
		"NaN position":  NewPose([4]float64{1}, [3]float64{0, math.NaN(), 0}, 1),
		"zero scale":    NewPose([4]float64{1}, [3]float64{}, 0),
		"mirror":        NewPose([4]float64{1}, [3]float64{}, -1),
		"NaN scale":     NewPose([4]float64{1}, [3]float64{}, math.NaN()),
		"Inf scale":     NewPose([4]float64{1}, [3]float64{}, math.Inf(1)),
		"scale too big": NewPose([4]float64{1}, [3]float64{}, 1e300),
	} {
		require.ErrorIs(t, CheckPose(pose), ErrPose, name)
		require.ErrorIs(t, g.Transform(pose), ErrPose, name)
		_, err := MakeScene([]Object{{g, pose}})
		require.ErrorIs(t, err, ErrPose, name)
	}
	require.Equal(t, before, g)
}

// With one kernel for all and no scale near it, a scene is its transformed objects one after the other.
func TestMakeScene(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	var objects []Object
	var want Gaussians
	for i := range 3 {
		g, pose := random(t, 40+i, rng.Uint64()), randomPose(rng)
		for k := range g.LogScales {
			g.LogScales[k] = max(g.LogScales[k], -3)
		}
		g.Kernel = 1e-6 / pose.Scale
		objects = append(objects, Object{g, pose})
		moved := g.Clone()
		require.NoError(t, moved.Transform(pose))
		want.Means = append(want.Means, moved.Means...)
		want.SH = append(want.SH, moved.SH...)
		want.LogScales = append(want.LogScales, moved.LogScales...)
		want.Rotations = append(want.Rotations, moved.Rotations...)
		want.OpacityLogits = append(want.OpacityLogits, moved.OpacityLogits...)
	}
	before := objects[1].Gaussians.Clone()
	scene, err := MakeScene(objects)
	require.NoError(t, err)
	require.Equal(t, before, objects[1].Gaussians)
	require.Equal(t, want.Means, scene.Means)
	require.Equal(t, want.SH, scene.SH)
	require.Equal(t, want.Rotations, scene.Rotations)
	require.Equal(t, want.OpacityLogits, scene.OpacityLogits)
	require.InDeltaSlice(t, want.LogScales, scene.LogScales, 1e-6)
	require.InEpsilon(t, 1e-6, scene.Kernel, 1e-9)
}

// Small scales of an object with a large kernel shrink next to an object with a small one.
func TestMakeSceneKernel(t *testing.T) {
	big, small := random(t, 1, 7), random(t, 1, 8)
	big.LogScales = []float32{float32(math.Log(0.0009)), float32(math.Log(0.5)), -20}
	pose := func(s float64) Pose { return NewPose([4]float64{1}, [3]float64{}, s) }
	scene, err := MakeScene([]Object{{big, pose(2)}, {small, pose(0.5)}})
	require.NoError(t, err)
	k, m := 0.0018, 0.00045
	require.InDelta(t, m, scene.Kernel, 1e-12)
	floor := math.Sqrt(1.21*k*k - k*k + m*m)
	s := scene.Scale(0)
	require.InDelta(t, floor, s[0], 1e-8)
	require.InDelta(t, 1, s[1], 1e-5)
	require.InDelta(t, floor, s[2], 1e-8)

	alone, err := MakeScene([]Object{{big, pose(2)}})
	require.NoError(t, err)
	require.InDelta(t, 1.1*k, alone.Scale(0)[0], 1e-8)
}

func TestMakeSceneRejects(t *testing.T) {
	_, err := MakeScene(nil)
	require.ErrorIs(t, err, ErrInvalid)
	_, err = MakeScene([]Object{{nil, randomPose(rand.New(rand.NewPCG(1, 1)))}})
	require.ErrorIs(t, err, ErrInvalid)
	scene, err := MakeScene([]Object{{&Gaussians{}, NewPose([4]float64{1}, [3]float64{}, 1)}})
	require.NoError(t, err)
	require.Zero(t, scene.Len())
}

func TestNormalize(t *testing.T) {
	g := random(t, 500, 9)
	scales := g.Scales()
	require.NoError(t, g.Normalize())
	lo, hi := g.boundsOf(func(i int) bool { return g.Opacity(i) > 0.9 })
	longest := float32(0)
	for k := range lo {
		require.InDelta(t, 0, lo[k]+hi[k], 1e-6)
		longest = max(longest, hi[k]-lo[k])
	}
	require.InDelta(t, 1, longest, 1e-6)
	for i, s := range g.Scales() {
		require.InEpsilon(t, g.Kernel/0.0009, float64(s/scales[i]), 1e-5)
	}
}

func TestNormalizeWithoutExtent(t *testing.T) {
	g := random(t, 10, 10)
	for i := range g.OpacityLogits {
		g.OpacityLogits[i] = 1
	}
	before := g.Clone()
	require.ErrorIs(t, g.Normalize(), ErrNoExtent, "only faint splats")
	g.OpacityLogits[3], before.OpacityLogits[3] = 5, 5
	require.ErrorIs(t, g.Normalize(), ErrNoExtent, "one opaque splat")
	require.Equal(t, before, g)
	require.ErrorIs(t, (&Gaussians{}).Normalize(), ErrNoExtent)
}

// The axes are swapped without a mirror: a right-handed frame stays one.
func TestSwapViewerAxes(t *testing.T) {
	g := &Gaussians{Means: []float32{1, 0, 0, 0, 1, 0, 0, 0, 1}}
	g.SwapViewerAxes()
	var m geom.Mat3
	for i := range m {
		m[i] = mean(g, i)
	}
	require.Equal(t, geom.Mat3{{-1, 0, 0}, {0, 0, 1}, {0, 1, 0}}, m)
	require.Equal(t, 1.0, m.Det())
}

func TestBounds(t *testing.T) {
	g := &Gaussians{Means: []float32{1, -2, 3, -1, 5, 2}, OpacityLogits: make([]float32, 2)}
	lo, hi := g.Bounds()
	require.Equal(t, [3]float32{-1, -2, 2}, lo)
	require.Equal(t, [3]float32{1, 5, 3}, hi)
	lo, hi = (&Gaussians{}).Bounds()
	require.Equal(t, inf, lo[0])
	require.Equal(t, -inf, hi[0])
}

func TestInParallelCovers(t *testing.T) {
	for _, n := range []int{0, 1, grain, 2*grain - 1, 2 * grain, 7*grain + 3} {
		seen := make([]int, n)
		inParallel(n, func(start, end int) {
			for i := start; i < end; i++ {
				seen[i]++
			}
		})
		for i, times := range seen {
			require.Equal(t, 1, times, "%d of %d", i, n)
		}
	}
}
