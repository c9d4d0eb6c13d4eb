// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"flag"
	"fmt"
	"image"
	"image/png"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/gomlx3d/image3d/sam3d"
	"github.com/gomlx3d/image3d/testdata"
)

// inputs are the flags that name pictures and tell how to read them.
type inputs struct {
	image, mask, pointMap, depth string
	loader                       sam3d.Loader
	fitMask                      bool
	camera                       sam3d.Intrinsics
	depthScale                   float64
	segmenter                    segmenter
}

// define adds the flags.
func (in *inputs) define(flags *flag.FlagSet) {
	flags.StringVar(&in.image, "image", "", "photograph: PNG, JPEG, GIF, WebP, TIFF or BMP (default: an embedded picture)")
	flags.StringVar(&in.mask, "mask", "", "mask of the object, of the photograph's size (default: the photograph's alpha)")
	flags.BoolVar(&in.loader.NonZeroMask, "mask-nonzero", false, "every pixel of the mask that is not zero counts in full; JPEG masks are not cut at half brightness")
	flags.BoolVar(&in.fitMask, "fit-mask", false, "accept a mask of another size, and take the nearest pixels")
	flags.IntVar(&in.loader.MaxPixels, "max-pixels", sam3d.DefaultMaxPixels, "most pixels of a picture or a point map")
	flags.StringVar(&in.pointMap, "pointmap", "", "point map [height, width, 3] as .npy or .npz, NaN or infinite where invalid (default: the checkpoint's depth model)")
	flags.Func("pointmap-axes", "axes of the point map: library (+X left, +Y up, +Z forward; the default) or opencv (+X right, +Y down, +Z forward)", in.setAxes)
	flags.StringVar(&in.loader.Array, "array", "", "array to take from a .npz file (default: the only one, or pointmap, points or depth)")
	flags.StringVar(&in.depth, "depth", "", "depth map in place of a point map: grey PNG of 16 bits, or [height, width] as .npy or .npz; it needs -intrinsics")
	flags.Func("intrinsics", "fx,fy,cx,cy of the depth map in its pixels, (0, 0) being the centre of the first", in.setCamera)
	flags.Float64Var(&in.depthScale, "depth-scale", 1, "what depths are multiplied by, such as 0.001 for millimetres")
	in.segmenter.define(flags)
}

func (in *inputs) setAxes(name string) error {
	switch name {
	case "library":
		in.loader.Axes = sam3d.LibraryAxes
	case "opencv":
		in.loader.Axes = sam3d.OpenCVAxes
	default:
		return fmt.Errorf("unknown %q; there are library and opencv", name)
	}
	return nil
}

func (in *inputs) setCamera(text string) error {
	var values []float64
	for word := range strings.SplitSeq(text, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(word), 64)
		if err != nil {
			return err
		}
		values = append(values, v)
	}
	if len(values) != 4 {
		return fmt.Errorf("%d numbers, not four", len(values))
	}
	in.camera = sam3d.Intrinsics{FX: values[0], FY: values[1], CX: values[2], CY: values[3]}
	return in.camera.Validate()
}

// check reports flags that do not go together.
func (in *inputs) check() error {
	switch {
	case in.image == "" && (in.mask != "" || in.pointMap != "" || in.depth != ""):
		return fmt.Errorf("%w: -mask, -pointmap and -depth need an -image", errUsage)
	case in.pointMap != "" && in.depth != "":
		return fmt.Errorf("%w: -pointmap and -depth exclude each other", errUsage)
	case in.depth != "" && in.camera == sam3d.Intrinsics{}:
		return fmt.Errorf("%w: -depth needs -intrinsics", errUsage)
	case !(in.depthScale > 0) || in.depthScale > math.MaxFloat32:
		return fmt.Errorf("%w: -depth-scale %g", errUsage, in.depthScale)
	case in.loader.MaxPixels < 1:
		return fmt.Errorf("%w: -max-pixels %d", errUsage, in.loader.MaxPixels)
	}
	return in.segmenter.check(in)
}

// read reads the files into a request.
func (in *inputs) read(r *sam3d.Request) (err error) {
	if in.image == "" {
		r.Image, r.Mask, err = embedded()
		return err
	}
	if r.Image, err = sam3d.FromFile(in.image, in.loader.Image); err != nil {
		return err
	}
	if in.mask != "" {
		if r.Mask, err = in.readMask(r.Image); err != nil {
			return err
		}
	}
	if in.pointMap != "" {
		r.PointMap, err = sam3d.FromFile(in.pointMap, in.loader.PointMap)
	} else if in.depth != "" {
		r.PointMap, err = sam3d.FromFile(in.depth, func(file io.Reader) (*sam3d.PointMap, error) {
			return in.loader.DepthMap(file, in.camera, in.depthScale)
		})
	}
	return err
}

func (in *inputs) readMask(picture image.Image) (image.Image, error) {
	mask, err := sam3d.FromFile(in.mask, in.loader.Mask)
	if err != nil || !in.fitMask {
		return mask, err
	}
	return sam3d.FitMask(mask, picture)
}

func embedded() (picture, mask image.Image, err error) {
	if picture, err = png.Decode(bytes.NewReader(testdata.Image)); err != nil {
		return nil, nil, err
	}
	mask, err = png.Decode(bytes.NewReader(testdata.Mask))
	return picture, mask, err
}
