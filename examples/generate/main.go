// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Command generate makes the Gaussians, the mesh and the pose of one object from a photograph and a mask.
//
//	go run ./examples/generate
//	go run ./examples/generate -model checkpoints -image photo.jpg -mask chair.png -backend xla:cpu -out chair
//	go run ./examples/generate -model checkpoints -image photo.jpg -segmenter sam3.pt -text "the chair" -out chair
//
// Without flags it runs a small embedded model with random weights on an embedded picture, on the pure Go backend.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/gomlx3d/image3d/sam3d"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program. It returns the exit status: 0, 1 for a failure, 2 for a wrong command line.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(stderr, "generate:", err)
		return 2
	}
	summary, err := generate(ctx, s, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "generate:", err)
		if s.json {
			_ = json.NewEncoder(stdout).Encode(map[string]string{"error": err.Error()})
		}
		return 1
	}
	if s.json {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(summary)
	} else {
		err = summary.print(stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "generate:", err)
		return 1
	}
	return 0
}

// generate reads the pictures, runs the pipeline and writes the files.
func generate(ctx context.Context, s settings, stderr io.Writer) (*summary, error) {
	folder, err := prepareFolder(s)
	if err != nil {
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
	model, cleanUp, err := s.checkpoint(stderr)
	if err != nil {
		return nil, err
	}
	defer cleanUp()
	pipeline, err := sam3d.Open(ctx, model, sam3d.Options{Backend: s.backend, Stream: s.stream})
	if err != nil {
		return nil, err
	}
	defer pipeline.Close()

	bar := newProgress(stderr)
	request.Progress = bar.event
	result, err := pipeline.Generate(ctx, request)
	bar.close()
	if errors.Is(err, sam3d.ErrNoVoxels) {
		return nil, fmt.Errorf("%w; the model sees no object there: check the mask, or try another -seed", err)
	}
	if err != nil {
		return nil, err
	}
	summary := summarise(s, result)
	for _, file := range s.files(request.Mask) {
		if err := file.write(folder, s.force, result, summary); err != nil {
			return nil, err
		}
	}
	for _, warning := range summary.Warnings {
		fmt.Fprintln(stderr, "warning:", warning)
	}
	return summary, ctx.Err()
}
