// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"image"
	"io"

	"github.com/gomlx3d/image3d/examples/internal/cli"
	"github.com/gomlx3d/image3d/moge"
	"github.com/gomlx3d/image3d/sam3d"
	"github.com/gomlx3d/image3d/testdata"
)

// settings are the flags.
type settings struct {
	model, image, out, backend string
	level, tokens, rounds      int
	fov                        float64
	project, all, json, force  bool
}

func parse(args []string, stderr io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("depth", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&s.model, "model", "", "MoGe of any version: model.pt, a folder (of a checkpoint of SAM 3D Objects too), or a repository owner/name[@revision] of the model hub (default: a small embedded model)")
	flags.StringVar(&s.image, "image", "", "photograph: PNG, JPEG, GIF, WebP, TIFF or BMP (default: an embedded picture)")
	flags.StringVar(&s.out, "out", "out", "folder of the results")
	flags.StringVar(&s.backend, "backend", "", "go, xla:cpu, xla:cuda or xla:rocm (default: $GOMLX_BACKEND, or go)")
	flags.IntVar(&s.level, "level", 9, "how fine to look, 0 to 9")
	flags.IntVar(&s.tokens, "tokens", 0, "number of patches to look at, in place of -level")
	flags.IntVar(&s.rounds, "rounds", 3, "rounds of refinement of MoGe-3")
	flags.Float64Var(&s.fov, "fov", 0, "horizontal field of view in degrees (default: it is estimated)")
	flags.BoolVar(&s.project, "project", false, "move the points to where the camera sees their pixels")
	flags.BoolVar(&s.all, "all", false, "keep the points that the model takes for invalid: sky, edges")
	flags.BoolVar(&s.json, "json", false, "print the result as JSON")
	flags.BoolVar(&s.force, "force", false, "overwrite results that exist")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	switch {
	case flags.NArg() > 0:
		return s, fmt.Errorf("%w: unexpected argument %q", cli.ErrUsage, flags.Arg(0))
	case s.level < 0 || s.level > 9:
		return s, fmt.Errorf("%w: -level %d: there are 0 to 9", cli.ErrUsage, s.level)
	case s.tokens < 0:
		return s, fmt.Errorf("%w: -tokens %d", cli.ErrUsage, s.tokens)
	case s.rounds < 0:
		return s, fmt.Errorf("%w: -rounds %d", cli.ErrUsage, s.rounds)
	case s.fov != 0 && !(s.fov > 0 && s.fov < 180):
		return s, fmt.Errorf("%w: -fov %g: it must be between 0 and 180", cli.ErrUsage, s.fov)
	}
	return s, nil
}

// options are the model's. Only MoGe-3 has rounds to count: its own number is the default, and none is never asked of
// the others.
func (s settings) options() moge.Options {
	o := moge.Options{
		ResolutionLevel: &s.level, NumTokens: s.tokens, FOVX: s.fov, ForceProjection: s.project, KeepInvalid: s.all,
	}
	switch s.rounds {
	case 0:
		o.RefineRounds = -1
	case 3:
	default:
		o.RefineRounds = s.rounds
	}
	return o
}

// picture reads the photograph.
func (s settings) picture() (image.Image, error) {
	if s.image == "" {
		picture, _, err := testdata.Picture()
		return picture, err
	}
	return sam3d.LoadImage(s.image, 0)
}

// checkpoint returns the source of the model, and what removes it again if it is a copy of the embedded one.
func (s settings) checkpoint(stderr io.Writer) (source string, cleanUp func(), err error) {
	if s.model != "" {
		return s.model, func() {}, nil
	}
	fmt.Fprintln(stderr, "No -model given: this is a small embedded model with random weights, and what it sees means nothing.\n"+
		"Give -model a MoGe: Ruicheng/moge-vitl, Ruicheng/moge-2-vitl-normal, or an MLX bundle with its depth model.")
	return testdata.TempModel()
}
