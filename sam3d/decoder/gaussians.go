// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package decoder

import (
	"context"
	"fmt"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/sparse"
	"github.com/gomlx3d/image3d/splat"
	"github.com/gomlx3d/image3d/weights"
)

// GaussiansDecoder decodes the latents of stage 2 to Gaussians: a transformer on the occupied voxels, of which each
// emits a few splats near its centre (structured_latent_vae/decoder_gs.py of the original; Xiang et al. 2024,
// arXiv:2412.01506).
//
// It is safe for concurrent use until closed.
type GaussiansDecoder struct {
	cfg     GaussiansConfig
	backend compute.Backend
	weights nn.Weights // all, on the device
	exit    nn.Weights
	torso   *sparse.Torso
	leave   *nn.Program
}

// NewGaussians uploads the weights of set, in their own precision, to the backend's first device. It fails with
// ErrConfig, or with an error of package weights if the set is not that of the configuration. The set may be closed
// afterwards.
func NewGaussians(backend compute.Backend, cfg GaussiansConfig, set *weights.Set) (*GaussiansDecoder, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	d := &GaussiansDecoder{cfg: cfg, backend: backend}
	d.torso = cfg.build(backend)
	d.leave = nn.NewProgram(backend, "decoder.gaussians.leave", cfg.leave)
	if err := d.Load(set); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Load uploads the weights of set again after Unload. It fails as NewGaussians does, and then nothing is loaded.
func (d *GaussiansDecoder) Load(set *weights.Set) (err error) {
	d.Unload() // if they are there
	if err := set.Check(GaussiansSpec(d.cfg)); err != nil {
		return fmt.Errorf("decoder: gaussians: %w", err)
	}
	if d.weights, err = set.Upload(d.backend); err != nil {
		return fmt.Errorf("decoder: gaussians: %w", err)
	}
	d.exit = d.weights.Only("out_layer", "offset_perturbation")
	d.torso.Use(d.weights)
	return nil
}

// Unload frees the weights. The programs stay, for Load. Neither must be called during another call.
func (d *GaussiansDecoder) Unload() {
	d.weights.Free()
	d.weights, d.exit = nil, nil
	d.torso.Use(nil)
}

// Config returns the hyperparameters.
func (d *GaussiansDecoder) Config() GaussiansConfig { return d.cfg }

// Close frees the device memory and the programs.
func (d *GaussiansDecoder) Close() {
	d.torso.Close()
	d.leave.Close()
	d.Unload()
}

// Decode returns the splats of one object in its own frame: those of a voxel follow each other, in the order of coords.
//
//	latents [voxels, LatentChannels] on the scale of the decoders, flow.Features.Scaled
//
// It returns ctx.Err() within one block of being cancelled, and errors wrapping ErrNoVoxels, ErrInput (among other
// things for more than one batch item: see DecodeBatch), ErrNonFinite, or splat.ErrInvalid if what the network says is
// no Gaussian.
func (d *GaussiansDecoder) Decode(ctx context.Context, coords *sparse.Coords, latents []float32) (*splat.Gaussians, error) {
	if coords != nil && coords.Batches() > 1 {
		return nil, fmt.Errorf("%w: %d batch items, not one", ErrInput, coords.Batches())
	}
	objects, err := d.DecodeBatch(ctx, coords, latents)
	if err != nil {
		return nil, err
	}
	return objects[0], nil
}

// DecodeBatch is Decode for one or more batch items, and returns the Gaussians of each.
func (d *GaussiansDecoder) DecodeBatch(ctx context.Context, coords *sparse.Coords, latents []float32) ([]*splat.Gaussians, error) {
	if err := d.cfg.check(coords, latents); err != nil {
		return nil, err
	}
	attributes, err := d.attributes(ctx, coords, latents)
	if err != nil {
		return nil, err
	}
	defer nn.Free(attributes...)
	var objects []*splat.Gaussians
	err = eachRaw(attributes, coords.Starts, d.cfg.Gaussians, func(raw splat.Raw) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		g, err := d.cfg.activation().Decode(raw)
		objects = append(objects, g)
		return err
	})
	if err != nil {
		return nil, err
	}
	return objects, nil
}

