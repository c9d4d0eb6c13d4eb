// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"io"

	"github.com/gomlx3d/image3d/examples/internal/cli"
	"github.com/gomlx3d/image3d/examples/internal/objects"
	"github.com/gomlx3d/image3d/sam3d"
)

// settings are the flags and arguments.
type settings struct {
	model, depthModel, out, backend string
	image, labels                   string
	masks                           []string // files and folders
	points                          objects.Points
	sampling                        objects.Sampling
	loader                          sam3d.Loader
	fitMask, keep, json, force      bool
	memory                          cli.Bytes
}

func parse(args []string, stderr io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("scene", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "Usage: scene [flags] [masks or folders of masks]")
		flags.PrintDefaults()
	}
	flags.StringVar(&s.model, "model", "", "checkpoint: a folder, or a repository owner/name[@revision] of the model hub (default: a small embedded model)")
	flags.StringVar(&s.depthModel, "depth-model", "", "a MoGe of any version in place of the checkpoint's: a file, a folder or a repository of the model hub")
	flags.BoolVar(&s.keep, "keep-weights", false, "hold the weights of all stages for all objects: faster, with more memory")
	flags.Var(&s.memory, "memory-limit", "memory to keep to, as 8GB or 7.5GiB: weights are not kept and the mesh is made in slabs where it must be (default: none)")
	flags.StringVar(&s.image, "image", "", "photograph: PNG, JPEG, GIF, WebP, TIFF or BMP (default: an embedded picture)")
	flags.StringVar(&s.labels, "labels", "", "label image: each palette index, grey or colour but 0 or black is an object")
	flags.BoolVar(&s.loader.NonZeroMask, "mask-nonzero", false, "every pixel of a mask that is not zero counts in full; JPEG masks are not cut at half brightness")
	flags.BoolVar(&s.fitMask, "fit-mask", false, "accept masks of another size than the photograph's, and take the nearest pixels")
	flags.IntVar(&s.loader.MaxPixels, "max-pixels", sam3d.DefaultMaxPixels, "most pixels of a picture or a point map")
	s.points.Define(flags, &s.loader)
	flags.StringVar(&s.out, "out", "scene", "folder of the results")
	flags.StringVar(&s.backend, "backend", "", "go, xla:cpu, xla:cuda or xla:rocm (default: $GOMLX_BACKEND, or go)")
	s.sampling.Define(flags)
	flags.BoolVar(&s.json, "json", false, "print scene.json, or the error as JSON")
	flags.BoolVar(&s.force, "force", false, "make all objects again, and overwrite another scene")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	s.masks = flags.Args()
	return s, s.check(flags)
}

// check reports values that make no sense and flags that do not go together.
func (s *settings) check(flags *flag.FlagSet) error {
	if err := s.sampling.Check(flags); err != nil {
		return err
	}
	marked := len(s.masks) > 0 || s.labels != ""
	switch {
	case s.image == "" && (marked || s.points.Given()):
		return fmt.Errorf("%w: masks, -labels, -pointmap and -depth need an -image", cli.ErrUsage)
	case s.image != "" && !marked:
		return fmt.Errorf("%w: an -image needs masks, as arguments or by -labels", cli.ErrUsage)
	case len(s.masks) > 0 && s.labels != "":
		return fmt.Errorf("%w: -labels and masks exclude each other", cli.ErrUsage)
	case s.loader.MaxPixels < 1:
		return fmt.Errorf("%w: -max-pixels %d", cli.ErrUsage, s.loader.MaxPixels)
	}
	return s.points.Check()
}
