// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package condition encodes what is known of an object, its picture, mask and point map, to the tokens that the two
// flows of SAM 3D Objects attend to ("EmbedderFuser" of the original).
//
// Each input goes through an embedder, a DINOv2 network or a small transformer over the windows of a point map; its
// tokens are projected to a common width, the embedding of its group is added, and all are joined into one sequence.
// The two stages read the same pictures with copies of one image network, but with heads of their own. Copies that are
// equal are held once, and each picture goes once through each network that is held.
//
// Dimension letters: B batch, S side of the inputs, N patches or windows, P points of a window, R registers, T tokens,
// C channels, D width of the tokens, H heads, K width of a head.
package condition

import (
	"context"
	"fmt"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/dinov2"
	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/weights"
)

// Encoder makes the condition tokens of both stages. It is safe for concurrent use until closed.
type Encoder struct {
	stages   []stage
	jobs     []job
	trunks   []*dinov2.Encoder // distinct image networks
	points   []*pointNet
	programs map[any]*nn.Program // by what determines the graph
	weights  []nn.Weights        // of projections, norms and groups

	backend           compute.Backend
	structure, latent Config
}

// stage is one stage's sequence of tokens.
type stage struct {
	slots []slot // by input, in the order of the tokens
	join  *nn.Program
	net   nn.Weights // of the compression, or empty
}

// slot is the place of one input's tokens.
type slot struct{ tokens, width int }

// job is the evaluation of one network on one input. For a picture trunk and normalize are set, for a map points.
type job struct {
	input     Modality
	trunk     *dinov2.Encoder
	normalize *nn.Program
	points    *pointNet
	uses      []use
}

// use is a place that the tokens of a job go to.
type use struct {
	stage, slot int
	project     *nn.Program
	weights     nn.Weights
	row         int32 // of the group's embedding
}

// New uploads the weights of both stages, in their own precision, to the backend's first device. The sets hold the
// tensors that Spec lists. Image networks of equal configuration and equal bytes are uploaded once.
//
// It fails with ErrConfig, or with an error of package weights if a set is not that of its configuration. The sets may
// be closed afterwards.
func New(backend compute.Backend, structure Config, structureSet *weights.Set, latent Config, latentSet *weights.Set) (*Encoder, error) {
	e := &Encoder{backend: backend, structure: structure, latent: latent, programs: make(map[any]*nn.Program)}
	if err := e.Load(structureSet, latentSet); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// Load uploads the weights of both sets again after Unload. It fails as New does, and then nothing is loaded.
func (e *Encoder) Load(structure, latent *weights.Set) error {
	e.Unload() // if they are there
	b := builder{backend: e.backend, encoder: e}
	if err := b.add(e.structure, structure); err != nil {
		e.Unload()
		return fmt.Errorf("condition: structure: %w", err)
	}
	if err := b.add(e.latent, latent); err != nil {
		e.Unload()
		return fmt.Errorf("condition: latent: %w", err)
	}
	return nil
}

// Unload frees the weights. The programs stay, for Load. Neither must be called during another call.
func (e *Encoder) Unload() {
	for _, trunk := range e.trunks {
		trunk.Unload()
	}
	for _, net := range e.points {
		net.unload()
	}
	for _, w := range e.weights {
		w.Free()
	}
	e.stages, e.jobs, e.weights = nil, nil, nil
}

// Close frees the device memory and the programs.
func (e *Encoder) Close() {
	e.Unload()
	for _, trunk := range e.trunks {
		trunk.Close()
	}
	for _, net := range e.points {
		net.close()
	}
	for _, program := range e.programs {
		program.Close()
	}
}

// Encode returns the condition tokens of both stages.
//
//	structure [1, T, D] float32 on the device, T and D being Tokens and Width of the stage's Config
//	latent    [1, T, D] likewise; the caller frees both
//
// The tokens of a point map that is not given, and of a modality that the configuration drops, are zeros. They remain
// in the sequence, because a flow's attention gives weight to zeros too.
//
// It stops within one block of a network of ctx being cancelled. It fails with ctx.Err() or ErrInput.
func (e *Encoder) Encode(ctx context.Context, v Views) (structure, latent *tensors.Tensor, err error) {
	if err := e.check(v); err != nil {
		return nil, nil, err
	}
	pieces := e.pieces()
	defer free(pieces)
	for _, j := range e.jobs {
		if v.Features != nil && j.input == RGBImage {
			v.Features.put(j, pieces)
		} else if err := j.run(ctx, v, pieces); err != nil {
			return nil, nil, err
		}
	}
	if structure, err = e.stages[0].assemble(pieces[0]); err != nil {
		return nil, nil, err
	}
	if latent, err = e.stages[1].assemble(pieces[1]); err != nil {
		nn.Free(structure)
		return nil, nil, err
	}
	return structure, latent, nil
}

// check refuses views that lack a picture or hold one that makes no sense.
func (e *Encoder) check(v Views) error {
	if e.stages == nil {
		return nn.ErrClosed
	}
	if err := v.validate(); err != nil {
		return err
	}
	if v.Features != nil && (v.Features.encoder != e || v.RGBImage != nil) {
		return fmt.Errorf("%w: features of another encoder, or next to %s", ErrInput, RGBImage)
	}
	for _, j := range e.jobs {
		known := v.Features != nil && j.input == RGBImage
		if flat, _ := v.modality(j.input); flat == nil && j.trunk != nil && !known {
			return fmt.Errorf("%w: no %s", ErrInput, j.input)
		}
	}
	return nil
}

// run evaluates the network and puts the tokens where they are used.
func (j job) run(ctx context.Context, v Views, pieces [][]*tensors.Tensor) error {
	x, err := j.embed(ctx, v)
	if err != nil || x == nil {
		return err
	}
	defer nn.Free(x)
	for _, u := range j.uses {
		if err := ctx.Err(); err != nil {
			return err
		}
		if pieces[u.stage][u.slot], err = u.project.Call1(u.weights, x, u.row); err != nil {
			return err
		}
	}
	return nil
}

// embed returns the tokens of the network itself, or nil if the input is not given.
func (j job) embed(ctx context.Context, v Views) (*tensors.Tensor, error) {
	flat, channels := v.modality(j.input)
	switch {
	case flat == nil:
		return nil, nil
	case j.points != nil:
		return j.points.embed(ctx, flat, v.Size, v.Size)
	}
	picture := tensors.FromFlatDataAndDimensions(flat, 1, channels, v.Size, v.Size)
	defer nn.Free(picture)
	image, err := j.normalize.Call1(nil, picture)
	if err != nil {
		return nil, err
	}
	defer nn.Free(image)
	return j.trunk.Encode(ctx, image)
}

// assemble joins the pieces; where there is none, zeros.
func (s stage) assemble(pieces []*tensors.Tensor) (*tensors.Tensor, error) {
	in := make([]any, len(pieces))
	for i, piece := range pieces {
		if piece == nil {
			n, width := s.slots[i].tokens, s.slots[i].width
			piece = tensors.FromFlatDataAndDimensions(make([]float32, n*width), 1, n, width)
			defer nn.Free(piece)
		}
		in[i] = piece
	}
	return s.join.Call1(s.net, in...)
}

func joinGraph(p nn.Params, in []*Node) []*Node { return []*Node{join(p, in)} }
