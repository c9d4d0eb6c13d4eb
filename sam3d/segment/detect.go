// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"context"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/internal/nn"
)

// stage runs programs one after the other, until one fails or the context is cancelled.
type stage struct {
	ctx   context.Context
	err   error
	owned []*tensors.Tensor // freed at the end
}

// own makes the stage free tensors at its end.
func (s *stage) own(ts ...*tensors.Tensor) { s.owned = append(s.owned, ts...) }

func (s *stage) free() {
	nn.Free(s.owned...)
	s.owned = nil
}

// run runs a program of n outputs. After a failure it returns nothing but as many nils.
func (s *stage) run(n int, program *nn.Program, w nn.Weights, in ...*tensors.Tensor) []*tensors.Tensor {
	if s.err == nil {
		s.err = s.ctx.Err()
	}
	if s.err != nil {
		return make([]*tensors.Tensor, n)
	}
	args := make([]any, len(in))
	for i, t := range in {
		args[i] = t
	}
	out, err := program.Call(w, args...)
	if err != nil {
		s.err = err
		return make([]*tensors.Tensor, n)
	}
	s.own(out...)
	return out
}

// run1 runs a program of one output.
func (s *stage) run1(program *nn.Program, w nn.Weights, in ...*tensors.Tensor) *tensors.Tensor {
	return s.run(1, program, w, in...)[0]
}

// floats copies a tensor from the device.
func (s *stage) floats(t *tensors.Tensor) []float32 {
	if s.err != nil {
		return nil
	}
	var out []float32
	out, s.err = tensors.CopyFlatData[float32](t)
	return out
}

// words are texts as the head takes them.
type words struct {
	tokens *tensors.Tensor // [B, L, D], of the caller
	valid  [][]bool        // [B][L]
}

// detected is what the detector found for the prompts of a batch. Its tensors belong to the stage that made it.
type detected struct {
	cells, prompt, valid *tensors.Tensor // [B, g*g, D], [B, P, D], [B, P]
	queries              *tensors.Tensor // [B, Q, D]
	boxes                []float32       // [B, Q, 4], centre and size in 0..1
	logits               []float32       // [B, Q], of the queries
	presence             []float32       // [B], logits of there being anything
}

// encodeText runs the text encoder.
//
//	ids [B*L]
//	out [B, L, D], owned by the stage
func (h *grounding) encodeText(s *stage, ids []int32, batch int) *tensors.Tensor {
	input := tensors.FromFlatDataAndDimensions(ids, batch, len(ids)/batch)
	s.own(input)
	x := s.run1(h.programs.textStart, h.textStart, input)
	for _, block := range h.textBlocks {
		x = s.run1(h.programs.textBlock, block, x)
	}
	return s.run1(h.programs.textEnd, h.textEnd, x)
}

// detect looks for what each prompt of a batch describes.
//
//	maps of the neck, the finest first
func (h *grounding) detect(s *stage, maps []*tensors.Tensor, text words, examples []exemplars) *detected {
	batch := len(examples)
	in := h.cfg.newExemplarInput(examples)
	coarse := maps[levels-1]
	d := &detected{cells: s.run1(h.programs.flat, nil, coarse)}
	d.prompt = h.promptTokens(s, coarse, d.cells, text, in, batch)
	valid := in.validWith(text.valid)
	d.valid = tensors.FromFlatDataAndDimensions(valid, batch, len(valid)/batch)
	s.own(d.valid)
	for _, layer := range h.fusionLayers {
		d.cells = s.run1(h.programs.fusionLayer, layer, d.cells, d.prompt, d.valid)
	}
	state := s.run(2, h.programs.decoderStart, h.decoderStart, d.cells)
	for _, layer := range h.decoderLayers {
		state = s.run(2, h.programs.decoderLayer, layer, state[0], state[1], d.cells, d.prompt, d.valid)
	}
	out := s.run(3, h.programs.scoring, h.scoring, state[0], d.prompt, d.valid)
	d.queries = out[2]
	d.boxes, d.logits, d.presence = s.floats(state[1]), s.floats(out[0]), s.floats(out[1])
	return d
}

// promptTokens encodes exemplars and puts them behind the text.
func (h *grounding) promptTokens(s *stage, coarse, cells *tensors.Tensor, text words, in *exemplarInput, batch int) *tensors.Tensor {
	inputs := in.tensors(h.cfg, batch)
	valid := tensors.FromFlatDataAndDimensions(in.valid, batch, len(in.valid)/batch)
	s.own(inputs...)
	s.own(valid)
	x := s.run1(h.programs.geometry, h.geometry, append([]*tensors.Tensor{coarse}, inputs...)...)
	for _, layer := range h.geometryLayers {
		x = s.run1(h.programs.geometryLayer, layer, x, valid, cells)
	}
	return s.run1(h.programs.prompt, h.prompt, text.tokens, x)
}

// pixels makes the map whose products with queries are masks.
func (h *grounding) pixels(s *stage, maps []*tensors.Tensor, d *detected) *tensors.Tensor {
	return s.run1(h.programs.pixels, h.pixel, d.cells, d.prompt, d.valid, maps[0], maps[1])
}
