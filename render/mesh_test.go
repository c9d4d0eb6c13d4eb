// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package render

import (
	"context"
	"image"
	"image/color"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/flexicubes"
	"github.com/gomlx3d/image3d/splat"
)

// Arrows along +x, +y and +z appear where they should, for a mesh and for splats, from several sides.
func TestOrientation(t *testing.T) {
	mesh := tent()
	splats := filling(mesh, 600)
	for name, f := range map[string]func(c Camera) *Frame{
		"mesh":   func(c Camera) *Frame { return drawMesh(t, mesh, c) },
		"splats": func(c Camera) *Frame { return drawn(t, splats, c) },
	} {
		t.Run(name, func(t *testing.T) {
			o := Orbit{Distance: 2, Elevation: 30}
			frame := f(o.Camera(0, 128, 128)) // from -y and above
			x, y := frame.middle(t, 0)
			require.Greater(t, x, 68.0, "+x is on the right")
			require.InDelta(t, 64, y, 3)
			x, y = frame.middle(t, 2)
			require.InDelta(t, 64, x, 3)
			require.Less(t, y, 60.0, "+z is up")

			frame = f(o.Camera(90, 128, 128)) // from +x
			x, _ = frame.middle(t, 1)
			require.Greater(t, x, 68.0, "+y is on the right")
			frame = f(o.Camera(180, 128, 128)) // from +y
			x, _ = frame.middle(t, 0)
			require.Less(t, x, 60.0, "+x is on the left")
			frame = f(Orbit{Distance: 2, Elevation: 90}.Camera(0, 128, 128)) // a map
			x, _ = frame.middle(t, 0)
			require.Greater(t, x, 68.0)
			_, y = frame.middle(t, 1)
			require.Less(t, y, 60.0, "+y is up in a map")
		})
	}
}

// A posed object appears where the camera of the photograph sees it: +X left, +Y up, larger when nearer.
func TestCameraFrame(t *testing.T) {
	c := InCameraFrame(60, 200, 100)
	at := func(p ...float64) ball {
		return ball{at: [3]float64(p), sigma: 0.02, opacity: 0.95, color: [3]float64{1, 0, 0}}
	}
	x, y := drawn(t, gaussians(at(0.3, 0.1, 2)), c).middle(t, 0)
	focal := 100 / math.Tan(math.Pi/6)
	require.InDelta(t, 100-0.15*focal, x, 0.2)
	require.InDelta(t, 50-0.05*focal, y, 0.2)

	g := gaussians(at(0, 0, 0))
	require.NoError(t, g.Transform(splat.NewPose([4]float64{1, 0, 0, 0}, [3]float64{-0.5, 0, 3}, 2)))
	x, _ = drawn(t, g, c).middle(t, 0)
	require.InDelta(t, 100+0.5/3*focal, x, 0.2)
}

// The mesh and splats that fill it cover the same pixels.
func TestMeshAndSplatsAgree(t *testing.T) {
	mesh := tent()
	splats := filling(mesh, 5000)
	for _, azimuth := range []float64{0, 50, 200} {
		c := Orbit{Target: Fit([3]float32{-0.1, -0.1, -0.1}, [3]float32{0.5, 0.4, 0.3}), Elevation: 25}.Camera(azimuth, 320, 300)
		require.Greater(t, overlap(drawMesh(t, mesh, c), drawn(t, splats, c)), 0.9, "splats reach a pixel beyond edges")
	}
}

// square is a square of side 1 across the line of sight of front, at the depth y, with another colour at each corner.
func square(y float32) *flexicubes.Mesh {
	return &flexicubes.Mesh{
		Vertices: []float32{-0.5, y, -0.5, 0.5, y, -0.5, 0.5, y, 0.5, -0.5, y, 0.5},
		Faces:    []uint32{0, 1, 2, 0, 2, 3},
		Colors:   []float32{0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0},
	}
}

