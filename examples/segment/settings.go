// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"io"

	"github.com/gomlx3d/image3d/examples/internal/cli"
	"github.com/gomlx3d/image3d/examples/internal/segmenter"
	"github.com/gomlx3d/image3d/sam3d"
)

// settings are the flags.
type settings struct {
	look        segmenter.Flags
	backend     string
	image, out  string
	maxPixels   int
	json, force bool
}

func parse(args []string, stderr io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("segment", flag.ContinueOnError)
	flags.SetOutput(stderr)
	s.look.Define(flags, "model", "", "points", "alone they find the one object under them, with -text or -boxes they are examples")
	flags.StringVar(&s.image, "image", "", "photograph: PNG, JPEG, GIF, WebP, TIFF or BMP")
	flags.IntVar(&s.maxPixels, "max-pixels", sam3d.DefaultMaxPixels, "most pixels of the photograph")
	flags.StringVar(&s.out, "out", "out", "folder of the results")
	flags.StringVar(&s.backend, "backend", "", "go, xla:cpu, xla:cuda or xla:rocm (default: $GOMLX_BACKEND, or go)")
	flags.BoolVar(&s.json, "json", false, "print the result as JSON")
	flags.BoolVar(&s.force, "force", false, "overwrite results that exist")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	return s, s.check(flags)
}

// check reports flags that are missing or do not go together.
func (s *settings) check(flags *flag.FlagSet) error {
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("%w: unexpected argument %q", cli.ErrUsage, flags.Arg(0))
	case s.look.Checkpoint == "" || s.image == "":
		return fmt.Errorf("%w: -model and -image are needed", cli.ErrUsage)
	case !s.look.Given():
		return fmt.Errorf("%w: -text, -points or -boxes is needed", cli.ErrUsage)
	case s.maxPixels < 1:
		return fmt.Errorf("%w: -max-pixels %d", cli.ErrUsage, s.maxPixels)
	}
	return s.look.Check()
}