// attributes runs the network. The outputs, see leave, belong to the caller.
func (d *GaussiansDecoder) attributes(ctx context.Context, coords *sparse.Coords, latents []float32) ([]*tensors.Tensor, error) {
	x, err := d.cfg.run(ctx, d.backend, d.torso, coords, latents)
	if err != nil {
		return nil, err
	}
	defer nn.Free(x)
	positions, err := coords.UploadPositions(d.backend)
	if err != nil {
		return nil, fmt.Errorf("decoder: %w", err)
	}
	defer positions.Free()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return d.leave.Call(d.exit, sparse.Args(x, positions)...)
}

// leave turns the features of the last block into raw attributes of splats, in the order of splat.Raw. The outputs of a
// voxel are grouped by attribute, and within one by splat.
//
//	x         [N, Width]
//	positions [N, 3] int32
//	p         out_layer, offset_perturbation [G, 3]
//	out       positions [N, G, 3] in the unit cube, colours [N, G, 3], scales [N, G, 3], rotations [N, G, 4], opacities [N, G, 1]
func (cfg GaussiansConfig) leave(p nn.Params, nodes []*Node) []*Node {
	x, positions := nodes[0], nodes[1]
	o := nn.Linear(p.In("out_layer"), nn.Standardize(x, sparse.FinalEpsilon)) // [N, 14*G]
	n, at := o.Shape().Dimensions[0], 0
	next := func(width int, rate float64) *Node { // [N, G, width]
		part := Slice(o, AxisRange(), AxisRange(at, at+width*cfg.Gaussians))
		at += width * cfg.Gaussians
		return MulScalar(Reshape(part, n, cfg.Gaussians, width), rate)
	}
	offset, colour := next(3, cfg.Rates.Position), next(3, cfg.Rates.SH)
	scaling, rotation, opacity := next(3, cfg.Rates.Scaling), next(4, cfg.Rates.Rotation), next(1, cfg.Rates.Opacity)
	if cfg.Perturb {
		offset = Add(offset, ExpandAxes(p.As(offset, "offset_perturbation"), 0))
	}
	centre := AddScalar(ConvertDType(positions, o.DType()), 0.5)                  // [N, 3]
	offset = Add(ExpandAxes(centre, 1), MulScalar(Tanh(offset), cfg.VoxelSize/2)) // [N, G, 3], in voxels
	return []*Node{DivScalar(offset, float64(cfg.Resolution)), colour, scaling, rotation, opacity}
}

// eachRaw calls f with the attributes of each batch item, which it must not keep. On a CPU they are not copied.
//
//	starts [B+1] first voxel of each item, and the number of voxels
func eachRaw(attributes []*tensors.Tensor, starts []int, gaussians int, f func(raw splat.Raw) error) error {
	return withViews(attributes, nil, func(views [][]float32) error {
		for i, start := range starts[:len(starts)-1] {
			cut := func(view []float32, width int) []float32 {
				return view[start*gaussians*width : starts[i+1]*gaussians*width]
			}
			raw := splat.Raw{
				XYZ: cut(views[0], 3), SH: cut(views[1], 3), Scaling: cut(views[2], 3), Rotation: cut(views[3], 4), Opacity: cut(views[4], 1),
			}
			if err := f(raw); err != nil {
				return err
			}
		}
		return nil
	})
}

// withViews calls f with the values of all of list after views. It returns its error.
func withViews(list []*tensors.Tensor, views [][]float32, f func(views [][]float32) error) error {
	if len(list) == 0 {
		return f(views)
	}
	var inner error
	err := tensors.ConstFlatData(list[0], func(flat []float32) {
		inner = withViews(list[1:], append(views, flat), f)
	})
	if err != nil {
		return fmt.Errorf("decoder: read outputs: %w", err)
	}
	return inner
}
