// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Command generate makes the Gaussians, the mesh and the pose of one object from a photograph and a mask.
//
//	go run ./examples/generate
//	go run ./examples/generate -model checkpoints -image photo.jpg -mask chair.png -backend xla:cpu -out chair
//	go run ./examples/generate -model checkpoints -image photo.jpg -segmenter sam3.pt -text "the chair" -out chair
//	go run ./examples/generate -model checkpoints -image photo.jpg -segmenter sam3.pt -text chair -all -out chairs
//
// With -all it makes every object that the segmenter finds, and a scene of them: the folder then holds what
// examples/scene writes, and each object's mask. What was interrupted goes on with the same command; an object that fails
// does not stop the others. It is an error if nothing in the photograph scores above -threshold.
//
// Without flags it runs a small embedded model with random weights on an embedded picture, on the pure Go backend.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/gomlx3d/image3d/examples/internal/cli"
	"github.com/gomlx3d/image3d/examples/internal/objects"
	"github.com/gomlx3d/image3d/sam3d"
)

func main() { cli.Main(run) }

// run is the program. It returns the exit status: 0, 1 for a failure, 2 for a wrong command line, 3 if some objects of
// -all failed.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p := cli.Program{Name: "generate", Stdout: stdout, Stderr: stderr}
	s, err := parse(args, stderr)
	if err != nil {
		return p.Refuse(err)
	}
	if s.inputs.segmenter.all {
		record, err := makeAll(ctx, s, stderr)
		print := func(w io.Writer) error { return record.Print(w, s.out) }
		return record.Status(p.Report(record, print, s.json, err))
	}
	summary, err := generate(ctx, s, stderr)
	return p.Report(summary, summary.print, s.json, err)
}

// hint adds to an error what may be done about it.
func hint(err error) error {
	var size *sam3d.SizeMismatchError
	switch {
	case errors.Is(err, sam3d.ErrNoVoxels):
		return fmt.Errorf("%w; the model sees no object there: check the mask, or try another -seed", err)
	case errors.Is(err, sam3d.ErrNoMask):
		return fmt.Errorf("%w; -mask names a mask, and -segmenter finds one", err)
	case errors.As(err, &size):
		return fmt.Errorf("%w; if it is a mask of this picture, -fit-mask accepts it", err)
	}
	return err
}

// generate reads the pictures, runs the pipeline and writes the files.
func generate(ctx context.Context, s settings, stderr io.Writer) (*summary, error) {
	if err := prepareFolder(s); err != nil {
		return nil, err
	}
	request, err := s.request()
	if err != nil {
		return nil, err
	}
	if s.inputs.segmenter.on() {
		if request.Mask, err = s.inputs.segmenter.mask(ctx, s.backend, request.Image, stderr); err != nil {
			return nil, err
		}
	}
	model, cleanUp, err := objects.Checkpoint(ctx, s.model, stderr)
	if err != nil {
		return nil, err
	}
	defer cleanUp()
	pipeline, err := sam3d.Open(ctx, model, s.options())
	if err != nil {
		return nil, err
	}
	defer pipeline.Close()

	bar := objects.NewProgress(stderr)
	request.Progress = bar.Of("")
	result, err := pipeline.Generate(ctx, request)
	bar.Close()
	if err != nil {
		return nil, hint(err)
	}
	summary := summarise(s, result)
	for _, file := range s.files(request.Mask) {
		if err := file.write(s.out, s.force, result, summary); err != nil {
			return nil, err
		}
	}
	for _, warning := range summary.Warnings {
		fmt.Fprintln(stderr, "warning:", warning)
	}
	return summary, ctx.Err()
}
