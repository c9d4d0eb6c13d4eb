// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/gomlx3d/image3d/sam3d"
)

// points are the flags about what is known of the space that the photograph shows.
type points struct {
	pointMap, depth string // files
	camera          sam3d.Intrinsics
	scale           float64
}

// define adds the flags.
func (p *points) define(flags *flag.FlagSet, loader *sam3d.Loader) {
	flags.StringVar(&p.pointMap, "pointmap", "", "point map [height, width, 3] as .npy or .npz, NaN or infinite where invalid (default: the checkpoint's depth model)")
	flags.Func("pointmap-axes", "axes of the point map: library (+X left, +Y up, +Z forward; the default) or opencv (+X right, +Y down, +Z forward)",
		func(name string) error {
			axes, known := map[string]sam3d.Axes{"library": sam3d.LibraryAxes, "opencv": sam3d.OpenCVAxes}[name]
			if !known {
				return fmt.Errorf("unknown %q; there are library and opencv", name)
			}
			loader.Axes = axes
			return nil
		})
	flags.StringVar(&p.depth, "depth", "", "depth map in place of a point map: grey PNG of 16 bits, or [height, width] as .npy or .npz; it needs -intrinsics")
	flags.Func("intrinsics", "fx,fy,cx,cy of the depth map in its pixels, (0, 0) being the centre of the first", p.setCamera)
	flags.Float64Var(&p.scale, "depth-scale", 1, "what depths are multiplied by, such as 0.001 for millimetres")
}

func (p *points) setCamera(text string) error {
	words := strings.Split(text, ",")
	if len(words) != 4 {
		return fmt.Errorf("%d numbers, not four", len(words))
	}
	for i, to := range []*float64{&p.camera.FX, &p.camera.FY, &p.camera.CX, &p.camera.CY} {
		v, err := strconv.ParseFloat(strings.TrimSpace(words[i]), 64)
		if err != nil {
			return err
		}
		*to = v
	}
	return p.camera.Validate()
}

// given reports whether there is a file.
func (p *points) given() bool { return p.pointMap != "" || p.depth != "" }

// check reports flags that do not go together.
func (p *points) check() error {
	switch {
	case p.pointMap != "" && p.depth != "":
		return fmt.Errorf("%w: -pointmap and -depth exclude each other", errUsage)
	case p.depth != "" && p.camera == sam3d.Intrinsics{}:
		return fmt.Errorf("%w: -depth needs -intrinsics", errUsage)
	case !(p.scale > 0) || p.scale > math.MaxFloat32:
		return fmt.Errorf("%w: -depth-scale %g", errUsage, p.scale)
	}
	return nil
}

// read reads the file, if there is one.
func (p *points) read(loader sam3d.Loader) (*sam3d.PointMap, error) {
	switch {
	case p.pointMap != "":
		return sam3d.FromFile(p.pointMap, loader.PointMap)
	case p.depth != "":
		return sam3d.FromFile(p.depth, func(file io.Reader) (*sam3d.PointMap, error) {
			return loader.DepthMap(file, p.camera, p.scale)
		})
	}
	return nil, nil
}
