// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package objects

import (
	"flag"
	"fmt"

	"github.com/gomlx3d/image3d/examples/internal/cli"
	"github.com/gomlx3d/image3d/sam3d"
)

// Sampling are the flags about what is made and how.
type Sampling struct {
	Seed        uint64
	Steps       int
	LatentSteps int
	Distilled   bool
	Formats     []string // as they were asked for

	list string
}

var (
	formats = []string{"gaussian", "gaussian4", "mesh"}
	outputs = map[string]sam3d.Output{"gaussian": sam3d.Gaussians, "gaussian4": sam3d.Gaussians4, "mesh": sam3d.Mesh}
)

// Define adds the flags.
func (s *Sampling) Define(flags *flag.FlagSet) {
	flags.Uint64Var(&s.Seed, "seed", 42, "of the noise")
	flags.IntVar(&s.Steps, "steps", 0, "steps of the structure flow (default: the checkpoint's, 25)")
	flags.IntVar(&s.LatentSteps, "latent-steps", 0, "steps of the latent flow (default: the checkpoint's, 25)")
	flags.BoolVar(&s.Distilled, "distilled", false, "sample the structure without guidance, for few steps")
	flags.StringVar(&s.list, "formats", "gaussian,mesh", "what to make of an object, of gaussian, gaussian4 and mesh")
}

// Check reports values that make no sense. It is called when the flags are parsed.
func (s *Sampling) Check(flags *flag.FlagSet) (err error) {
	flags.Visit(func(f *flag.Flag) {
		if (f.Name == "steps" && s.Steps < 1) || (f.Name == "latent-steps" && s.LatentSteps < 1) {
			err = fmt.Errorf("%w: -%s %s: at least one step is needed", cli.ErrUsage, f.Name, f.Value)
		}
	})
	if err == nil {
		s.Formats, err = cli.Choices("formats", s.list, formats)
	}
	return err
}

// Request is what the flags ask for, without a picture.
func (s *Sampling) Request() sam3d.Request {
	r := sam3d.Request{Seed: s.Seed, Steps: s.Steps, LatentSteps: s.LatentSteps, Distilled: s.Distilled}
	for _, name := range s.Formats {
		r.Outputs |= outputs[name]
	}
	return r
}
