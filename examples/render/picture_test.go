// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"image"
	"image/draw"
	"io"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/export"
	"github.com/gomlx3d/image3d/flexicubes"
	"github.com/gomlx3d/image3d/render"
	"github.com/gomlx3d/image3d/splat"
)

// picturePath makes TestMug write the animation of the documentation:
//
//	go test ./examples/render -run TestMug -picture ../../docs/turntable.gif
var picturePath = flag.String("picture", "", "file to write the animation of the mug to")

// A mug as a mesh, and as flat splats on that mesh, look the same. Nothing of it was made by a model.
func TestMug(t *testing.T) {
	ctx := context.Background()
	resolution, frames, size := 40, 3, 100
	if *picturePath != "" {
		resolution, frames, size = 100, 20, 160
	}
	shape := mug(t, resolution)
	g, err := splats(discs(shape, 0.4/float64(resolution)), false)
	require.NoError(t, err)
	m, err := mesh(shape, settings{}, false)
	require.NoError(t, err)

	animation := render.Animation{Delay: 100 * time.Millisecond}
	orbit := render.Orbit{Target: render.Sphere{Center: [3]float64{0.05, 0, 0}, Radius: 0.5}, Elevation: 25}
	for i := range frames {
		c := orbit.Camera(20+360*float64(i)/float64(frames), size, size)
		both := image.NewRGBA(image.Rect(0, 0, 2*size, size))
		var pictures [2]image.Image
		for k, what := range []*subject{g, m} {
			frame, err := what.draw(ctx, c)
			require.NoError(t, err)
			pictures[k] = frame.Over(image.Transparent)
			draw.Draw(both, image.Rect(k*size, 0, (k+1)*size, size), frame.Over(image.White), image.Point{}, draw.Src)
		}
		require.Greater(t, overlap(pictures[0], pictures[1]), 0.9, "frame %d", i)
		animation.Frames = append(animation.Frames, both)
	}
	if *picturePath != "" {
		require.NoError(t, export.File(*picturePath, true, func(w io.Writer) error { return animation.Write(ctx, w) }))
	}
}

// mug returns a mug with a handle to +x, from its signed distances on a grid.
func mug(t *testing.T, resolution int) *flexicubes.Mesh {
	t.Helper()
	field := flexicubes.Field{Resolution: resolution}
	at := func(i int) float64 { return float64(i)/float64(resolution) - 0.5 }
	for ix := range resolution + 1 {
		for iy := range resolution + 1 {
			for iz := range resolution + 1 {
				x, y, z := at(ix), at(iy), at(iz)
				r := math.Hypot(x, y)
				outside := max(r-0.2713-0.02*z, math.Abs(z)-0.36)
				cavity := max(r-0.2257-0.02*z, -0.3-z)
				handle := math.Hypot(math.Hypot(x-0.27, z)-0.16, y) - 0.035
				field.SDF = append(field.SDF, float32(max(min(outside, handle), -cavity)))
				color := [3]float64{0.8, 0.36, 0.3}
				if math.Abs(math.Abs(z)-0.12) < 0.035 && outside > -0.02 {
					color = [3]float64{0.92, 0.88, 0.8}
				}
				for _, c := range color {
					field.Colors = append(field.Colors, float32(math.Log(c/(1-c))))
				}
				field.Colors = append(field.Colors, 0, 0, 0)
			}
		}
	}
	m, err := flexicubes.FromField(context.Background(), field)
	require.NoError(t, err)
	return m
}

// discs returns a flat splat in the middle of every triangle, across its normal. Light from above is in their colours.
func discs(m *flexicubes.Mesh, radius float64) *splat.Gaussians {
	g := &splat.Gaussians{}
	wide, thin := float32(math.Log(radius)), float32(math.Log(radius/10))
	for f := 0; f < len(m.Faces); f += 3 {
		var corner [3][3]float64
		var middle, color [3]float32
		for i, index := range m.Faces[f : f+3] {
			for k := range 3 {
				corner[i][k] = float64(m.Vertices[3*int(index)+k])
				middle[k] += m.Vertices[3*int(index)+k] / 3
				color[k] += m.Colors[3*int(index)+k] / 3
			}
		}
		n := normal(corner)
		if n == [3]float64{} {
			continue
		}
		light := float32(0.75 + 0.15*n[2] - 0.1*n[1])
		g.Means = append(g.Means, middle[:]...)
		for _, c := range color {
			g.SH = append(g.SH, (light*c-0.5)/0.28209479)
		}
		g.LogScales = append(g.LogScales, wide, wide, thin)
		// The shortest turn from +z to the normal.
		g.Rotations = append(g.Rotations, float32(1+n[2])+1e-6, float32(-n[1]), float32(n[0]), 0)
		g.OpacityLogits = append(g.OpacityLogits, 3)
	}
	return g
}

// normal returns the unit normal of a triangle, or zero.
func normal(c [3][3]float64) (n [3]float64) {
	var a, b [3]float64
	for k := range 3 {
		a[k], b[k] = c[1][k]-c[0][k], c[2][k]-c[0][k]
	}
	n = [3]float64{a[1]*b[2] - a[2]*b[1], a[2]*b[0] - a[0]*b[2], a[0]*b[1] - a[1]*b[0]}
	length := math.Sqrt(n[0]*n[0] + n[1]*n[1] + n[2]*n[2])
	if length == 0 {
		return [3]float64{}
	}
	return [3]float64{n[0] / length, n[1] / length, n[2] / length}
}
