// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/gomlx3d/image3d/export"
	"github.com/gomlx3d/image3d/flexicubes"
	"github.com/gomlx3d/image3d/render"
	"github.com/gomlx3d/image3d/splat"
)

// subject is what is drawn.
type subject struct {
	what   string // for people
	draw   func(ctx context.Context, c render.Camera) (*render.Frame, error)
	bounds render.Sphere
}

// load reads the file.
func load(s settings) (*subject, error) {
	if s.in == "" {
		return splats(arrows(), false)
	}
	file, err := os.Open(s.in)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	name := fmt.Sprintf("%s: %%w", s.in)
	var out *subject
	switch extension := strings.ToLower(filepath.Ext(s.in)); extension {
	case ".ply":
		var g *splat.Gaussians
		if g, err = export.ReadPLY(file); err == nil {
			out, err = splats(g, s.posed)
		}
	case ".glb", ".obj", ".stl":
		var m *flexicubes.Mesh
		if m, err = readMesh(file, extension); err == nil {
			out, err = mesh(m, s, extension == ".glb")
		}
	default:
		err = fmt.Errorf("unknown type %q: there are .ply, .glb, .obj and .stl", extension)
	}
	if err != nil {
		return nil, fmt.Errorf(name, err)
	}
	return out, nil
}

func readMesh(file *os.File, extension string) (*flexicubes.Mesh, error) {
	switch extension {
	case ".obj":
		return export.ReadOBJ(file)
	case ".stl":
		return export.ReadSTL(file)
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	return export.ReadGLB(file, size)
}

// splats prepares Gaussians. Those in the camera frame, +X left, +Y up, +Z forward, are turned to z up so that the
// camera stands at -y: (x, y, z) becomes (-x, z, y).
func splats(g *splat.Gaussians, posed bool) (*subject, error) {
	if posed {
		half := math.Sqrt(0.5)
		if err := g.Transform(splat.NewPose([4]float64{0, 0, half, half}, [3]float64{}, 1)); err != nil {
			return nil, err
		}
	}
	s, err := render.NewSplats(g)
	if err != nil {
		return nil, err
	}
	return &subject{fmt.Sprintf("%d Gaussians", g.Len()), s.Draw, render.Fit(s.Bounds())}, nil
}

// mesh prepares a mesh, turned as splats are.
func mesh(m *flexicubes.Mesh, s settings, turned bool) (*subject, error) {
	if s.posed {
		for i := 0; i+2 < len(m.Vertices); i += 3 {
			v := m.Vertices[i : i+3]
			if turned { // to z up already: (x, -z, y)
				v[0], v[1] = -v[0], -v[1]
			} else {
				v[0], v[1], v[2] = -v[0], v[2], v[1]
			}
		}
	}
	r, err := render.NewMesh(m)
	if err != nil {
		return nil, err
	}
	r.Unlit = s.unlit
	return &subject{fmt.Sprintf("%d triangles", len(m.Faces)/3), r.Draw, render.Fit(r.Bounds())}, nil
}

// arrows returns splats on three arrows from the origin along the axes: red, green and blue, 0.5, 0.4 and 0.3 long.
func arrows() *splat.Gaussians {
	const (
		steps, around = 60, 48
		shaft, head   = 0.015, 0.04 // radii
		size          = 0.0022      // of a splat
	)
	g := &splat.Gaussians{}
	for axis, length := range []float64{0.5, 0.4, 0.3} {
		for i := range steps {
			along := length * (float64(i) + 0.5) / steps
			radius := shaft
			if tip := length - along; tip < 0.12 {
				radius = head * tip / 0.12
			}
			for k := range around {
				sin, cos := math.Sincos(2 * math.Pi * (float64(k) + 0.5*float64(i%2)) / around)
				var p [3]float32
				p[axis], p[(axis+1)%3], p[(axis+2)%3] = float32(along), float32(radius*cos), float32(radius*sin)
				l := float32(math.Log(size))
				color := [3]float32{-1.2, -1.2, -1.2}
				color[axis] = 1.2 + 0.4*float32(sin) // some shade
				g.Means = append(g.Means, p[:]...)
				g.SH = append(g.SH, color[:]...)
				g.LogScales = append(g.LogScales, l, l, l)
				g.Rotations = append(g.Rotations, 1, 0, 0, 0)
				g.OpacityLogits = append(g.OpacityLogits, 4)
			}
		}
	}
	return g
}
