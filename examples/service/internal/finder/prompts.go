// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package finder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"strconv"
	"strings"

	"github.com/gomlx3d/image3d/examples/internal/segmenter"
	"github.com/gomlx3d/image3d/examples/service/internal/store"
	"github.com/gomlx3d/image3d/sam3d/segment"
)

// Answer is the object under clicks.
type Answer struct {
	Mask  *image.Gray
	ID    string // of the mask, for clicks that correct it
	Score float32
}

// Click finds the object that clicks show. They correct the mask of an earlier answer, if one is named.
func (f *Finder) Click(ctx context.Context, client, id, earlier string, clicks store.Clicks) (a Answer, err error) {
	_, done, err := f.use()
	if err != nil {
		return a, err
	}
	defer done()
	k, err := f.own(client, id)
	if err != nil {
		return a, err
	}
	prompt := promptOf(clicks)
	if earlier != "" {
		if prompt.Mask = f.earlier(k, earlier); prompt.Mask == nil {
			return a, fmt.Errorf("%w: %q", ErrNoMask, earlier)
		}
	}
	objects, err := k.encoding.Click(ctx, prompt)
	if err != nil {
		return a, dropped(err)
	}
	o := objects[0]
	return Answer{Mask: o.Mask, ID: f.remember(k, o.Logits), Score: o.Score}, nil
}

// promptOf returns clicks as the network takes them.
func promptOf(c store.Clicks) (p segment.ClickPrompt) {
	for _, side := range []struct {
		points []store.Point
		label  segment.Label
	}{{c.Positive, segment.Foreground}, {c.Negative, segment.Background}} {
		for _, at := range side.points {
			p.Points = append(p.Points, segment.Point{X: at.X, Y: at.Y, Label: side.label})
		}
	}
	if b := c.Box; b != nil {
		p.Box = &segment.Box{X0: b.X0, Y0: b.Y0, X1: b.X1, Y1: b.Y1}
	}
	return p
}

func (f *Finder) earlier(k *kept, id string) *segment.Logits {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range k.masks {
		if k.masks[i].id == id {
			logits := k.masks[i].logits // a copy, as the list moves
			return &logits
		}
	}
	return nil
}

func (f *Finder) remember(k *kept, logits segment.Logits) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	k.count++
	if len(k.masks) == keptMasks {
		k.masks = append(k.masks[:0:0], k.masks[1:]...)
	}
	id := strconv.Itoa(k.count)
	k.masks = append(k.masks, mask{id, logits})
	return id
}

// Words finds all objects that words describe, best score first. It fails with segmenter.ErrNothing if there is none.
func (f *Finder) Words(ctx context.Context, client, id string, words store.Words) ([]segmenter.Object, error) {
	if strings.TrimSpace(words.Text) == "" {
		return nil, ErrPrompt
	}
	_, done, err := f.use()
	if err != nil {
		return nil, err
	}
	defer done()
	end, err := f.wait(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	k, err := f.own(client, id)
	if err != nil {
		return nil, err
	}
	objects, err := segmenter.Words(ctx, k.encoding, segment.Prompt{Text: words.Text, Threshold: words.Threshold})
	if err != nil {
		return nil, dropped(err)
	}
	return segmenter.Sorted(objects)
}

// Mask finds one object in a photograph for a job: the best of what words describe, or what clicks show. It fails with
// segmenter.ErrNothing if there is none.
func (f *Finder) Mask(ctx context.Context, client, digest string, read func() (image.Image, error), o store.Options) (*image.Gray, error) {
	encoding, err := f.Add(ctx, client, digest, read)
	if err != nil {
		return nil, err
	}
	if o.Words != nil {
		objects, err := f.Words(ctx, client, encoding.ID, *o.Words)
		if err != nil {
			return nil, err
		}
		return objects[0].Mask, nil
	}
	answer, err := f.Click(ctx, client, encoding.ID, "", *o.Clicks)
	if err == nil && bytes.IndexByte(answer.Mask.Pix, 255) < 0 {
		err = segmenter.ErrNothing
	}
	return answer.Mask, err
}

// dropped is the error for an encoding that went during a call.
func dropped(err error) error {
	if errors.Is(err, segment.ErrClosed) {
		return ErrNoEncoding
	}
	return err
}
