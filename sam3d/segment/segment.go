// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"context"
	"fmt"
	"image"
	"math"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/core/tensors"
)

const (
	defaultThreshold = 0.5
	// defaultText is what the network was trained with where exemplars come without words.
	defaultText = "visual"
	// maxPromptExamples bounds the exemplars of one prompt of either kind.
	maxPromptExamples = 1 << 10
)

// Prompt describes objects, by words, by examples in the same picture, or by both. Examples that are Background show
// what is not meant.
type Prompt struct {
	// Text names the objects in a few words: "chair", "yellow school bus". What exceeds the context length of 32 tokens
	// is cut off; 32 words of more than 4 kB together are refused. It may be empty if there are examples.
	Text string
	// Boxes are drawn around examples.
	Boxes []ExampleBox
	// Points lie on examples. The network knows them, though it was trained with boxes; checkpoints of transformers lack
	// them. To get the one object under a point, use Click.
	Points []Point
	// Threshold is the score that a detection must exceed. 0 means 0.5; a negative one lets every query pass.
	Threshold float64
}

// ExampleBox is a box around an object, and whether it is an object of the kind that is meant.
type ExampleBox struct {
	Box
	Label Label
}

// Detection is an object that fits a prompt.
type Detection struct {
	Mask *image.Gray // of the picture's size, 0 outside and 255 inside
	// Box is where the network sees the object, in pixels. It may reach over the picture's borders, and need not fit the
	// mask exactly.
	Box   Box
	Score float32 // in 0..1, how likely it is that the object is there and fits
}

// Segment finds all objects that a prompt describes (Sam3Processor of the original). The image encoder does not run
// again, and the text encoder only for texts that are new to the model.
//
// The detections are in the network's order, which means nothing. There is none, and no error, if no score exceeds the
// threshold. Errors wrap ErrInput, ErrNoHead, ErrVocabulary or ErrClosed, or are the context's.
func (e *Encoding) Segment(ctx context.Context, prompt Prompt) ([]Detection, error) {
	s := &stage{ctx: ctx}
	defer s.free()
	d, release, err := e.detect(s, prompt)
	if err != nil {
		return nil, err
	}
	defer release()
	threshold := prompt.Threshold
	if threshold == 0 {
		threshold = defaultThreshold
	}
	found := d.above(threshold)
	if len(found) == 0 {
		return nil, nil
	}
	if len(found) > maxMaskBytes/(e.Width*e.Height) {
		return nil, fmt.Errorf("%w: %d detections above %g in a picture of %d x %d are more than memory is meant for",
			ErrInput, len(found), threshold, e.Width, e.Height)
	}
	masks, err := e.masks(s, d, found)
	if err != nil {
		return nil, err
	}
	out := make([]Detection, len(found))
	for i, query := range found {
		out[i] = Detection{Mask: masks[i], Box: d.box(query, e.Width, e.Height), Score: d.score(query)}
	}
	return out, nil
}

// Semantic returns one mask of all that a prompt describes, objects or not: "grass", "sky". Threshold does not count.
// Errors are those of Segment.
func (e *Encoding) Semantic(ctx context.Context, prompt Prompt) (Logits, error) {
	s := &stage{ctx: ctx}
	defer s.free()
	d, release, err := e.detect(s, prompt)
	if err != nil {
		return Logits{}, err
	}
	defer release()
	head := e.model.grounding
	out := s.floats(s.run1(head.programs.semantics, head.semantic, head.pixels(s, e.grounding, d)))
	if s.err != nil {
		return Logits{}, s.err
	}
	side := 4 * e.model.cfg.grid()
	return Logits{Width: side, Height: side, Values: out}, nil
}

// detect checks a prompt and runs the detector. The caller calls release when it needs the Encoding no more.
func (e *Encoding) detect(s *stage, prompt Prompt) (d *detected, release func(), err error) {
	head := e.model.grounding
	if head == nil {
		return nil, nil, fmt.Errorf("%w: grounding", ErrNoHead)
	}
	examples, err := e.examples(prompt)
	if err != nil {
		return nil, nil, err
	}
	done, err := e.use()
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			done()
		}
	}()
	text := prompt.Text
	if strings.TrimSpace(text) == "" {
		text = defaultText
	}
	encoded, err := e.model.words(s, text)
	if err != nil {
		return nil, nil, err
	}
	d = head.detect(s, e.grounding, encoded, []exemplars{examples})
	return d, done, s.err
}

