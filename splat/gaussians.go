// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package splat holds sets of 3-D Gaussians: their activations, poses, scenes and the normalisation for viewers.
//
// A set keeps every attribute as splat files do, before its last activation: scales as logarithms, opacities as logits,
// rotations of any length. Writing a file is then a copy, and reading it back loses nothing. The activated values are
// methods: Scale, Opacity, Rotation, Color and Covariance for one splat, Scales, Opacities and UnitRotations for all.
//
// A freshly decoded object lies in its own frame: the cube of side 1 around the origin, z up. A Pose takes it to the
// camera's frame: +X left, +Y up, +Z forward, in the units of the point map.
//
// It is plain Go and builds without an inference backend.
package splat

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gomlx3d/image3d/internal/geom"
)

// ErrInvalid is wrapped by every error about Gaussians, or raw attributes, of inconsistent lengths or with values that
// no Gaussian can have.
var ErrInvalid = errors.New("splat: invalid Gaussians")

// shC0 is the constant spherical harmonic, 1/(2 sqrt(pi)).
const shC0 = 0.28209479177387814

const maxFloat = float32(math.MaxFloat32)

var infinity = float32(math.Inf(1))

// Gaussians is a set of N splats with colours of spherical-harmonics degree 0.
//
// The zero Gaussians is an empty set. Methods that change a set must not run at the same time as any other.
type Gaussians struct {
	// Means are the centres.
	Means []float32 // [N, 3]
	// SH are the degree-0 coefficients of red, green and blue; Color turns them into a colour.
	SH []float32 // [N, 3]
	// LogScales are the natural logarithms of the standard deviations along the splat's own axes.
	LogScales []float32 // [N, 3]
	// Rotations are quaternions w, x, y, z of any length. They turn column vectors: with R the matrix of the quaternion
	// the covariance is R diag(scale^2) Rᵀ.
	Rotations []float32 // [N, 4]
	// OpacityLogits are log(p/(1-p)) of the opacities p. Infinities are valid: they are p = 0 and p = 1.
	OpacityLogits []float32 // [N]
	// Kernel is the standard deviation of the 3-D low-pass filter that the scales contain, and so a lower bound of a
	// decoded set's scales. Splat files do not hold it; 0 is none.
	Kernel float64
}

// newGaussians returns a set of n splats with all values zero.
func newGaussians(n int) *Gaussians {
	return &Gaussians{
		Means: make([]float32, 3*n), SH: make([]float32, 3*n), LogScales: make([]float32, 3*n),
		Rotations: make([]float32, 4*n), OpacityLogits: make([]float32, n),
	}
}

// Len returns the number of splats, N.
func (g *Gaussians) Len() int { return len(g.OpacityLogits) }

// Clone returns a copy that shares nothing with g.
func (g *Gaussians) Clone() *Gaussians {
	return &Gaussians{
		Means: slices.Clone(g.Means), SH: slices.Clone(g.SH), LogScales: slices.Clone(g.LogScales),
		Rotations: slices.Clone(g.Rotations), OpacityLogits: slices.Clone(g.OpacityLogits), Kernel: g.Kernel,
	}
}

// Scale returns the standard deviations of splat i along its own axes.
func (g *Gaussians) Scale(i int) [3]float32 {
	l := g.LogScales[3*i : 3*i+3]
	return [3]float32{exp32(l[0]), exp32(l[1]), exp32(l[2])}
}

// Opacity returns the opacity of splat i, in [0, 1].
func (g *Gaussians) Opacity(i int) float32 { return sigmoid32(g.OpacityLogits[i]) }

// Rotation returns the unit quaternion w, x, y, z of splat i. A zero quaternion stays zero.
func (g *Gaussians) Rotation(i int) [4]float32 {
	q := g.quat(i).Normalize()
	return [4]float32{float32(q.W), float32(q.X), float32(q.Y), float32(q.Z)}
}

// Color returns the colour of splat i as red, green, blue in the colour space of a picture (sRGB). It is not below 0
// and may exceed 1.
func (g *Gaussians) Color(i int) [3]float32 {
	var c [3]float32
	for k, sh := range g.SH[3*i : 3*i+3] {
		c[k] = max(0, float32(shC0*float64(sh)+0.5))
	}
	return c
}

