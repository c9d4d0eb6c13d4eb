// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/gomlx3d/image3d/sam3d"
	"github.com/gomlx3d/image3d/testdata"
	"github.com/gomlx3d/image3d/weights"
)

// errUsage is a wrong command line.
var errUsage = errors.New("wrong command line")

// settings are the flags and arguments.
type settings struct {
	model, depthModel, out, backend string
	image, labels                   string
	masks                           []string // files and folders
	points                          points
	loader                          sam3d.Loader
	seed                            uint64
	steps, latentSteps              int
	fitMask, distilled, stream      bool
	json, force                     bool
	formats                         []string
}

var formats = map[string]sam3d.Output{"gaussian": sam3d.Gaussians, "gaussian4": sam3d.Gaussians4, "mesh": sam3d.Mesh}

func parse(args []string, stderr io.Writer) (settings, error) {
	var s settings
	var formatList string
	flags := flag.NewFlagSet("scene", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "Usage: scene [flags] [masks or folders of masks]")
		flags.PrintDefaults()
	}
	flags.StringVar(&s.model, "model", "", "checkpoint: a folder, or a repository owner/name[@revision] of the model hub (default: a small embedded model)")
	flags.StringVar(&s.depthModel, "depth-model", "", "a MoGe of any version in place of the checkpoint's: a file, a folder or a repository of the model hub")
	flags.BoolVar(&s.stream, "stream", false, "weights are on the device during their stage only: less memory, more time for each object")
	flags.StringVar(&s.image, "image", "", "photograph: PNG, JPEG, GIF, WebP, TIFF or BMP (default: an embedded picture)")
	flags.StringVar(&s.labels, "labels", "", "label image: each palette index, grey or colour but 0 or black is an object")
	flags.BoolVar(&s.loader.NonZeroMask, "mask-nonzero", false, "every pixel of a mask that is not zero counts in full; JPEG masks are not cut at half brightness")
	flags.BoolVar(&s.fitMask, "fit-mask", false, "accept masks of another size than the photograph's, and take the nearest pixels")
	flags.IntVar(&s.loader.MaxPixels, "max-pixels", sam3d.DefaultMaxPixels, "most pixels of a picture or a point map")
	s.points.define(flags, &s.loader)
	flags.StringVar(&s.out, "out", "scene", "folder of the results")
	flags.StringVar(&s.backend, "backend", "", "go, xla:cpu, xla:cuda or xla:rocm (default: $GOMLX_BACKEND, or go)")
	flags.Uint64Var(&s.seed, "seed", 42, "of the noise, the same for all objects")
	flags.IntVar(&s.steps, "steps", 0, "steps of the structure flow (default: the checkpoint's, 25)")
	flags.IntVar(&s.latentSteps, "latent-steps", 0, "steps of the latent flow (default: the checkpoint's, 25)")
	flags.BoolVar(&s.distilled, "distilled", false, "sample the structure without guidance, for few steps")
	flags.StringVar(&formatList, "formats", "gaussian,mesh", "what to make of each object, of gaussian, gaussian4 and mesh")
	flags.BoolVar(&s.json, "json", false, "print scene.json, or the error as JSON")
	flags.BoolVar(&s.force, "force", false, "make all objects again, and overwrite another scene")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	s.masks = flags.Args()
	return s, s.check(flags, formatList)
}

// check reports values that make no sense and flags that do not go together.
func (s *settings) check(flags *flag.FlagSet, formatList string) (err error) {
	flags.Visit(func(f *flag.Flag) {
		if (f.Name == "steps" && s.steps < 1) || (f.Name == "latent-steps" && s.latentSteps < 1) {
			err = fmt.Errorf("%w: -%s %s: at least one step is needed", errUsage, f.Name, f.Value)
		}
	})
	for word := range strings.SplitSeq(formatList, ",") {
		word = strings.TrimSpace(word)
		if formats[word] == 0 {
			return fmt.Errorf("%w: -formats: unknown %q; there are gaussian, gaussian4 and mesh", errUsage, word)
		}
		if !slices.Contains(s.formats, word) {
			s.formats = append(s.formats, word)
		}
	}
	slices.Sort(s.formats)
	marked := len(s.masks) > 0 || s.labels != ""
	switch {
	case err != nil:
		return err
	case s.image == "" && (marked || s.points.given()):
		return fmt.Errorf("%w: masks, -labels, -pointmap and -depth need an -image", errUsage)
	case s.image != "" && !marked:
		return fmt.Errorf("%w: an -image needs masks, as arguments or by -labels", errUsage)
	case len(s.masks) > 0 && s.labels != "":
		return fmt.Errorf("%w: -labels and masks exclude each other", errUsage)
	case s.loader.MaxPixels < 1:
		return fmt.Errorf("%w: -max-pixels %d", errUsage, s.loader.MaxPixels)
	}
	return s.points.check()
}

// has reports whether a format was asked for.
func (s *settings) has(format string) bool { return slices.Contains(s.formats, format) }

// request is what all objects have in common.
func (s *settings) request(photo *sam3d.Photo) sam3d.Request {
	r := sam3d.Request{Photo: photo, Seed: s.seed, Steps: s.steps, LatentSteps: s.latentSteps, Distilled: s.distilled}
	for _, name := range s.formats {
		r.Outputs |= formats[name]
	}
	return r
}

// checkpoint returns the folder of the model, and what removes it again if it is a copy of the embedded one.
func (s *settings) checkpoint(ctx context.Context, stderr io.Writer) (folder string, cleanUp func(), err error) {
	if s.model != "" {
		folder, err = weights.Resolve(ctx, s.model, weights.HubOptions{})
		return folder, func() {}, err
	}
	fmt.Fprintln(stderr, "No -model given: this is a small embedded model with random weights. It runs every stage and shows the\n"+
		"machinery; what it makes means nothing. Give -model a checkpoint of SAM 3D Objects.")
	if folder, err = os.MkdirTemp("", "image3d-model-"); err != nil {
		return "", nil, err
	}
	cleanUp = func() { _ = os.RemoveAll(folder) }
	if err := testdata.WriteModel(folder); err != nil {
		cleanUp()
		return "", nil, fmt.Errorf("unpack the embedded model: %w", err)
	}
	return folder, cleanUp, nil
}
