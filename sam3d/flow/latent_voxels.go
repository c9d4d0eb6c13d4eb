// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flow

import (
	"context"
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/sparse"
)

// LatentVoxels is what a Latent needs to know of the voxels of an object, on the device. It serves all evaluations.
type LatentVoxels struct {
	Layout  sparse.Layout // of the state and its velocity
	Parents *sparse.Coords
	owner   *Latent
	batch   int

	rows, near, pools                  sparse.Arrays
	parentRows, parentNear, parentAxes sparse.Arrays
}

// Voxels prepares the voxels of an object, or of a batch of objects. The result belongs to the caller. It fails with
// ErrInput if they are not within the model's grid.
func (l *Latent) Voxels(coords *sparse.Coords) (*LatentVoxels, error) {
	if coords == nil || coords.Grid > l.cfg.Resolution {
		return nil, fmt.Errorf("%w: latent: no voxels, or of another grid than %d", ErrInput, l.cfg.Resolution)
	}
	pooling := coords.Downsample()
	near, err := coords.Neighbors()
	if err != nil {
		return nil, fmt.Errorf("%w: latent: %w", ErrInput, err)
	}
	parentNear, err := pooling.Parents.Neighbors()
	if err != nil {
		return nil, fmt.Errorf("%w: latent: %w", ErrInput, err)
	}
	v := &LatentVoxels{Layout: coords.Layout, Parents: pooling.Parents, owner: l, batch: coords.Batches()}
	upload := func(to *sparse.Arrays, from func() (sparse.Arrays, error)) {
		if err == nil {
			*to, err = from()
		}
	}
	b := l.backend
	upload(&v.rows, func() (sparse.Arrays, error) { return coords.Upload(b) })
	upload(&v.near, func() (sparse.Arrays, error) { return near.Upload(b) })
	upload(&v.pools, func() (sparse.Arrays, error) { return pooling.Upload(b) })
	upload(&v.parentRows, func() (sparse.Arrays, error) { return pooling.Parents.Upload(b) })
	upload(&v.parentNear, func() (sparse.Arrays, error) { return parentNear.Upload(b) })
	upload(&v.parentAxes, func() (sparse.Arrays, error) { return pooling.Parents.UploadPositions(b) })
	if err != nil {
		v.Free()
		return nil, fmt.Errorf("flow: latent: %w", err)
	}
	return v, nil
}

// Free releases the device memory. The voxels are of no use afterwards.
func (v *LatentVoxels) Free() {
	for _, arrays := range []sparse.Arrays{v.rows, v.near, v.pools, v.parentRows, v.parentNear, v.parentAxes} {
		arrays.Free()
	}
	v.owner = nil
}

// Velocity evaluates the network once.
//
//	x  float32 [N, channels] of v.Layout (see its UploadFeatures); stays the caller's
//	t  time in thousandths (0 to 1000), one value
//	d  step size in thousandths likewise; nil for none, which differs from 0
//	c  of the same batch; nil for condition tokens that are all zero
//
// The result is like x and belongs to the caller. It returns ctx.Err() within one block of being cancelled, and errors
// wrapping ErrInput.
func (l *Latent) Velocity(ctx context.Context, x *tensors.Tensor, t, d []float32, v *LatentVoxels, c *Context) (*tensors.Tensor, error) {
	e := &latentEvaluation{model: l, voxels: v}
	defer e.free()
	return e.velocity(ctx, x, t, d, c)
}

func (l *Latent) check(x *tensors.Tensor, t, d []float32, v *LatentVoxels, c *Context) error {
	if v == nil || v.owner != l {
		return fmt.Errorf("%w: latent: voxels of another model, or freed", ErrInput)
	}
	if x == nil || !x.Ok() {
		return fmt.Errorf("%w: latent: no state", ErrInput)
	}
	if want := []int{v.Layout.Rows, l.cfg.Channels}; x.DType() != dtypes.Float32 || !slices.Equal(x.Shape().Dimensions, want) {
		return fmt.Errorf("%w: latent: state is %s, want float32 %v", ErrInput, x.Shape(), want)
	}
	if len(t) != 1 || d != nil && (!l.cfg.StepInput || len(d) != 1) {
		return fmt.Errorf("%w: latent: %d times and %d step sizes, step input %t", ErrInput, len(t), len(d), l.cfg.StepInput)
	}
	if c != nil && (c.owner != any(l) || c.batch != v.batch || len(c.blocks) != len(l.blocks)) {
		return fmt.Errorf("%w: latent: context of another model, of batch %d instead of %d, or freed", ErrInput, c.batch, v.batch)
	}
	return nil
}

// latentEvaluation evaluates a Latent and remembers what comes before its transformer: the two passes of a guided step
// have that in common.
type latentEvaluation struct {
	model  *Latent
	voxels *LatentVoxels

	of    *tensors.Tensor // the state that the rest was computed from,
	t, d  []float32       // at this time
	time  *tensors.Tensor // [1, D]
	skips []*tensors.Tensor
	h     *tensors.Tensor // [M, D]

	observe func(name string, x *tensors.Tensor) // for tests
}