// Covariance returns the covariance of splat i as its six different entries xx, xy, xz, yy, yz, zz. A zero
// quaternion gives NaN.
func (g *Gaussians) Covariance(i int) [6]float64 {
	r := g.quat(i).Matrix()
	var m geom.Mat3 // R diag(scale)
	for k, l := range g.LogScales[3*i : 3*i+3] {
		s := math.Exp(float64(l))
		for row := range m {
			m[row][k] = r[row][k] * s
		}
	}
	return [6]float64{
		m[0].Dot(m[0]), m[0].Dot(m[1]), m[0].Dot(m[2]), m[1].Dot(m[1]), m[1].Dot(m[2]), m[2].Dot(m[2]),
	}
}

func (g *Gaussians) quat(i int) geom.Quat {
	q := g.Rotations[4*i : 4*i+4]
	return geom.Quat{W: float64(q[0]), X: float64(q[1]), Y: float64(q[2]), Z: float64(q[3])}
}

// Scales returns all standard deviations in a new slice [N, 3].
func (g *Gaussians) Scales() []float32 { return mapAll(g.LogScales, exp32) }

// Opacities returns all opacities in a new slice [N].
func (g *Gaussians) Opacities() []float32 { return mapAll(g.OpacityLogits, sigmoid32) }

// UnitRotations returns all unit quaternions w, x, y, z in a new slice [N, 4].
func (g *Gaussians) UnitRotations() []float32 {
	out := make([]float32, len(g.Rotations))
	inParallel(len(out)/4, func(start, end int) {
		for i := start; i < end; i++ {
			q := g.Rotation(i)
			copy(out[4*i:], q[:])
		}
	})
	return out
}

func mapAll(in []float32, f func(float32) float32) []float32 {
	out := make([]float32, len(in))
	inParallel(len(in), func(start, end int) {
		for i := start; i < end; i++ {
			out[i] = f(in[i])
		}
	})
	return out
}

// Bounds returns the smallest box that holds all centres. That of an empty set is inverted: from +Inf to -Inf.
func (g *Gaussians) Bounds() (lo, hi [3]float32) {
	return g.boundsOf(func(int) bool { return true })
}

// boundsOf is Bounds of the splats for which keep is true.
func (g *Gaussians) boundsOf(keep func(i int) bool) (lo, hi [3]float32) {
	for k := range lo {
		lo[k], hi[k] = infinity, -infinity
	}
	for i := range g.Len() {
		if !keep(i) {
			continue
		}
		for k, x := range g.Means[3*i : 3*i+3] {
			lo[k], hi[k] = min(lo[k], x), max(hi[k], x)
		}
	}
	return lo, hi
}

// Validate reports, as an error that wraps ErrInvalid, slices of different lengths; NaN or infinite centres, colours
// and rotations; scales that are NaN or infinite; opacities that are NaN; and a kernel that is negative or not finite.
func (g *Gaussians) Validate() error {
	n := g.Len()
	for _, s := range []struct {
		name      string
		got, want int
	}{
		{"Means", len(g.Means), 3 * n}, {"SH", len(g.SH), 3 * n},
		{"LogScales", len(g.LogScales), 3 * n}, {"Rotations", len(g.Rotations), 4 * n},
	} {
		if s.got != s.want {
			return fmt.Errorf("%w: %s has %d values, want %d for %d splats", ErrInvalid, s.name, s.got, s.want, n)
		}
	}
	for _, s := range []struct {
		name   string
		values []float32
		width  int
		lo, hi float32
	}{
		{"Means", g.Means, 3, -maxFloat, maxFloat}, {"SH", g.SH, 3, -maxFloat, maxFloat},
		{"Rotations", g.Rotations, 4, -maxFloat, maxFloat},
		{"LogScales", g.LogScales, 3, -infinity, maxFloat}, {"OpacityLogits", g.OpacityLogits, 1, -infinity, infinity},
	} {
		if at := firstOutside(s.values, s.lo, s.hi); at >= 0 {
			return fmt.Errorf("%w: %s of splat %d is %v", ErrInvalid, s.name, at/s.width, s.values[at])
		}
	}
	if !(g.Kernel >= 0 && g.Kernel <= math.MaxFloat64) {
		return fmt.Errorf("%w: Kernel is %v", ErrInvalid, g.Kernel)
	}
	return nil
}

func finite(x float32) bool { return x-x == 0 }

func exp32(x float32) float32 { return float32(math.Exp(float64(x))) }

// sigmoid32 rounds each step to float32, as the original does: from 16.64 on it is exactly 1, below -88.73 exactly 0.
func sigmoid32(x float32) float32 { return 1 / (1 + exp32(-x)) }
