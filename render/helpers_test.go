// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package render

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/flexicubes"
	"github.com/gomlx3d/image3d/splat"
)

// ball is a Gaussian of the same size in every direction.
type ball struct {
	at      [3]float64
	sigma   float64
	opacity float64
	color   [3]float64
}

func gaussians(balls ...ball) *splat.Gaussians {
	g := &splat.Gaussians{}
	for _, b := range balls {
		l := float32(math.Log(b.sigma))
		g.LogScales = append(g.LogScales, l, l, l)
		g.Rotations = append(g.Rotations, 1, 0, 0, 0)
		g.OpacityLogits = append(g.OpacityLogits, float32(math.Log(b.opacity/(1-b.opacity))))
		for k := range 3 {
			g.Means = append(g.Means, float32(b.at[k]))
			g.SH = append(g.SH, float32((b.color[k]-0.5)/0.28209479177387814))
		}
	}
	return g
}

// cloud returns n random splats around the origin, of about the size that decoded ones have.
func cloud(n int, seed uint64) *splat.Gaussians {
	rng := rand.New(rand.NewPCG(seed, 2))
	g := &splat.Gaussians{}
	for range n {
		var d [3]float64
		norm := 0.0
		for k := range d {
			d[k] = rng.NormFloat64()
			norm += d[k] * d[k]
		}
		radius := 0.45 * (1 - 0.1*rng.Float64()) / math.Sqrt(norm)
		for k := range d {
			g.Means = append(g.Means, float32(d[k]*radius))
			g.SH = append(g.SH, float32(rng.NormFloat64()))
			g.LogScales = append(g.LogScales, float32(math.Log(0.003)+0.6*rng.NormFloat64()))
		}
		for range 4 {
			g.Rotations = append(g.Rotations, float32(rng.NormFloat64()))
		}
		g.OpacityLogits = append(g.OpacityLogits, float32(2*rng.NormFloat64()))
	}
	return g
}

// permuted returns the splats of g in another order.
func permuted(g *splat.Gaussians, seed uint64) *splat.Gaussians {
	out := &splat.Gaussians{}
	for _, i := range rand.New(rand.NewPCG(seed, 3)).Perm(g.Len()) {
		out.Means = append(out.Means, g.Means[3*i:3*i+3]...)
		out.SH = append(out.SH, g.SH[3*i:3*i+3]...)
		out.LogScales = append(out.LogScales, g.LogScales[3*i:3*i+3]...)
		out.Rotations = append(out.Rotations, g.Rotations[4*i:4*i+4]...)
		out.OpacityLogits = append(out.OpacityLogits, g.OpacityLogits[i])
	}
	return out
}

// tent is an arrow, as a solid with four sides, from the origin along each axis: red to +x, green to +y, blue to +z,
// of lengths that differ.
func tent() *flexicubes.Mesh {
	m := &flexicubes.Mesh{}
	for axis, length := range []float32{0.5, 0.4, 0.3} {
		base := uint32(len(m.Vertices) / 3)
		for _, corner := range [][2]float32{{-1, -1}, {1, -1}, {1, 1}, {-1, 1}} {
			var v [3]float32
			v[(axis+1)%3], v[(axis+2)%3] = corner[0]*0.12, corner[1]*0.12
			m.Vertices = append(m.Vertices, v[:]...)
		}
		var tip [3]float32
		tip[axis] = length
		m.Vertices = append(m.Vertices, tip[:]...)
		var c [3]float32
		c[axis] = 1
		for range 5 {
			m.Colors = append(m.Colors, c[:]...)
		}
		for k := range uint32(4) {
			m.Faces = append(m.Faces, base+k, base+(k+1)%4, base+4)
		}
		m.Faces = append(m.Faces, base, base+2, base+1, base, base+3, base+2)
	}
	return m
}

// filling returns small splats on the surface of a mesh with its colours.
func filling(m *flexicubes.Mesh, perFace int) *splat.Gaussians {
	rng := rand.New(rand.NewPCG(1, 4))
	var balls []ball
	for f := 0; f < len(m.Faces); f += 3 {
		for range perFace {
			u, v := rng.Float64(), rng.Float64()
			if u+v > 1 {
				u, v = 1-u, 1-v
			}
			b := ball{sigma: 0.003, opacity: 0.95}
			for k := range 3 {
				at := func(i int) (x, c float64) {
					j := 3*int(m.Faces[f+i]) + k
					return float64(m.Vertices[j]), float64(m.Colors[j])
				}
				x0, c0 := at(0)
				x1, _ := at(1)
				x2, _ := at(2)
				b.at[k] = x0 + u*(x1-x0) + v*(x2-x0)
				b.color[k] = c0
			}
			balls = append(balls, b)
		}
	}
	return gaussians(balls...)
}

func drawn(t testing.TB, g *splat.Gaussians, c Camera) *Frame {
	t.Helper()
	s, err := NewSplats(g)
	require.NoError(t, err)
	f, err := s.Draw(context.Background(), c)
	require.NoError(t, err)
	return f
}

func drawMesh(t testing.TB, m *flexicubes.Mesh, c Camera) *Frame {
	t.Helper()
	s, err := NewMesh(m)
	require.NoError(t, err)
	f, err := s.Draw(context.Background(), c)
	require.NoError(t, err)
	return f
}

// front is the camera that sees the unit cube from -y, with 100 pixels for a unit at the origin.
func front(width, height int) Camera {
	c := Orbit{Distance: 2}.Camera(0, width, height)
	c.FX, c.FY = 200, 200
	return c
}

func (f *Frame) at(x, y int) [4]float32 { return [4]float32(f.Pix[4*(y*f.Width+x):]) }

// middle returns the mean place of what has one colour: channel above 0.5, the others below.
func (f *Frame) middle(t testing.TB, channel int) (x, y float64) {
	t.Helper()
	n := 0.0
	for py := range f.Height {
		for px := range f.Width {
			p := f.at(px, py)
			if p[3] > 0.5 && p[channel] > 0.3*p[3] && p[(channel+1)%3] < 0.2*p[3] && p[(channel+2)%3] < 0.2*p[3] {
				x, y, n = x+float64(px)+0.5, y+float64(py)+0.5, n+1
			}
		}
	}
	require.NotZero(t, n, "nothing of channel %d is seen", channel)
	return x / n, y / n
}

// overlap returns the intersection over union of what two frames cover by more than half.
func overlap(a, b *Frame) float64 {
	both, any := 0.0, 0.0
	for i := 3; i < len(a.Pix); i += 4 {
		x, y := a.Pix[i] > 0.5, b.Pix[i] > 0.5
		if x && y {
			both++
		}
		if x || y {
			any++
		}
	}
	return both / any
}
