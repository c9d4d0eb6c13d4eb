// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Command segment finds objects in a photograph with SAM 3: all that words or examples describe, or the one under some
// points.
//
//	go run ./examples/segment -model sam3.pt -image photo.jpg -text "yellow chair" -backend xla:cpu -out chairs
//	go run ./examples/segment -model sam3.pt -image photo.jpg -points 420,310 -out chair
//	go run ./examples/segment -model sam3.pt -image photo.jpg -boxes "100,80,300,400;500,90,640,380,0" -out like-it
//
// It writes a mask as a PNG file for each object, the photograph with all of them drawn in, and detections.json.
package main

import (
	"context"
	"io"

	"github.com/gomlx3d/image3d/examples/internal/cli"
	"github.com/gomlx3d/image3d/examples/internal/segmenter"
	"github.com/gomlx3d/image3d/sam3d"
	"github.com/gomlx3d/image3d/sam3d/segment"
)

func main() { cli.Main(run) }

// run is the program. It returns the exit status: 0, also if nothing was found, 1 for a failure, 2 for a wrong command
// line.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p := cli.Program{Name: "segment", Stdout: stdout, Stderr: stderr}
	s, err := parse(args, stderr)
	if err != nil {
		return p.Refuse(err)
	}
	report, err := find(ctx, s)
	return p.Report(report, report.print, s.json, err)
}

// find reads the photograph, runs the network and writes the files.
func find(ctx context.Context, s settings) (*report, error) {
	if err := prepareFolder(s); err != nil {
		return nil, err
	}
	picture, err := sam3d.FromFile(s.image, sam3d.Loader{MaxPixels: s.maxPixels}.Image)
	if err != nil {
		return nil, err
	}
	var objects []segmenter.Object
	err = s.look.Encoded(ctx, s.backend, picture, func(encoding *segment.Encoding) (err error) {
		objects, err = s.look.Find(ctx, encoding)
		return err
	})
	if err != nil {
		return nil, segmenter.Hint(err)
	}
	return write(ctx, s, picture, objects)
}
