// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package render

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/splat"
)

// A lone Gaussian: its opacity in the middle, exp(-1/2) of it one standard deviation away, and its colour everywhere.
func TestOneGaussian(t *testing.T) {
	c := front(65, 65) // the middle of the picture is the centre of pixel 32
	const sigma = 0.08 // 8 pixels
	f := drawn(t, gaussians(ball{sigma: sigma, opacity: 0.7, color: [3]float64{0.2, 0.9, 0.4}}), c)
	require.InDelta(t, 0.7, f.at(32, 32)[3], 0.004, "the low-pass filter takes less than 1/2 %")
	pixels := 64 + defaultLowPass
	for _, d := range [][2]float64{{8, 0}, {0, 8}, {-8, 0}, {0, -8}, {16, 0}, {5, -11}} {
		p := f.at(32+int(d[0]), 32+int(d[1]))
		expected := 0.7 * 64 / pixels * math.Exp(-(d[0]*d[0]+d[1]*d[1])/2/pixels)
		require.InDelta(t, expected, p[3], 1e-5, "%v", d)
		require.InDelta(t, 0.2, p[0]/p[3], 1e-4)
		require.InDelta(t, 0.9, p[1]/p[3], 1e-4)
		require.InDelta(t, 0.4, p[2]/p[3], 1e-4)
	}
	require.Zero(t, f.at(0, 0)[3], "four and more standard deviations away there is nothing")
}

// An elongated Gaussian lies where its quaternion turns it: by 30 degrees about the line of sight.
func TestRotation(t *testing.T) {
	g := gaussians(ball{sigma: 0.02, opacity: 0.9, color: [3]float64{1, 1, 1}})
	g.LogScales[0] = float32(math.Log(0.1))
	sin, cos := math.Sincos(math.Pi / 12)
	g.Rotations = []float32{float32(cos), 0, float32(-sin), 0} // about -y, towards the camera: counter-clockwise
	f := drawn(t, g, front(65, 65))
	at := func(degrees float64) float32 {
		s, c := math.Sincos(degrees * math.Pi / 180)
		return f.at(32+int(math.Round(10*c)), 32-int(math.Round(10*s)))[3]
	}
	require.Greater(t, at(30), float32(0.4))
	require.Less(t, at(-30), float32(0.02))
	require.Less(t, at(90), float32(0.02))
}

// Two splats: what the nearer one lets through is seen of the other.
func TestOver(t *testing.T) {
	near := ball{at: [3]float64{0, -0.2, 0}, sigma: 0.2, opacity: 0.6, color: [3]float64{1, 0, 0}}
	far := ball{at: [3]float64{0, 0.2, 0}, sigma: 0.2, opacity: 0.5, color: [3]float64{0, 1, 0}}
	for _, g := range []*splat.Gaussians{gaussians(near, far), gaussians(far, near)} {
		p := drawn(t, g, front(33, 33)).at(16, 16)
		require.InDelta(t, 0.6, p[0], 2e-3)
		require.InDelta(t, 0.4*0.5, p[1], 2e-3)
		require.InDelta(t, 0.8, p[3], 2e-3)
	}
}

// What a splat far smaller than a pixel adds to the picture is opacity times its area, wherever it lies in a pixel.
func TestSubpixelEnergy(t *testing.T) {
	const sigma, opacity = 0.003, 0.95 // 0.3 pixels
	expected := opacity * 2 * math.Pi * 0.3 * 0.3
	for _, dx := range []float64{0, 0.0025, 0.005} {
		for _, dz := range []float64{0, 0.003, 0.005} {
			f := drawn(t, gaussians(ball{at: [3]float64{dx, 0, dz}, sigma: sigma, opacity: opacity, color: [3]float64{1, 1, 1}}), front(33, 33))
			sum := 0.0
			for i := 3; i < len(f.Pix); i += 4 {
				sum += float64(f.Pix[i])
			}
			require.InEpsilon(t, expected, sum, 0.05, "%v %v", dx, dz)
		}
	}
}

// Neither the order of splats, nor of equally distant ones, nor the number of cores changes a single bit.
func TestOrderAndCoresDoNotMatter(t *testing.T) {
	g := cloud(6000, 1)
	for i := range 1500 { // on planes that the camera sees face on
		g.Means[3*i+1] = float32(i%3) * 0.1
	}
	c := front(150, 70)
	expected := drawn(t, g, c)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, cores := range []int{1, 3, 8} {
		runtime.GOMAXPROCS(cores)
		require.Equal(t, expected.Pix, drawn(t, permuted(g, uint64(cores)), c).Pix)
	}
}

