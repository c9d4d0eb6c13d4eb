// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"context"
	"fmt"
	"image"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/internal/imageio"
)

// maxClicks bounds the points of one prompt. Each is a token that all others look at.
const maxClicks = 256

// ClickPrompt shows one object. It has at least one point, a box or a mask.
type ClickPrompt struct {
	Points []Point // on the object, or, as Background, beside it
	Box    *Box    // around the object
	Mask   *Logits // near the object's, such as that of an earlier answer, to be corrected by points

	// All asks for the three masks that the network takes for possible: often the whole, a part, and a part of that. By
	// default there is one mask: the best of the three for a single point, which may mean much, and else the one that
	// the network makes for prompts that leave little doubt.
	All bool
}

// Logits is a mask before the cut: what is above 0 belongs to the object.
type Logits struct {
	Width, Height int
	Values        []float32 // [Height, Width]
}

// Object is an object that was found under clicks.
type Object struct {
	Mask   *image.Gray // of the picture's size, 0 outside and 255 inside, without small holes
	Logits Logits      // at four times the grid of patches, over the whole picture, in -32..32
	Score  float32     // how well the mask fits, as the network estimates: intersection over union
	// Presence is a logit: below 0 the network doubts that there is any object.
	Presence float32
}

// Click finds the object that a prompt shows (predict of the original's SAM3InteractiveImagePredictor). The image
// encoder does not run again.
//
// It returns one object, or three in the network's order for a prompt with All. Errors wrap ErrInput, ErrNoHead or
// ErrClosed, or are the context's.
func (e *Encoding) Click(ctx context.Context, prompt ClickPrompt) ([]Object, error) {
	head := e.model.interactive
	if head == nil {
		return nil, fmt.Errorf("%w: interactive", ErrNoHead)
	}
	if err := e.check(prompt); err != nil {
		return nil, err
	}
	mask, err := head.maskInput(prompt.Mask)
	if err != nil {
		return nil, err
	}
	release, err := e.use()
	if err != nil {
		return nil, err
	}
	defer release()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	size := float64(e.model.cfg.ImageSize)
	d, err := head.run(e.clicks, prompt.tokens(size/float64(e.Width), size/float64(e.Height), size), mask)
	if err != nil {
		return nil, err
	}
	return e.objects(ctx, d, head.chosen(d, prompt))
}

func (e *Encoding) check(prompt ClickPrompt) error {
	if len(prompt.Points) == 0 && prompt.Box == nil && prompt.Mask == nil {
		return fmt.Errorf("%w: a prompt without points, box and mask", ErrInput)
	}
	if len(prompt.Points) > maxClicks {
		return fmt.Errorf("%w: %d points, at most %d", ErrInput, len(prompt.Points), maxClicks)
	}
	for i, point := range prompt.Points {
		if err := point.check(e.Width, e.Height); err != nil {
			return fmt.Errorf("point %d: %w", i, err)
		}
	}
	if prompt.Box != nil {
		return prompt.Box.check(e.Width, e.Height)
	}
	return nil
}

// tokens returns the prompt's tokens. The scales lead from the picture to the working picture of the given size.
func (p ClickPrompt) tokens(scaleX, scaleY, size float64) clickTokens {
	var t clickTokens
	place := func(x, y float64, kind int32) {
		// The original moves what it takes for pixel indices to the pixels' centres.
		t.add((x*scaleX+0.5)/size, (y*scaleY+0.5)/size, kind)
	}
	if p.Box != nil {
		place(p.Box.X0, p.Box.Y0, tokenUpperLeft)
		place(p.Box.X1, p.Box.Y1, tokenLowerRight)
	}
	for _, point := range p.Points {
		kind := int32(tokenForeground)
		if point.Label == Background {
			kind = tokenBackground
		}
		place(point.X, point.Y, kind)
	}
	if len(t.kinds) > 0 { // a mask alone has no tokens at all
		t.add(0, 0, tokenNoPoint)
	}
	return t
}

// maskInput resizes a prompt's mask to what the head takes. It returns nil for nil.
func (h *interactive) maskInput(mask *Logits) ([]float32, error) {
	if mask == nil {
		return nil, nil
	}
	side := 4 * h.cfg.grid()
	if mask.Width < 1 || mask.Height < 1 || mask.Width > maxMaskSide || mask.Height > maxMaskSide ||
		len(mask.Values) != mask.Width*mask.Height {
		return nil, fmt.Errorf("%w: mask of %d x %d with %d values", ErrInput, mask.Width, mask.Height, len(mask.Values))
	}
	for i, v := range mask.Values {
		if v-v != 0 {
			return nil, fmt.Errorf("%w: mask has %g at %d", ErrInput, v, i)
		}
	}
	planes := imageio.Planes{C: 1, H: mask.Height, W: mask.Width, Data: mask.Values}
	resized, err := imageio.Resize(planes, side, side, imageio.BilinearAntialias)
	if err != nil {
		return nil, fmt.Errorf("segment: %w", err)
	}
	return resized.Data, nil
}

// maxMaskSide bounds the sides of a prompt's mask in pixels.
const maxMaskSide = 1 << 14

// chosen returns the indices of the masks that a prompt asks for.
func (h *interactive) chosen(d *decoded, prompt ClickPrompt) []int {
	switch {
	case prompt.All:
		return []int{1, 2, 3}
	case len(prompt.Points) == 1 && prompt.Box == nil && prompt.Mask == nil:
		return []int{d.best()}
	}
	return []int{d.single(h.cfg.StabilityDelta, h.cfg.StabilityThreshold)}
}

// maxLogit bounds the logits of an answer, as in the original, where they are the next prompt.
const maxLogit = 32

// objects makes the answers of some of the masks.
func (e *Encoding) objects(ctx context.Context, d *decoded, chosen []int) ([]Object, error) {
	var out []Object
	for _, i := range chosen {
		logits := Logits{Width: d.side, Height: d.side, Values: d.masks[i]}
		whole := tidy(logits, maxHoleAt(d.side), 0)
		s := &stage{ctx: ctx}
		in := tensors.FromFlatDataAndDimensions(whole.Values, 1, d.side, d.side)
		s.own(in)
		masks := e.enlarged(s, in, 1)
		s.free()
		if s.err != nil {
			return nil, s.err
		}
		for k, v := range logits.Values {
			logits.Values[k] = min(max(v, -maxLogit), maxLogit)
		}
		out = append(out, Object{Mask: masks[0], Logits: logits, Score: d.scores[i], Presence: d.object})
	}
	return out, ctx.Err()
}