// examples checks a prompt and returns its exemplars in 0..1.
func (e *Encoding) examples(prompt Prompt) (exemplars, error) {
	out := exemplars{global: true}
	if strings.TrimSpace(prompt.Text) == "" && len(prompt.Boxes) == 0 && len(prompt.Points) == 0 {
		return out, fmt.Errorf("%w: a prompt without text, boxes and points", ErrInput)
	}
	if math.IsNaN(prompt.Threshold) {
		return out, fmt.Errorf("%w: threshold is NaN", ErrInput)
	}
	if n := max(len(prompt.Boxes), len(prompt.Points)); n > maxPromptExamples {
		return out, fmt.Errorf("%w: %d boxes and %d points, at most %d of each", ErrInput, len(prompt.Boxes), len(prompt.Points),
			maxPromptExamples)
	}
	if len(prompt.Points) > 0 && !e.model.cfg.examplePoints() {
		return out, fmt.Errorf("%w: exemplar points, in the layout %q", ErrNoHead, e.model.cfg.Layout)
	}
	width, height := float64(e.Width), float64(e.Height)
	for i, box := range prompt.Boxes {
		if err := box.check(e.Width, e.Height); err != nil {
			return out, fmt.Errorf("box %d: %w", i, err)
		}
		if err := box.Label.check(); err != nil {
			return out, fmt.Errorf("box %d: %w", i, err)
		}
		out.boxes = append(out.boxes, exampleBox{
			x: float32((box.X0 + box.X1) / 2 / width), y: float32((box.Y0 + box.Y1) / 2 / height),
			w: float32((box.X1 - box.X0) / width), h: float32((box.Y1 - box.Y0) / height), positive: box.Label == Foreground,
		})
	}
	for i, point := range prompt.Points {
		if err := point.check(e.Width, e.Height); err != nil {
			return out, fmt.Errorf("point %d: %w", i, err)
		}
		out.points = append(out.points, examplePoint{
			float32(point.X / width), float32(point.Y / height), point.Label == Foreground,
		})
	}
	return out, nil
}

// score is the probability that a query of the first picture found something that fits.
func (d *detected) score(query int) float32 {
	return float32(sigmoid(d.logits[query]) * sigmoid(d.presence[0]))
}

func sigmoid(x float32) float64 { return 1 / (1 + math.Exp(-float64(x))) }

// above returns the queries of the first picture whose scores exceed a threshold.
func (d *detected) above(threshold float64) []int {
	var out []int
	for query := range len(d.logits) / len(d.presence) {
		if float64(d.score(query)) > threshold {
			out = append(out, query)
		}
	}
	return out
}

// box returns the box of a query of the first picture in a picture's pixels.
func (d *detected) box(query, width, height int) Box {
	b := d.boxes[4*query : 4*query+4]
	x, y, w, h := float64(b[0]), float64(b[1]), float64(b[2]), float64(b[3])
	return Box{(x - w/2) * float64(width), (y - h/2) * float64(height), (x + w/2) * float64(width), (y + h/2) * float64(height)}
}

// maxMaskBytes bounds the masks of one answer.
const maxMaskBytes = 4 << 30

// masks makes the masks of some queries, at the picture's size.
func (e *Encoding) masks(s *stage, d *detected, queries []int) ([]*image.Gray, error) {
	head := e.model.grounding
	pixels := head.pixels(s, e.grounding, d)
	if s.err != nil {
		return nil, s.err
	}
	chunk := e.chunk(len(queries))
	var out []*image.Gray
	for some := range slices.Chunk(queries, chunk) {
		part := &stage{ctx: s.ctx}
		chosen := make([]int32, chunk) // places that are left over repeat the first query
		for i, query := range some {
			chosen[i] = int32(query)
		}
		index := tensors.FromFlatDataAndDimensions(chosen, 1, chunk)
		part.own(index)
		logits := part.run1(head.programs.masks, head.mask, pixels, d.queries, index)
		out = append(out, e.enlarged(part, logits, len(some))...)
		part.free()
		if part.err != nil {
			return nil, part.err
		}
	}
	return out, s.ctx.Err()
}
