// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Command depth estimates the geometry of a photograph: a coloured and a 16-bit depth picture, a point cloud, and a point
// map that the generate command takes.
//
//	go run ./examples/depth
//	go run ./examples/depth -model moge -image photo.jpg -backend xla:cpu -out depth
//	go run ./examples/generate -model checkpoints -image photo.jpg -mask chair.png -pointmap depth/pointmap.npy
//
// Without flags it runs a small embedded model with random weights on an embedded picture, on the pure Go backend.
package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/gomlx3d/image3d/examples/internal/cli"
	"github.com/gomlx3d/image3d/moge"
	"github.com/gomlx3d/image3d/sam3d"
	"github.com/gomlx3d/image3d/weights"
)

func main() { cli.Main(run) }

// run is the program. It returns the exit status: 0, 1 for a failure, 2 for a wrong command line.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p := cli.Program{Name: "depth", Stdout: stdout, Stderr: stderr}
	s, err := parse(args, stderr)
	if err != nil {
		return p.Refuse(err)
	}
	summary, err := estimate(ctx, s, stderr)
	return p.Report(summary, summary.print, s.json, err)
}

// estimate reads the picture, runs the model and writes the files.
func estimate(ctx context.Context, s settings, stderr io.Writer) (*summary, error) {
	if err := prepareFolder(s); err != nil {
		return nil, err
	}
	picture, err := s.picture()
	if err != nil {
		return nil, err
	}
	image, err := moge.NewImage(picture)
	if err != nil {
		return nil, err
	}
	backend, err := sam3d.OpenBackend(s.backend)
	if err != nil {
		return nil, err
	}
	source, cleanUp, err := s.checkpoint(stderr)
	if err != nil {
		return nil, err
	}
	defer cleanUp()
	model, err := moge.Open(ctx, backend, source, weights.HubOptions{})
	if err != nil {
		return nil, err
	}
	defer model.Close()
	start := time.Now()
	geometry, err := model.Infer(ctx, image, s.options())
	if err != nil {
		return nil, err
	}
	view := newView(image, geometry)
	summary := view.summarise(model.Config().Version, time.Since(start))
	for _, file := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := file.write(s, view, summary); err != nil {
			return nil, err
		}
	}
	for _, warning := range summary.Warnings {
		fmt.Fprintln(stderr, "warning:", warning)
	}
	return summary, ctx.Err()
}