// Coverage is the exact area for edges between samples, there is no seam along the diagonal, and colours are linear.
func TestSquare(t *testing.T) {
	m, err := NewMesh(square(0))
	require.NoError(t, err)
	m.Unlit = true
	f, err := m.Draw(context.Background(), front(121, 121)) // 100 pixels, from 10.5 on
	require.NoError(t, err)
	for y := range 121 {
		for x := range 121 {
			cover := func(i int) float32 {
				switch {
				case i < 10 || i > 110:
					return 0
				case i == 10 || i == 110:
					return 0.5
				}
				return 1
			}
			p := f.at(x, y)
			require.Equal(t, cover(x)*cover(y), p[3], "%d %d", x, y)
			if p[3] == 1 {
				require.InDelta(t, (float64(x)+0.5-10.5)/100, p[0], 1e-4)
				require.InDelta(t, (110.5-float64(y)-0.5)/100, p[1], 1e-4)
			}
		}
	}
}

// Colours on a square that leads away are those of the points seen, not those between the corners in the picture.
func TestPerspective(t *testing.T) {
	m, err := NewMesh(&flexicubes.Mesh{ // x from -0.5 to 0.5 while y goes from -1 to 3
		Vertices: []float32{-0.5, -1, -0.5, 0.5, 3, -0.5, 0.5, 3, 0.5, -0.5, -1, 0.5},
		Faces:    []uint32{0, 1, 2, 0, 2, 3},
		Colors:   []float32{0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0},
	})
	require.NoError(t, err)
	m.Unlit = true
	c := front(201, 101)
	f, err := m.Draw(context.Background(), c)
	require.NoError(t, err)
	for x := 20; x < 110; x += 10 {
		tangent := (float64(x) + 0.5 - c.CX) / c.FX
		// (u - 0.5) / (2 + 4u - 1) = tangent
		u := (0.5 + tangent) / (1 - 4*tangent)
		require.InDelta(t, u, f.at(x, 50)[0], 1e-3)
	}
}

// The nearer surface hides the other, in whatever order they are, and a light shows the shape from both sides.
func TestDepthAndLight(t *testing.T) {
	near, far := square(-0.5), square(0.5)
	for i := range near.Colors {
		near.Colors[i], far.Colors[i] = float32(i%3/2), float32((i+1)%3/2) // blue, green
	}
	for i := range near.Faces {
		near.Faces[i] += 4
	}
	both := &flexicubes.Mesh{
		Vertices: append(far.Vertices, near.Vertices...), Colors: append(far.Colors, near.Colors...),
		Faces: append(near.Faces, far.Faces...),
	}
	for range 2 {
		p := drawMesh(t, both, front(51, 51)).at(25, 25)
		require.Zero(t, p[1])
		require.Greater(t, p[2], float32(0.8))
		back := front(51, 51)
		back.Eye[1], back.Forward[1], back.Right[0] = 2, -1, -1
		require.Equal(t, p[2], drawMesh(t, both, back).at(25, 25)[1], "seen from behind it is lit as from the front")
		both.Faces = append(both.Faces[6:], both.Faces[:6]...)
	}
}

// What is too near is cut off, and what is behind does not come back.
func TestNear(t *testing.T) {
	floor := &flexicubes.Mesh{ // from behind the camera to far in front
		Vertices: []float32{-10, -10, -0.2, 10, -10, -0.2, 10, 50, -0.2, -10, 50, -0.2},
		Faces:    []uint32{0, 1, 2, 0, 2, 3},
	}
	f := drawMesh(t, floor, front(101, 101))
	for y := range 101 {
		expected := float32(0)
		if y > 51 {
			expected = 1
		}
		if y < 48 || y > 53 {
			require.Equal(t, expected, f.at(50, y)[3], "row %d", y)
		}
	}
}

