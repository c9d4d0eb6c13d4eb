// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sparse

import (
	"context"
	"fmt"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/internal/nn"
)

// TorsoConfig holds the hyperparameters of a Torso. Comments give the released values.
type TorsoConfig struct {
	Resolution int // of the grid; 64
	Width      int // channels of the blocks; 768
	Heads      int // 12
	Blocks     int // 12
	Window     int // edge of the windows, which odd blocks shift by half of it; 8
}

// Torso is what the Gaussian and the mesh decoder have in common: a projection of the latents, a position embedding
// and blocks of window attention. It is safe for concurrent use.
type Torso struct {
	cfg     TorsoConfig
	backend compute.Backend
	enter   *nn.Program
	block   *nn.Program
	entry   nn.Weights
	blocks  []nn.Weights
}

// NewTorso returns a Torso that has no parameters yet, see Use.
func NewTorso(backend compute.Backend, cfg TorsoConfig) *Torso {
	t := &Torso{cfg: cfg, backend: backend}
	t.enter = nn.NewProgram(backend, "sparse.torso.enter", func(p nn.Params, nodes []*Node) []*Node {
		x, positions := nodes[0], nodes[1]
		x = nn.Linear(p.In("input_layer"), x) // [N, D]
		position := nn.GridEmbedding(positions, cfg.Resolution, cfg.Width)
		return []*Node{Add(x, ConvertDType(position, x.DType()))}
	})
	t.block = nn.NewProgram(backend, "sparse.torso.block", func(p nn.Params, nodes []*Node) []*Node {
		in := Read(nodes)
		return []*Node{SwinBlock(p, in.Node(), in.Windows(), cfg.Heads)}
	})
	return t
}

// Use has the Torso run with the parameters input_layer.{weight,bias} and blocks.i.{attn.to_qkv, attn.to_out, mlp.mlp.0,
// mlp.mlp.2}.{weight,bias} of w, which stay the caller's. It must not be called during a Run.
func (t *Torso) Use(w nn.Weights) {
	t.entry, t.blocks = w.Only("input_layer"), nil
	for i := range t.cfg.Blocks {
		t.blocks = append(t.blocks, w.In("blocks.%d", i))
	}
}

// Close frees the programs.
func (t *Torso) Close() {
	t.enter.Close()
	t.block.Close()
}

// Run computes the features of voxels. It returns ctx.Err() within one block of being cancelled.
//
//	x   [N, latent channels] of the rows of coords (see Layout.UploadFeatures); stays the caller's
//	out [N, Width], which belongs to the caller
func (t *Torso) Run(ctx context.Context, coords *Coords, x *tensors.Tensor) (*tensors.Tensor, error) {
	if coords.Grid > t.cfg.Resolution {
		return nil, fmt.Errorf("%w: voxels of grid %d in a model of %d", ErrRange, coords.Grid, t.cfg.Resolution)
	}
	windows, err := coords.Windows(t.cfg.Window, 0, t.cfg.Window/2)
	if err != nil {
		return nil, err
	}
	var shifts [2]Arrays
	for i := range shifts {
		if shifts[i], err = windows[i].Upload(t.backend); err != nil {
			return nil, err
		}
		defer shifts[i].Free()
	}
	positions, err := coords.UploadPositions(t.backend)
	if err != nil {
		return nil, err
	}
	defer positions.Free()
	h, err := t.enter.Call1(t.entry, Args(x, positions)...)
	if err != nil {
		return nil, err
	}
	for i, w := range t.blocks {
		if err := ctx.Err(); err != nil {
			nn.Free(h)
			return nil, err
		}
		next, err := t.block.Call1(w, Args(h, shifts[i%2])...)
		nn.Free(h)
		if err != nil {
			return nil, err
		}
		h = next
	}
	return h, nil
}
