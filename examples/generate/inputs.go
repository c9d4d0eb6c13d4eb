// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"image"

	"github.com/gomlx3d/image3d/examples/internal/cli"
	"github.com/gomlx3d/image3d/examples/internal/objects"
	"github.com/gomlx3d/image3d/sam3d"
	"github.com/gomlx3d/image3d/testdata"
)

// inputs are the flags that name pictures and tell how to read them.
type inputs struct {
	image, mask string
	loader      sam3d.Loader
	fitMask     bool
	points      objects.Points
	segmenter   finder
}

// define adds the flags.
func (in *inputs) define(flags *flag.FlagSet) {
	flags.StringVar(&in.image, "image", "", "photograph: PNG, JPEG, GIF, WebP, TIFF or BMP (default: an embedded picture)")
	flags.StringVar(&in.mask, "mask", "", "mask of the object, of the photograph's size (default: the photograph's alpha)")
	flags.BoolVar(&in.loader.NonZeroMask, "mask-nonzero", false, "every pixel of the mask that is not zero counts in full; JPEG masks are not cut at half brightness")
	flags.BoolVar(&in.fitMask, "fit-mask", false, "accept a mask of another size, and take the nearest pixels")
	flags.IntVar(&in.loader.MaxPixels, "max-pixels", sam3d.DefaultMaxPixels, "most pixels of a picture or a point map")
	in.points.Define(flags, &in.loader)
	flags.StringVar(&in.loader.Array, "array", "", "array to take from a .npz file (default: the only one, or pointmap, points or depth)")
	in.segmenter.define(flags)
}

// check reports flags that do not go together.
func (in *inputs) check() error {
	if in.image == "" && (in.mask != "" || in.points.Given()) {
		return fmt.Errorf("%w: -mask, -pointmap and -depth need an -image", cli.ErrUsage)
	}
	if err := in.points.Check(); err != nil {
		return err
	}
	if in.loader.MaxPixels < 1 {
		return fmt.Errorf("%w: -max-pixels %d", cli.ErrUsage, in.loader.MaxPixels)
	}
	return in.segmenter.check(in)
}

// read reads the files into a request.
func (in *inputs) read(r *sam3d.Request) (err error) {
	if in.image == "" {
		r.Image, r.Mask, err = testdata.Picture()
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
	r.PointMap, err = in.points.Read(in.loader)
	return err
}

func (in *inputs) readMask(picture image.Image) (image.Image, error) {
	mask, err := sam3d.FromFile(in.mask, in.loader.Mask)
	if err != nil || !in.fitMask {
		return mask, err
	}
	return sam3d.FitMask(mask, picture)
}
