// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"image"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx3d/image3d/examples/internal/cli"
	"github.com/gomlx3d/image3d/sam3d"
	"github.com/gomlx3d/image3d/sam3d/segment"
	"github.com/gomlx3d/image3d/weights"
)

// segmenter are the flags that find the object by words or clicks, in place of a mask.
type segmenter struct {
	model, text string
	points      []segment.Point
}

// define adds the flags.
func (f *segmenter) define(flags *flag.FlagSet) {
	flags.StringVar(&f.model, "segmenter", "", "checkpoint of SAM 3 or SAM 3.1 to find the object with, in place of -mask: a file, a folder, or owner/name[@revision]")
	flags.StringVar(&f.text, "text", "", "words for the object, for -segmenter, which takes the best fit")
	flags.Func("point", "x,y of a pixel of the object, for -segmenter; may be repeated", f.addPoint)
}

func (f *segmenter) addPoint(text string) error {
	left, right, ok := strings.Cut(text, ",")
	if !ok {
		return fmt.Errorf("%q is not x,y", text)
	}
	x, err := strconv.ParseFloat(strings.TrimSpace(left), 64)
	if err != nil {
		return err
	}
	y, err := strconv.ParseFloat(strings.TrimSpace(right), 64)
	if err != nil {
		return err
	}
	f.points = append(f.points, segment.Point{X: x, Y: y, Label: segment.Foreground})
	return nil
}

// on reports whether the object is to be looked for.
func (f *segmenter) on() bool { return f.model != "" }

// check reports flags that do not go together.
func (f *segmenter) check(in *inputs) error {
	asked := f.text != "" || len(f.points) > 0
	switch {
	case asked && !f.on():
		return fmt.Errorf("%w: -text and -point need a -segmenter", cli.ErrUsage)
	case f.on() && in.image == "":
		return fmt.Errorf("%w: -segmenter needs an -image", cli.ErrUsage)
	case f.on() && in.mask != "":
		return fmt.Errorf("%w: -segmenter and -mask exclude each other", cli.ErrUsage)
	case f.on() && (f.text != "") == (len(f.points) > 0):
		return fmt.Errorf("%w: -segmenter needs -text or -point, and not both", cli.ErrUsage)
	}
	return nil
}

// mask looks for the object. The network is gone again when it returns.
func (f *segmenter) mask(ctx context.Context, backend string, picture image.Image, stderr io.Writer) (*image.Gray, error) {
	mask, err := f.find(ctx, backend, picture, stderr)
	if err == nil && slices.Max(mask.Pix) == 0 {
		return nil, errors.New("the segmenter's mask is empty: try other words, or other points")
	}
	return mask, err
}

func (f *segmenter) find(ctx context.Context, backendName string, picture image.Image, stderr io.Writer) (*image.Gray, error) {
	backend, err := sam3d.OpenBackend(backendName)
	if err != nil {
		return nil, err
	}
	model, err := segment.Open(ctx, backend, f.model, weights.HubOptions{})
	if err != nil {
		return nil, err
	}
	defer model.Close()
	encoding, err := model.Encode(ctx, picture)
	if err != nil {
		return nil, err
	}
	defer encoding.Close()
	if f.text == "" {
		objects, err := encoding.Click(ctx, segment.ClickPrompt{Points: f.points})
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(stderr, "segmented the object under the points, score %.2f\n", objects[0].Score)
		return objects[0].Mask, nil
	}
	detections, err := encoding.Segment(ctx, segment.Prompt{Text: f.text})
	if err != nil {
		return nil, err
	}
	if len(detections) == 0 {
		return nil, fmt.Errorf("the segmenter finds no %q in the picture: try other words, or -point", f.text)
	}
	best := slices.MaxFunc(detections, func(a, b segment.Detection) int { return cmp.Compare(a.Score, b.Score) })
	fmt.Fprintf(stderr, "segmented the best of %d, score %.2f\n", len(detections), best.Score)
	return best.Mask, nil
}