func (e *latentEvaluation) free() {
	nn.Free(e.skips...)
	nn.Free(e.time, e.h)
	e.of, e.time, e.skips, e.h = nil, nil, nil, nil
}

func (e *latentEvaluation) velocity(ctx context.Context, x *tensors.Tensor, t, d []float32, c *Context) (*tensors.Tensor, error) {
	l := e.model
	if err := l.check(x, t, d, e.voxels, c); err != nil {
		return nil, err
	}
	if e.of != x || !slices.Equal(e.t, t) || !slices.Equal(e.d, d) || (e.d == nil) != (d == nil) {
		e.free()
		if err := e.enter(x, t, d); err != nil {
			e.free()
			return nil, err
		}
		e.of, e.t, e.d = x, slices.Clone(t), slices.Clone(d)
	}
	h := e.h
	for i := range l.blocks {
		next, err := e.block(ctx, i, h, c)
		if h != e.h {
			nn.Free(h)
		}
		if err != nil {
			return nil, err
		}
		h = next
		e.saw(fmt.Sprintf("blocks.%d", i), h)
	}
	defer nn.Free(h)
	return e.leave(h)
}

// enter computes what comes before the transformer.
func (e *latentEvaluation) enter(x *tensors.Tensor, t, d []float32) error {
	l, v := e.model, e.voxels
	w, times := l.entryNoStep, []*tensors.Tensor{sinusoids(t)}
	if d != nil {
		w, times = l.entry, append(times, sinusoids(d))
	}
	out, err := l.programs.enter.Call(w, append(anys(times), x)...)
	nn.Free(times...)
	if err != nil {
		return err
	}
	e.time = out[0]
	h := out[1]
	e.saw("t_embedder", e.time)
	last := l.cfg.IOBlocks - 1
	for i, w := range l.before[:last] {
		next, err := l.programs.residualIn.Call1(w, sparse.Args(h, e.time, v.rows, v.near)...)
		if i == 0 {
			nn.Free(h) // later ones are skips
		}
		if err != nil {
			return err
		}
		h = next
		e.skips = append(e.skips, h)
		e.saw(fmt.Sprintf("input_blocks.%d", i), h)
	}
	pooled, err := l.programs.pool.Call1(nil, sparse.Args(h, v.rows, v.pools)...)
	if last == 0 {
		nn.Free(h)
	}
	if err != nil {
		return err
	}
	defer nn.Free(pooled)
	out, err = l.programs.down.Call(l.before[last], sparse.Args(pooled, e.time, v.parentRows, v.parentNear, v.parentAxes)...)
	if err != nil {
		return err
	}
	e.skips, e.h = append(e.skips, out[0]), out[1]
	e.saw(fmt.Sprintf("input_blocks.%d", last), out[0])
	return nil
}

func (e *latentEvaluation) block(ctx context.Context, i int, h *tensors.Tensor, c *Context) (*tensors.Tensor, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	block, args := e.model.blocks[i], sparse.Args(h, e.time, e.voxels.parentRows)
	if c == nil {
		return e.model.programs.unconditional.Call1(block.unconditional, append(args, block.constant)...)
	}
	return e.model.programs.conditional.Call1(block.conditional, append(args, anys(c.blocks[i])...)...)
}

// leave computes what comes after the transformer.
func (e *latentEvaluation) leave(h *tensors.Tensor) (*tensors.Tensor, error) {
	l, v := e.model, e.voxels
	h, err := e.up(h)
	for i, last := 1, len(e.skips)-1; err == nil && i <= last; i++ {
		e.saw(fmt.Sprintf("out_blocks.%d", i-1), h)
		var next *tensors.Tensor
		next, err = l.programs.residualOut.Call1(l.after[i], sparse.Args(h, e.skips[last-i], e.time, v.rows, v.near)...)
		nn.Free(h)
		h = next
	}
	if err != nil {
		return nil, err
	}
	defer nn.Free(h)
	e.saw(fmt.Sprintf("out_blocks.%d", len(e.skips)-1), h)
	return l.programs.leave.Call1(l.exit, h)
}

// up goes from the features of the parents back to those of the voxels.
func (e *latentEvaluation) up(h *tensors.Tensor) (*tensors.Tensor, error) {
	l, v := e.model, e.voxels
	projected, err := l.programs.upProject.Call(l.up.project, sparse.Args(h, e.skips[len(e.skips)-1], v.parentRows)...)
	if err != nil {
		return nil, err
	}
	gathered, err := l.programs.upGather.Call(l.up.gather, sparse.Args(projected[0], projected[1], v.pools, v.near)...)
	nn.Free(projected...)
	if err != nil {
		return nil, err
	}
	defer nn.Free(gathered...)
	return l.programs.upConvolve.Call1(l.up.convolve, sparse.Args(gathered[0], gathered[1], e.time, v.rows, v.near)...)
}

func (e *latentEvaluation) saw(name string, x *tensors.Tensor) {
	if e.observe != nil {
		e.observe(name, x)
	}
}
