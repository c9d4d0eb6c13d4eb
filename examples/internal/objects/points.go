// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package objects is what the command lines of the programs that make objects have in common.
package objects

import (
	"flag"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/gomlx3d/image3d/examples/internal/cli"
	"github.com/gomlx3d/image3d/sam3d"
)

// Points are the flags about what is known of the space that the photograph shows.
type Points struct {
	PointMap, Depth string // files
	Camera          sam3d.Intrinsics
	Scale           float64
}

// Define adds the flags.
func (p *Points) Define(flags *flag.FlagSet, loader *sam3d.Loader) {
	flags.StringVar(&p.PointMap, "pointmap", "", "point map [height, width, 3] as .npy or .npz, NaN or infinite where invalid (default: the checkpoint's depth model)")
	flags.Func("pointmap-axes", "axes of the point map: library (+X left, +Y up, +Z forward; the default) or opencv (+X right, +Y down, +Z forward)",
		func(name string) error {
			axes, known := map[string]sam3d.Axes{"library": sam3d.LibraryAxes, "opencv": sam3d.OpenCVAxes}[name]
			if !known {
				return fmt.Errorf("unknown %q; there are library and opencv", name)
			}
			loader.Axes = axes
			return nil
		})
	flags.StringVar(&p.Depth, "depth", "", "depth map in place of a point map: grey PNG of 16 bits, or [height, width] as .npy or .npz; it needs -intrinsics")
	flags.Func("intrinsics", "fx,fy,cx,cy of the depth map in its pixels, (0, 0) being the centre of the first", p.setCamera)
	flags.Float64Var(&p.Scale, "depth-scale", 1, "what depths are multiplied by, such as 0.001 for millimetres")
}

func (p *Points) setCamera(text string) error {
	words := strings.Split(text, ",")
	if len(words) != 4 {
		return fmt.Errorf("%d numbers, not four", len(words))
	}
	for i, to := range []*float64{&p.Camera.FX, &p.Camera.FY, &p.Camera.CX, &p.Camera.CY} {
		v, err := strconv.ParseFloat(strings.TrimSpace(words[i]), 64)
		if err != nil {
			return err
		}
		*to = v
	}
	return p.Camera.Validate()
}

// Given reports whether there is a file.
func (p *Points) Given() bool { return p.PointMap != "" || p.Depth != "" }

// Check reports flags that do not go together.
func (p *Points) Check() error {
	switch {
	case p.PointMap != "" && p.Depth != "":
		return fmt.Errorf("%w: -pointmap and -depth exclude each other", cli.ErrUsage)
	case p.Depth != "" && p.Camera == sam3d.Intrinsics{}:
		return fmt.Errorf("%w: -depth needs -intrinsics", cli.ErrUsage)
	case !(p.Scale > 0) || p.Scale > math.MaxFloat32:
		return fmt.Errorf("%w: -depth-scale %g", cli.ErrUsage, p.Scale)
	}
	return nil
}

// Read reads the file, if there is one.
func (p *Points) Read(loader sam3d.Loader) (*sam3d.PointMap, error) {
	switch {
	case p.PointMap != "":
		return sam3d.FromFile(p.PointMap, loader.PointMap)
	case p.Depth != "":
		return sam3d.FromFile(p.Depth, func(file io.Reader) (*sam3d.PointMap, error) {
			return loader.DepthMap(file, p.Camera, p.Scale)
		})
	}
	return nil, nil
}
