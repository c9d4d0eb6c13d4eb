// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/gomlx3d/image3d/sam3d"
	"github.com/gomlx3d/image3d/testdata"
)

// errUsage is a wrong command line.
var errUsage = errors.New("wrong command line")

// settings are the flags.
type settings struct {
	inputs                         inputs
	model, out, backend            string
	seed                           uint64
	steps, latentSteps             int
	distilled, stream, json, force bool
	formats, meshFormats           []string
}

var (
	formats = map[string]sam3d.Output{
		"gaussian": sam3d.Gaussians, "gaussian4": sam3d.Gaussians4, "mesh": sam3d.Mesh,
	}
	meshFormats = []string{"glb", "obj", "stl"}
)

func parse(args []string, stderr io.Writer) (settings, error) {
	var s settings
	var formatList, meshFormatList string
	flags := flag.NewFlagSet("generate", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&s.model, "model", "", "checkpoint: a folder, or a repository owner/name[@revision] of the model hub (default: a small embedded model)")
	s.inputs.define(flags)
	flags.StringVar(&s.out, "out", "out", "folder of the results")
	flags.StringVar(&s.backend, "backend", "", "go, xla:cpu, xla:cuda or xla:rocm (default: $GOMLX_BACKEND, or go)")
	flags.Uint64Var(&s.seed, "seed", 42, "of the noise")
	flags.IntVar(&s.steps, "steps", 0, "steps of the structure flow (default: the checkpoint's, 25)")
	flags.IntVar(&s.latentSteps, "latent-steps", 0, "steps of the latent flow (default: the checkpoint's, 25)")
	flags.BoolVar(&s.stream, "stream", false, "hold the weights of one stage at a time: less memory, slower")
	flags.BoolVar(&s.distilled, "distilled", false, "sample the structure without guidance, for few steps")
	flags.StringVar(&formatList, "formats", "gaussian,mesh", "what to make, of gaussian, gaussian4 and mesh")
	flags.StringVar(&meshFormatList, "mesh-format", "glb", "files of the mesh, of glb, obj and stl")
	flags.BoolVar(&s.json, "json", false, "print the result as JSON")
	flags.BoolVar(&s.force, "force", false, "overwrite results that exist")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("%w: unexpected argument %q", errUsage, flags.Arg(0))
	}
	var err error
	flags.Visit(func(f *flag.Flag) {
		if (f.Name == "steps" && s.steps < 1) || (f.Name == "latent-steps" && s.latentSteps < 1) {
			err = fmt.Errorf("%w: -%s %s: at least one step is needed", errUsage, f.Name, f.Value)
		}
	})
	if err != nil {
		return s, err
	}
	if err := s.inputs.check(); err != nil {
		return s, err
	}
	if s.formats, err = choices("formats", formatList, []string{"gaussian", "gaussian4", "mesh"}); err != nil {
		return s, err
	}
	s.meshFormats, err = choices("mesh-format", meshFormatList, meshFormats)
	return s, err
}

// choices splits a list and checks that every entry is known.
func choices(flag, list string, known []string) ([]string, error) {
	var out []string
	for word := range strings.SplitSeq(list, ",") {
		word = strings.TrimSpace(word)
		if !slices.Contains(known, word) {
			return nil, fmt.Errorf("%w: -%s: unknown %q; there are %s", errUsage, flag, word, strings.Join(known, ", "))
		}
		if !slices.Contains(out, word) {
			out = append(out, word)
		}
	}
	return out, nil
}

// request reads the pictures.
func (s settings) request() (sam3d.Request, error) {
	r := sam3d.Request{Seed: s.seed, Steps: s.steps, LatentSteps: s.latentSteps, Distilled: s.distilled}
	for _, name := range s.formats {
		r.Outputs |= formats[name]
	}
	err := s.inputs.read(&r)
	return r, err
}

// checkpoint returns the source of the model, and what removes it again if it is a copy of the embedded one.
func (s settings) checkpoint(stderr io.Writer) (source string, cleanUp func(), err error) {
	if s.model != "" {
		return s.model, func() {}, nil
	}
	fmt.Fprintln(stderr, "No -model given: this is a small embedded model with random weights. It runs every stage and shows the\n"+
		"machinery; what it makes means nothing. Give -model a checkpoint of SAM 3D Objects.")
	folder, err := os.MkdirTemp("", "image3d-model-")
	if err != nil {
		return "", nil, err
	}
	cleanUp = func() { _ = os.RemoveAll(folder) }
	if err := testdata.WriteModel(folder); err != nil {
		cleanUp()
		return "", nil, fmt.Errorf("unpack the embedded model: %w", err)
	}
	return folder, cleanUp, nil
}