// The picture is the one of plain loops over all pixels and splats in float64.
func TestAgainstPlainLoops(t *testing.T) {
	g := cloud(800, 5)
	for i := range g.LogScales {
		g.LogScales[i]++ // larger than a tile
	}
	c := Orbit{Distance: 1.5, Elevation: 33}.Camera(70, 83, 61)
	f := drawn(t, g, c)
	expected := plain(g, c)
	for i := range f.Pix {
		require.InDelta(t, expected[i], f.Pix[i], 4e-3, "pixel %d, channel %d", i/4, i%4)
	}
}

// plain draws every splat into every pixel.
func plain(g *splat.Gaussians, c Camera) []float64 {
	s, _ := NewSplats(g)
	p := newProjection(&c, defaultLowPass)
	type seen struct {
		spot
		depth float32
	}
	var all []seen
	for i := range s.solids {
		if sp, box, depth := p.spot(&s.solids[i], newGrid(c.Width, c.Height)); !box.empty() {
			all = append(all, seen{sp, depth})
		}
	}
	for i := range all { // a sort that needs no explanation
		for j := range i {
			if all[i].depth < all[j].depth {
				all[i], all[j] = all[j], all[i]
			}
		}
	}
	out := make([]float64, 4*c.Width*c.Height)
	for y := range c.Height {
		for x := range c.Width {
			through := 1.0
			pixel := out[4*(y*c.Width+x):]
			for _, sp := range all {
				dx, dy := float64(x)+0.5-float64(sp.x), float64(y)+0.5-float64(sp.y)
				e := float64(sp.a)*dx*dx + float64(sp.b)*dx*dy + float64(sp.c)*dy*dy
				alpha := float64(sp.opacity) * math.Exp(-e)
				if alpha < minAlpha {
					continue
				}
				for k := range 3 {
					pixel[k] += through * alpha * float64(sp.color[k])
				}
				through *= 1 - alpha
			}
			pixel[3] = 1 - through
		}
	}
	return out
}

// Splats that no picture can show leave the others as they are, and nothing panics or takes long.
func TestHarmfulSplats(t *testing.T) {
	good := cloud(300, 7)
	c := front(64, 64)
	expected := drawn(t, good, c)
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for name, change := range map[string]func(g *splat.Gaussians, i int){
		"behind":            func(g *splat.Gaussians, i int) { g.Means[3*i+1] = -5 },
		"at the eye":        func(g *splat.Gaussians, i int) { copy(g.Means[3*i:], []float32{0, -2, 0}) },
		"just in front":     func(g *splat.Gaussians, i int) { copy(g.Means[3*i:], []float32{0, -1.999, 0}) },
		"mean is NaN":       func(g *splat.Gaussians, i int) { g.Means[3*i+1] = nan },
		"mean is infinite":  func(g *splat.Gaussians, i int) { g.Means[3*i+1] = inf },
		"far beside":        func(g *splat.Gaussians, i int) { g.Means[3*i] = 1e38 },
		"no rotation":       func(g *splat.Gaussians, i int) { copy(g.Rotations[4*i:], []float32{0, 0, 0, 0}) },
		"rotation is NaN":   func(g *splat.Gaussians, i int) { g.Rotations[4*i] = nan },
		"scale is NaN":      func(g *splat.Gaussians, i int) { g.LogScales[3*i] = nan },
		"scale is infinite": func(g *splat.Gaussians, i int) { g.LogScales[3*i] = inf },
		"scale is 1e86":     func(g *splat.Gaussians, i int) { g.LogScales[3*i] = 200 },
		"scale is 0":        func(g *splat.Gaussians, i int) { g.LogScales[3*i], g.LogScales[3*i+1] = -inf, -inf },
		"colour is NaN":     func(g *splat.Gaussians, i int) { g.SH[3*i] = nan },
		"colour infinite":   func(g *splat.Gaussians, i int) { g.SH[3*i] = inf },
		"opacity is NaN":    func(g *splat.Gaussians, i int) { g.OpacityLogits[i] = nan },
		"opacity is 0":      func(g *splat.Gaussians, i int) { g.OpacityLogits[i] = -inf },
	} {
		bad := gaussians(ball{sigma: 0.001, opacity: 0.99})
		change(bad, 0)
		require.Equal(t, expected.Pix, drawn(t, joined(good, bad), c).Pix, name)
	}

	huge := gaussians(ball{at: [3]float64{0, 3, 0}, sigma: 1e15, opacity: 0.5, color: [3]float64{1, 1, 1}})
	f := drawn(t, huge, c)
	for i := 3; i < len(f.Pix); i += 4 {
		require.InDelta(t, 0.5, f.Pix[i], 1e-3, "a splat larger than everything covers everything")
	}

	short := cloud(3, 1)
	short.SH = short.SH[:8]
	_, err := NewSplats(short)
	require.ErrorIs(t, err, splat.ErrInvalid)
	require.Zero(t, drawn(t, &splat.Gaussians{}, c).at(5, 5))
}

