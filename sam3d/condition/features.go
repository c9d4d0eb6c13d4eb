// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package condition

import (
	"context"
	"fmt"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/internal/nn"
)

// Features are the tokens of a whole picture (RGBImage) in both stages: what all objects of the picture have in common.
// They are in the memory of the host, 11 MB in the released model, and may be used by many Encode at once.
type Features struct {
	encoder *Encoder
	tokens  map[place][]float32 // [1, T, D] of the slot
}

// place is where tokens stand.
type place struct{ stage, slot int }

// Features encodes a whole picture, for Views.Features. The numbers are those that Encode finds without.
//
//	rgb [3, size, size] as Views.RGBImage
//
// It stops within one block of a network of ctx being cancelled. It fails with ctx.Err() or ErrInput.
func (e *Encoder) Features(ctx context.Context, size int, rgb []float32) (*Features, error) {
	if e.stages == nil {
		return nil, nn.ErrClosed
	}
	v := Views{Size: size, RGBImage: rgb}
	if err := v.validate(); err != nil {
		return nil, err
	}
	f := &Features{encoder: e, tokens: make(map[place][]float32)}
	for _, j := range e.jobs {
		if j.input != RGBImage {
			continue
		}
		if rgb == nil {
			return nil, fmt.Errorf("%w: no %s", ErrInput, j.input)
		}
		if err := f.add(ctx, j, v); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// add runs a network on the picture and keeps its tokens.
func (f *Features) add(ctx context.Context, j job, v Views) error {
	pieces := f.encoder.pieces()
	defer free(pieces)
	if err := j.run(ctx, v, pieces); err != nil {
		return err
	}
	for _, u := range j.uses {
		flat, err := tensors.CopyFlatData[float32](pieces[u.stage][u.slot])
		if err != nil {
			return err
		}
		f.tokens[place{u.stage, u.slot}] = flat
	}
	return nil
}

// put puts the tokens of a job where they are used.
func (f *Features) put(j job, pieces [][]*tensors.Tensor) {
	for _, u := range j.uses {
		s := f.encoder.stages[u.stage].slots[u.slot]
		flat := f.tokens[place{u.stage, u.slot}]
		pieces[u.stage][u.slot] = tensors.FromFlatDataAndDimensions(flat, 1, s.tokens, s.width)
	}
}

// pieces returns places for the tokens of all slots, by stage.
func (e *Encoder) pieces() [][]*tensors.Tensor {
	pieces := make([][]*tensors.Tensor, len(e.stages))
	for i, s := range e.stages {
		pieces[i] = make([]*tensors.Tensor, len(s.slots))
	}
	return pieces
}

func free(pieces [][]*tensors.Tensor) {
	for _, p := range pieces {
		nn.Free(p...)
	}
}
