// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package decoder

import (
	"context"
	"fmt"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/flexicubes"
	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/sparse"
	"github.com/gomlx3d/image3d/weights"
)

// MeshDecoder decodes the latents of stage 2 to a mesh: a transformer on the occupied voxels, two blocks that each
// double the resolution, and FlexiCubes on what they say about every cube (structured_latent_vae/decoder_mesh.py of the
// original; Xiang et al. 2024, arXiv:2412.01506).
//
// It is safe for concurrent use until closed.
type MeshDecoder struct {
	cfg     MeshConfig
	backend compute.Backend
	weights nn.Weights // all, on the device
	exit    nn.Weights
	torso   *sparse.Torso
	levels  [meshLevels]subdivision
	upward  *subdivider
	leave   *nn.Program
	slabs   *slabber
	last    slabWeights

	// SlabVoxels bounds how many voxels of the middle grid, of twice the latent's resolution, the last block works on at
	// a time. It must not change during a Decode. 0 is all at once, which is faster by a fifth and takes more memory.
	SlabVoxels int
}

// NewMesh uploads the weights of set, in their own precision, to the backend's first device. It fails with ErrConfig,
// or with an error of package weights if the set is not that of the configuration. The set may be closed afterwards.
func NewMesh(backend compute.Backend, cfg MeshConfig, set *weights.Set) (*MeshDecoder, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	d := &MeshDecoder{cfg: cfg, backend: backend, upward: newSubdivider(backend, cfg.Groups)}
	d.torso = cfg.build(backend)
	d.leave = nn.NewProgram(backend, "decoder.mesh.leave", func(p nn.Params, nodes []*Node) []*Node {
		return []*Node{nn.Linear(p, nodes[0])}
	})
	d.slabs = newSlabber(backend, cfg.Groups)
	if err := d.Load(set); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Load uploads the weights of set again after Unload. It fails as NewMesh does, and then nothing is loaded.
func (d *MeshDecoder) Load(set *weights.Set) (err error) {
	d.Unload() // if they are there
	if err := set.Check(MeshSpec(d.cfg)); err != nil {
		return fmt.Errorf("decoder: mesh: %w", err)
	}
	if d.weights, err = set.Upload(d.backend); err != nil {
		return fmt.Errorf("decoder: mesh: %w", err)
	}
	d.exit = d.weights.In("out_layer")
	d.torso.Use(d.weights)
	for level := range d.levels {
		d.levels[level] = newSubdivision(d.weights.In("upsample.%d", level))
	}
	d.last = newSlabWeights(d.weights.In("upsample.%d", meshLevels-1), d.exit)
	return nil
}

// Unload frees the weights. The programs stay, for Load. Neither must be called during another call.
func (d *MeshDecoder) Unload() {
	d.weights.Free()
	d.weights, d.exit = nil, nil
	d.torso.Use(nil)
}

// Config returns the hyperparameters.
func (d *MeshDecoder) Config() MeshConfig { return d.cfg }

// Close frees the device memory and the programs.
func (d *MeshDecoder) Close() {
	d.torso.Close()
	d.upward.Close()
	d.leave.Close()
	d.slabs.Close()
	d.Unload()
}

// Decode returns the mesh of one object in its own frame. It has no vertices if the network sees no surface.
//
//	latents [voxels, LatentChannels] on the scale of the decoders, flow.Features.Scaled
//
// It returns ctx.Err() within one program (a block, or half of an upsampling block) of being cancelled, and errors
// wrapping ErrNoVoxels, ErrInput (among other things for more than one batch item: see DecodeBatch), ErrNonFinite, or
// flexicubes.ErrNotFinite if the network's output is not finite.
func (d *MeshDecoder) Decode(ctx context.Context, coords *sparse.Coords, latents []float32) (*flexicubes.Mesh, error) {
	if coords != nil && coords.Batches() > 1 {
		return nil, fmt.Errorf("%w: %d batch items, not one", ErrInput, coords.Batches())
	}
	meshes, err := d.DecodeBatch(ctx, coords, latents)
	if err != nil {
		return nil, err
	}
	return meshes[0], nil
}

// DecodeBatch is Decode for one or more batch items, and returns the mesh of each.
func (d *MeshDecoder) DecodeBatch(ctx context.Context, coords *sparse.Coords, latents []float32) ([]*flexicubes.Mesh, error) {
	if err := d.cfg.check(coords, latents); err != nil {
		return nil, err
	}
	var meshes []*flexicubes.Mesh
	err := d.features(ctx, coords, latents, func(fine *sparse.Coords, features []float32) error {
		for i, start := range fine.Starts[:fine.Batches()] {
			end, width := fine.Starts[i+1], d.cfg.features()
			mesh, err := flexicubes.FromVoxels(ctx, flexicubes.Voxels{
				Resolution: d.cfg.MeshResolution(), Coords: fine.Voxels[start:end], Features: features[start*width : end*width],
			})
			if err != nil {
				return fmt.Errorf("decoder: mesh: %w", err)
			}
			meshes = append(meshes, mesh)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return meshes, nil
}

// features runs the network and has use see what it says about the voxels of the finest grid: [rows, features], of which
// those after the voxels are padding. On a CPU they are not copied, half a gigabyte for 20,000 voxels.
func (d *MeshDecoder) features(ctx context.Context, coords *sparse.Coords, latents []float32, use func(*sparse.Coords, []float32) error) error {
	x, err := d.cfg.run(ctx, d.backend, d.torso, coords, latents)
	if err != nil {
		return err
	}
	defer func() { nn.Free(x) }()
	for level, block := range d.levels {
		fine, err := coords.Subdivide()
		if err != nil {
			return fmt.Errorf("decoder: mesh: %w", err)
		}
		if limit := d.SlabVoxels; level == meshLevels-1 && limit > 0 && limit < len(coords.Voxels) {
			out, err := d.slabs.run(ctx, d.last, coords, x, limit, d.cfg.features())
			if err != nil {
				return err
			}
			return use(fine, out)
		}
		next, err := d.upward.run(ctx, block, coords, x)
		nn.Free(x)
		x, coords = next, fine
		if err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	out, err := d.leave.Call1(d.exit, x)
	nn.Free(x)
	if err != nil {
		return err
	}
	defer nn.Free(out)
	return withViews([]*tensors.Tensor{out}, nil, func(views [][]float32) error { return use(coords, views[0]) })
}