func TestHarmfulMeshes(t *testing.T) {
	expected := drawMesh(t, square(0), front(64, 64))
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for name, v := range map[string][9]float32{
		"NaN":         {nan, -1, 0, 1, -1, 0, 1, -1, 1},
		"infinite":    {inf, -1, 0, 1, -1, 0, 1, -1, 1},
		"huge beside": {1e38, -1, 0, 3e38, -1, 0, 3e38, -1, 1},
		"behind":      {-1, -3, -1, 1, -3, -1, 0, -3, 1},
		"at the eye":  {0, -2, 0, 0, -2, 0, 0, -2, 0},
		"a line":      {-1, -1, -1, 0, -1, 0, 1, -1, 1},
		"a point":     {0, -1, 0, 0, -1, 0, 0, -1, 0},
	} {
		m := square(0)
		m.Vertices = append(m.Vertices, v[:]...)
		m.Colors = append(m.Colors, nan, inf, 0, 0, 0, 0, 0, 0, 0)
		m.Faces = append(m.Faces, 4, 5, 6)
		require.Equal(t, expected.Pix, drawMesh(t, m, front(64, 64)).Pix, name)
	}
	for name, m := range map[string]*flexicubes.Mesh{
		"nil":     nil,
		"lengths": {Vertices: make([]float32, 8)},
		"faces":   {Vertices: make([]float32, 9), Faces: []uint32{0, 1}},
		"colors":  {Vertices: make([]float32, 9), Colors: make([]float32, 3)},
		"index":   {Vertices: make([]float32, 9), Faces: []uint32{0, 1, 3}},
	} {
		_, err := NewMesh(m)
		require.ErrorIs(t, err, ErrMesh, name)
	}
	m, err := NewMesh(square(0))
	require.NoError(t, err)
	m.Samples = 9
	_, err = m.Draw(context.Background(), front(8, 8))
	require.ErrorIs(t, err, ErrMesh)
}

func TestMeshCoresDoNotMatter(t *testing.T) {
	m := sphere(60)
	c := Orbit{Distance: 2}.Camera(17, 90, 120)
	expected := drawMesh(t, m, c)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, cores := range []int{1, 5} {
		runtime.GOMAXPROCS(cores)
		require.Equal(t, expected.Pix, drawMesh(t, m, c).Pix)
	}
}

// A closed surface has no holes: every pixel well inside its outline is covered.
func TestNoHoles(t *testing.T) {
	f := drawMesh(t, sphere(200), Orbit{Distance: 2, Elevation: 13}.Camera(31, 200, 200))
	for y := range 200 {
		for x := range 200 {
			if math.Hypot(float64(x)-99.5, float64(y)-99.5) < 68 { // its outline has a radius of 71
				require.Equal(t, float32(1), f.at(x, y)[3], "%d %d", x, y)
			}
		}
	}
}

// sphere is a ball of radius 0.5 of 4n² triangles.
func sphere(n int) *flexicubes.Mesh {
	m := &flexicubes.Mesh{}
	rng := rand.New(rand.NewPCG(1, 9))
	for i := range n + 1 {
		sinP, cosP := math.Sincos(math.Pi * float64(i) / float64(n))
		for k := range 2 * n {
			sinA, cosA := math.Sincos(math.Pi * float64(k) / float64(n))
			m.Vertices = append(m.Vertices, float32(sinP*cosA/2), float32(sinP*sinA/2), float32(cosP/2))
			m.Colors = append(m.Colors, rng.Float32(), 0.5, float32(i)/float32(n))
			if i < n {
				a, b := uint32(2*n*i+k), uint32(2*n*i+(k+1)%(2*n))
				c, d := a+uint32(2*n), b+uint32(2*n)
				m.Faces = append(m.Faces, a, c, b, b, c, d)
			}
		}
	}
	return m
}

