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
	if err := d.Load(set); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Load uploads the weights of set again after Unload. It fails as NewMesh does, and then nothing is loaded.
func (d *MeshDecoder) Load(set *weights.Set) (err error) {
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
	features, fine, err := d.features(ctx, coords, latents)
	if err != nil {
		return nil, err
	}
	defer nn.Free(features)
	var meshes []*flexicubes.Mesh
	// On a CPU the features, half a gigabyte for 20,000 voxels, are not copied.
	err = withViews([]*tensors.Tensor{features}, nil, func(views [][]float32) error {
		for i, start := range fine.Starts[:fine.Batches()] {
			end, width := fine.Starts[i+1], d.cfg.features()
			mesh, err := flexicubes.FromVoxels(ctx, flexicubes.Voxels{
				Resolution: d.cfg.MeshResolution(), Coords: fine.Voxels[start:end], Features: views[0][start*width : end*width],
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

// features runs the network.
//
//	out  [64N, features], which belongs to the caller
//	fine coordinates of its rows
func (d *MeshDecoder) features(ctx context.Context, coords *sparse.Coords, latents []float32) (out *tensors.Tensor, fine *sparse.Coords, err error) {
	x, err := d.cfg.run(ctx, d.backend, d.torso, coords, latents)
	if err != nil {
		return nil, nil, err
	}
	for _, block := range d.levels {
		next, err := d.upward.run(ctx, block, coords, x)
		nn.Free(x)
		if err != nil {
			return nil, nil, err
		}
		x = next
		if coords, err = coords.Subdivide(); err != nil {
			nn.Free(x)
			return nil, nil, fmt.Errorf("decoder: mesh: %w", err)
		}
	}
	defer nn.Free(x)
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	out, err = d.leave.Call1(d.exit, x)
	return out, coords, err
}