// Numbers of every magnitude: no panic, and every pixel is finite.
func TestEveryMagnitude(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 11))
	any := func() float32 { return float32((2*rng.Float64() - 1) * math.Pow(10, 80*rng.Float64()-40)) }
	g := cloud(3000, 3)
	for i := range g.Len() {
		for k := range 3 {
			if rng.IntN(2) == 0 {
				g.Means[3*i+k] = any()
			}
			g.LogScales[3*i+k] = float32(200*rng.Float64() - 100)
			g.SH[3*i+k] = any()
		}
	}
	for _, lowPass := range []float64{0, 1e-300, 1e300, math.NaN(), -1} {
		for _, near := range []float64{1e-300, 0.1, 1e30} {
			s, err := NewSplats(g)
			require.NoError(t, err)
			s.LowPass = lowPass
			c := front(40, 30)
			c.Near = near
			f, err := s.Draw(context.Background(), c)
			require.NoError(t, err)
			for i, x := range f.Pix {
				require.True(t, x-x == 0 && (i%4 < 3 || x >= 0 && x <= 1), "pixel %d: %v", i/4, x)
			}
		}
	}
}

func joined(a, b *splat.Gaussians) *splat.Gaussians {
	out := a.Clone()
	out.Means = append(out.Means, b.Means...)
	out.SH = append(out.SH, b.SH...)
	out.LogScales = append(out.LogScales, b.LogScales...)
	out.Rotations = append(out.Rotations, b.Rotations...)
	out.OpacityLogits = append(out.OpacityLogits, b.OpacityLogits...)
	return out
}

// More list entries than may exist at a time: the tiles are drawn in groups, with the same result.
func TestManyLargeSplats(t *testing.T) {
	g := newGrid(512, 512)
	boxes := make([]pixelBox, 40_000) // in 1024 tiles each: 41 million entries
	for i := range boxes {
		boxes[i] = pixelBox{0, 0, 512, 512}
	}
	boxes[7] = pixelBox{}
	lengths := make([]int, g.across*g.down)
	require.NoError(t, g.forTiles(context.Background(), boxes, func(tile int, list []uint32) {
		lengths[tile] = len(list)
		if list[6] != 6 || list[7] != 8 || list[len(list)-1] != 39_999 {
			lengths[tile] = -1
		}
	}))
	for _, n := range lengths {
		require.Equal(t, 39_999, n)
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s, err := NewSplats(cloud(100, 1))
	require.NoError(t, err)
	_, err = s.Draw(ctx, front(32, 32))
	require.ErrorIs(t, err, context.Canceled)
	m, err := NewMesh(tent())
	require.NoError(t, err)
	_, err = m.Draw(ctx, front(32, 32))
	require.ErrorIs(t, err, context.Canceled)
}

func TestSortKeys(t *testing.T) {
	for _, n := range []int{0, 1, 2, 1000} {
		keys := make([]uint64, n)
		for i := range keys {
			depth := float32(1+(i*7919)%101) * 0.37
			if i%2 == 0 {
				depth *= 1e-30
			}
			keys[i] = uint64(math.Float32bits(depth))<<32 | uint64(i)
		}
		sorted := sortKeys(keys, make([]uint64, n))
		require.Len(t, sorted, n)
		require.True(t, slices.IsSorted(sorted))
	}
}

func BenchmarkSplats(b *testing.B) {
	s, err := NewSplats(cloud(300_000, 1))
	require.NoError(b, err)
	orbit := Orbit{Target: Fit(s.Bounds()), Elevation: 20}
	i := 0.0
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Draw(context.Background(), orbit.Camera(i, 512, 512)); err != nil {
			b.Fatal(err)
		}
		i += 10
	}
}
