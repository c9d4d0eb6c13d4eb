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

// settings are the flags.
type settings struct {
	inputs              inputs
	sampling            objects.Sampling
	model, out, backend string
	keep, json, force   bool
	fused               bool
	memory              cli.Bytes
	meshFormats         []string
}

var meshFormats = []string{"glb", "obj", "stl"}

func parse(args []string, stderr io.Writer) (settings, error) {
	var s settings
	var meshFormatList string
	flags := flag.NewFlagSet("generate", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&s.model, "model", "", "checkpoint: a folder, or a repository owner/name[@revision] of the model hub (default: a small embedded model)")
	s.inputs.define(flags)
	flags.StringVar(&s.out, "out", "out", "folder of the results")
	flags.StringVar(&s.backend, "backend", "", "go, xla:cpu, xla:cuda or xla:rocm (default: $GOMLX_BACKEND, or go); xla:cuda,tf32 multiplies in TF32")
	s.sampling.Define(flags)
	flags.BoolVar(&s.keep, "keep-weights", false, "with -all, hold the weights of all stages for all objects: faster, with more memory")
	flags.Var(&s.memory, "memory-limit", "memory to keep to, as 8GB or 7.5GiB: weights are not kept and the mesh is made in slabs where it must be (default: none)")
	flags.BoolVar(&s.fused, "fused-attention", false, "on xla:cuda, attend by cuDNN's kernel in bfloat16 where it can")
	flags.StringVar(&meshFormatList, "mesh-format", "glb", "files of the mesh, of glb, obj and stl")
	flags.BoolVar(&s.json, "json", false, "print the result as JSON")
	flags.BoolVar(&s.force, "force", false, "overwrite results that exist")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("%w: unexpected argument %q", cli.ErrUsage, flags.Arg(0))
	}
	if err := s.sampling.Check(flags); err != nil {
		return s, err
	}
	if err := s.inputs.check(); err != nil {
		return s, err
	}
	var err error
	s.meshFormats, err = cli.Choices("mesh-format", meshFormatList, meshFormats)
	if err == nil && s.inputs.segmenter.all && meshFormatList != "glb" {
		err = fmt.Errorf("%w: -all writes meshes as glb", cli.ErrUsage)
	}
	return s, err
}

// request reads the pictures.
func (s settings) request() (sam3d.Request, error) {
	r := s.sampling.Request()
	err := s.inputs.read(&r)
	return r, err
}

// options are those of the pipeline.
func (s settings) options() sam3d.Options {
	return sam3d.Options{Backend: s.backend, KeepWeights: s.keep, MemoryLimit: int64(s.memory), FusedAttention: s.fused}
}