func TestCameras(t *testing.T) {
	good := front(10, 10)
	require.NoError(t, good.Validate())
	for name, change := range map[string]func(c *Camera){
		"no width":      func(c *Camera) { c.Width = 0 },
		"too high":      func(c *Camera) { c.Height = MaxSize + 1 },
		"eye":           func(c *Camera) { c.Eye[1] = math.NaN() },
		"axes":          func(c *Camera) { c.Down = c.Right },
		"length":        func(c *Camera) { c.Forward[1] = 2 },
		"focal":         func(c *Camera) { c.FX = 0 },
		"centre":        func(c *Camera) { c.CY = math.Inf(1) },
		"near":          func(c *Camera) { c.Near = 0 },
		"near is NaN":   func(c *Camera) { c.Near = math.NaN() },
		"zero":          func(c *Camera) { *c = Camera{} },
		"at its target": func(c *Camera) { *c = LookAt([3]float64{1}, [3]float64{1}, [3]float64{0, 0, 1}, 40, 9, 9) },
		"no angle":      func(c *Camera) { *c = Orbit{Distance: 1, FOV: -3}.Camera(0, 9, 9) },
		"half a turn":   func(c *Camera) { *c = InCameraFrame(180.5, 9, 9) },
	} {
		c := front(10, 10)
		change(&c)
		require.ErrorIs(t, c.Validate(), ErrCamera, name)
		s, err := NewSplats(cloud(3, 1))
		require.NoError(t, err)
		_, err = s.Draw(context.Background(), c)
		require.ErrorIs(t, err, ErrCamera, name)
	}
	for _, elevation := range []float64{-90, 0, 90} {
		require.NoError(t, Orbit{Distance: 3, Elevation: elevation}.Camera(10, 10, 10).Validate())
	}
	for _, up := range [][3]float64{{0, 0, 1}, {0, 1, 0}, {}, {1, 1, 1}} {
		require.NoError(t, LookAt([3]float64{0, 1, 0}, [3]float64{}, up, 40, 10, 10).Validate())
	}
	inf := float32(math.Inf(1))
	require.Equal(t, Sphere{Radius: math.Sqrt(3) / 2}, Fit([3]float32{inf, inf, inf}, [3]float32{-inf, -inf, -inf}))
}

// Fit and Orbit hold the whole object in the picture, and not much else.
func TestFit(t *testing.T) {
	m := sphere(60)
	s, err := NewMesh(m)
	require.NoError(t, err)
	target := Fit(s.Bounds())
	f := drawMesh(t, m, Orbit{Target: target}.Camera(0, 100, 140))
	seen := 0
	for y := range 140 {
		for x := range 100 {
			if f.at(x, y)[3] > 0 {
				require.True(t, x > 0 && x < 99 && y > 0 && y < 139)
				seen++
			}
		}
	}
	require.Greater(t, seen, 2000)
}

func TestBackground(t *testing.T) {
	f := &Frame{Width: 2, Height: 1, Pix: []float32{0.5, 0, 0, 0.5, 3, 0, 0, 1}}
	require.Equal(t, []uint8{255, 128, 128, 255, 255, 0, 0, 255}, f.Over(image.White).Pix)
	require.Equal(t, []uint8{128, 0, 0, 128, 255, 0, 0, 255}, f.Over(image.Transparent).Pix)
	photo := image.NewNRGBA(image.Rect(5, 5, 6, 6))
	photo.Set(5, 5, color.NRGBA{0, 0, 200, 255})
	require.Equal(t, []uint8{128, 0, 100, 255, 255, 0, 0, 255}, f.Over(photo).Pix)
}

func BenchmarkMesh(b *testing.B) {
	m, err := NewMesh(sphere(465)) // 865 k triangles
	require.NoError(b, err)
	orbit := Orbit{Target: Fit(m.Bounds()), Elevation: 20}
	i := 0.0
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Draw(context.Background(), orbit.Camera(i, 512, 512)); err != nil {
			b.Fatal(err)
		}
		i += 10
	}
}
