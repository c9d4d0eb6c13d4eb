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
	"errors"
	"fmt"
	"image"
	"io"

	"github.com/gomlx3d/image3d/examples/internal/cli"
	"github.com/gomlx3d/image3d/sam3d"
	"github.com/gomlx3d/image3d/sam3d/segment"
	"github.com/gomlx3d/image3d/weights"
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

// found is an object, whichever way it was found.
type found struct {
	mask  *image.Gray
	box   segment.Box
	score float32
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
	objects, err := s.objects(ctx, picture)
	if err != nil {
		return nil, err
	}
	return write(ctx, s, picture, objects)
}

// objects runs the network.
func (s settings) objects(ctx context.Context, picture image.Image) ([]found, error) {
	backend, err := sam3d.OpenBackend(s.backend)
	if err != nil {
		return nil, err
	}
	model, err := segment.Open(ctx, backend, s.model, weights.HubOptions{})
	if err != nil {
		return nil, err
	}
	defer model.Close()
	if s.vocabulary != "" {
		if err := model.LoadVocabulary(s.vocabulary); err != nil {
			return nil, err
		}
	}
	encoding, err := model.Encode(ctx, picture)
	if err != nil {
		return nil, err
	}
	defer encoding.Close()
	if s.clicks() {
		return click(ctx, encoding, s.points)
	}
	detections, err := encoding.Segment(ctx, segment.Prompt{Text: s.text, Boxes: s.boxes, Points: s.points, Threshold: s.threshold})
	if errors.Is(err, segment.ErrVocabulary) {
		err = fmt.Errorf("%w; -vocabulary names it", err)
	}
	if err != nil {
		return nil, err
	}
	objects := make([]found, len(detections))
	for i, d := range detections {
		objects[i] = found{d.Mask, d.Box, d.Score}
	}
	return objects, nil
}

// click finds the object under some points.
func click(ctx context.Context, encoding *segment.Encoding, points []segment.Point) ([]found, error) {
	answers, err := encoding.Click(ctx, segment.ClickPrompt{Points: points})
	if err != nil {
		return nil, err
	}
	var objects []found
	for _, o := range answers {
		box, any := boundsOf(o.Mask)
		if any {
			objects = append(objects, found{o.Mask, box, o.Score})
		}
	}
	return objects, nil
}

// boundsOf returns the box around what is inside a mask, and whether anything is.
func boundsOf(mask *image.Gray) (segment.Box, bool) {
	var bounds image.Rectangle
	size := mask.Rect.Size()
	for y := range size.Y {
		row := mask.Pix[y*mask.Stride:][:size.X]
		for x, v := range row {
			if v != 0 {
				bounds = bounds.Union(image.Rect(x, y, x+1, y+1))
			}
		}
	}
	box := segment.Box{
		X0: float64(bounds.Min.X), Y0: float64(bounds.Min.Y), X1: float64(bounds.Max.X), Y1: float64(bounds.Max.Y),
	}
	return box, !bounds.Empty()
}
