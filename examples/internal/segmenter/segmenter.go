// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package segmenter is what the programs that find objects with SAM 3 have in common.
package segmenter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"slices"

	"github.com/gomlx3d/image3d/sam3d"
	"github.com/gomlx3d/image3d/sam3d/segment"
	"github.com/gomlx3d/image3d/weights"
)

// ErrNothing says that nothing in the picture fits a prompt: no score exceeds the threshold, or all masks are empty.
var ErrNothing = errors.New("nothing in the picture fits the prompt")

// Open loads a network. The vocabulary is a file or folder, or empty for the one beside the checkpoint.
func Open(ctx context.Context, backendName, checkpoint, vocabulary string) (*segment.Model, error) {
	backend, err := sam3d.OpenBackend(backendName)
	if err != nil {
		return nil, err
	}
	model, err := segment.Open(ctx, backend, checkpoint, weights.HubOptions{})
	if err != nil || vocabulary == "" {
		return model, err
	}
	if err := model.LoadVocabulary(vocabulary); err != nil {
		model.Close()
		return nil, err
	}
	return model, nil
}

// Object is an object that was found, whichever way.
type Object struct {
	Mask  *image.Gray // of the picture's size, 0 outside and 255 inside
	Box   segment.Box
	Score float32
}

// Words finds all objects that a prompt describes, in the network's order.
func Words(ctx context.Context, encoding *segment.Encoding, prompt segment.Prompt) ([]Object, error) {
	detections, err := encoding.Segment(ctx, prompt)
	if err != nil {
		return nil, err
	}
	objects := make([]Object, len(detections))
	for i, d := range detections {
		objects[i] = Object{d.Mask, d.Box, d.Score}
	}
	return objects, nil
}

// Click finds the one object under clicks. There is none if its mask is empty.
func Click(ctx context.Context, encoding *segment.Encoding, prompt segment.ClickPrompt) ([]Object, error) {
	answers, err := encoding.Click(ctx, prompt)
	if err != nil {
		return nil, err
	}
	var objects []Object
	for _, o := range answers {
		if box, any := bounds(o.Mask); any {
			objects = append(objects, Object{o.Mask, box, o.Score})
		}
	}
	return objects, nil
}

// Sorted drops objects without a pixel and sorts the others, best score first. It fails with ErrNothing if none is left.
func Sorted(objects []Object) ([]Object, error) {
	objects = slices.DeleteFunc(slices.Clone(objects), func(o Object) bool { _, any := bounds(o.Mask); return !any })
	if len(objects) == 0 {
		return nil, ErrNothing
	}
	slices.SortStableFunc(objects, func(a, b Object) int { return cmp.Compare(b.Score, a.Score) })
	return objects, nil
}

// bounds returns the box around what is inside a mask, and whether anything is.
func bounds(mask *image.Gray) (segment.Box, bool) {
	var r image.Rectangle
	size := mask.Rect.Size()
	for y := range size.Y {
		row := mask.Pix[y*mask.Stride:][:size.X]
		first := slices.IndexFunc(row, func(v uint8) bool { return v != 0 })
		if first < 0 {
			continue
		}
		last := size.X - 1
		for row[last] == 0 {
			last--
		}
		r = r.Union(image.Rect(first, y, last+1, y+1))
	}
	box := segment.Box{X0: float64(r.Min.X), Y0: float64(r.Min.Y), X1: float64(r.Max.X), Y1: float64(r.Max.Y)}
	return box, !r.Empty()
}

// Hint adds the flag that helps to an error, if there is one.
func Hint(err error) error {
	switch {
	case errors.Is(err, segment.ErrVocabulary):
		return fmt.Errorf("%w; -vocabulary names it", err)
	case errors.Is(err, ErrNothing):
		return fmt.Errorf("%w; try other words or points, or a lower -threshold", err)
	}
	return err
}
