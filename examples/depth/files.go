// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"path/filepath"

	"github.com/gomlx3d/image3d/examples/internal/cli"
	"github.com/gomlx3d/image3d/export"
	"github.com/gomlx3d/image3d/internal/numpy"
	"github.com/gomlx3d/image3d/sam3d/input"
)

// outputFile is one file of the result.
type outputFile struct {
	name   string
	encode func(io.Writer, *view) error
}

var files = []outputFile{
	{"depth.png", writeColoured}, {"depth16.png", write16}, {"points.ply", writePLY}, {"pointmap.npy", writePointMap},
}

// write writes the file, whole or not at all.
func (f outputFile) write(s settings, v *view, sum *summary) error {
	path := filepath.Join(s.out, f.name)
	if err := export.File(path, s.force, func(w io.Writer) error { return f.encode(w, v) }); err != nil {
		return err
	}
	sum.Files = append(sum.Files, path)
	return nil
}

// prepareFolder makes the folder of the results and finds out, before any work, whether files can be made in it.
func prepareFolder(s settings) error {
	var names []string
	for _, file := range files {
		names = append(names, file.name)
	}
	if err := cli.MakeFolder(s.out, s.force, names...); err != nil {
		return err
	}
	return cli.CheckWritable(s.out)
}

// ramp are the colours of the coloured picture, from far to near: dark blue to pale yellow, ever brighter, so that it
// also reads without colours.
var ramp = []color.RGBA{{12, 10, 60, 255}, {40, 60, 140, 255}, {30, 120, 150, 255}, {90, 170, 110, 255}, {200, 200, 80, 255}, {255, 245, 200, 255}}

// ramped returns the colour at a place from 0, far, to 1, near.
func ramped(place float64) color.RGBA {
	place = min(max(place, 0), 1) * float64(len(ramp)-1)
	i := min(int(place), len(ramp)-2)
	mix := func(a, b uint8) uint8 {
		return uint8(math.Round(float64(a) + (place-float64(i))*(float64(b)-float64(a))))
	}
	a, b := ramp[i], ramp[i+1]
	return color.RGBA{mix(a.R, b.R), mix(a.G, b.G), mix(a.B, b.B), 255}
}

// writeColoured colours one over the depth, between its outer hundredths, so that near things show their shape. Pixels
// without a point are transparent.
func writeColoured(w io.Writer, v *view) error {
	img := image.NewNRGBA(image.Rect(0, 0, v.Width, v.Height))
	far, near := 1/v.quantile(0.99), 1/v.quantile(0.01)
	for i, z := range v.Depth {
		if v.valid(i) {
			c := ramped((1/float64(z) - far) / max(near-far, 1e-12))
			img.SetNRGBA(i%v.Width, i/v.Width, color.NRGBA(c))
		}
	}
	return png.Encode(w, img)
}

// write16 writes the depth in steps of the summary's depth_scale; 0 is none.
func write16(w io.Writer, v *view) error {
	img := image.NewGray16(image.Rect(0, 0, v.Width, v.Height))
	step := v.step()
	for i, z := range v.Depth {
		if steps := math.Round(float64(z) / step); v.valid(i) && steps <= math.MaxUint16 {
			img.SetGray16(i%v.Width, i/v.Width, color.Gray16{Y: uint16(max(steps, 1))})
		}
	}
	return png.Encode(w, img)
}

// pointMap returns the points in the camera frame of package sam3d, +X left, +Y up, +Z forward, NaN where there is none.
func pointMap(v *view) (input.PointMap, error) {
	return input.FromDepthCamera(v.Width, v.Height, v.Points)
}

func writePointMap(w io.Writer, v *view) error {
	points, err := pointMap(v)
	if err != nil {
		return err
	}
	return numpy.Write(w, &numpy.Array{Shape: []int{v.Height, v.Width, 3}, Data: points.Points})
}

// writePLY writes the valid points in the same frame with the colours of their pixels, and normals if there are some.
func writePLY(w io.Writer, v *view) error {
	points, err := pointMap(v)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, 1<<16)
	fmt.Fprintf(out, "ply\nformat binary_little_endian 1.0\nelement vertex %d\nproperty float x\nproperty float y\nproperty float z\n",
		len(v.sorted)) // Flush returns the first error
	if v.Normals != nil {
		fmt.Fprint(out, "property float nx\nproperty float ny\nproperty float nz\n")
	}
	fmt.Fprint(out, "property uchar red\nproperty uchar green\nproperty uchar blue\nend_header\n")
	size := v.Width * v.Height
	row := make([]byte, 0, 27)
	for i := range size {
		if !v.valid(i) {
			continue
		}
		row = row[:0]
		for _, x := range points.Points[3*i : 3*i+3] {
			row = binary.LittleEndian.AppendUint32(row, math.Float32bits(x))
		}
		if v.Normals != nil {
			n := v.Normals[3*i : 3*i+3]
			for _, x := range []float32{-n[0], -n[1], n[2]} {
				row = binary.LittleEndian.AppendUint32(row, math.Float32bits(x))
			}
		}
		for channel := range 3 {
			row = append(row, uint8(math.Round(255*float64(min(max(v.image.Pixels[channel*size+i], 0), 1)))))
		}
		if _, err := out.Write(row); err != nil {
			return err
		}
	}
	return out.Flush()
}
