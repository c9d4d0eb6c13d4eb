// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"context"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/internal/nn"
)

// levels is the number of feature maps that a neck makes; a fourth one in SAM 3 is used nowhere.
const levels = 3

// vision is the image encoder with its necks.
type vision struct {
	cfg       Config
	embedding nn.Weights
	blocks    []nn.Weights
	necks     map[string][]nn.Weights // by module, then level

	embed, windowed, global, level *nn.Program
}

func newVision(backend compute.Backend, cfg Config, w nn.Weights) *vision {
	program := func(name string, build func(p nn.Params, in []*Node) *Node) *nn.Program {
		return nn.NewProgram(backend, "segment.vision."+name, func(p nn.Params, in []*Node) []*Node { return []*Node{build(p, in)} })
	}
	trunk := w.In("%s", trunkPrefix[:len(trunkPrefix)-1])
	v := &vision{
		cfg: cfg, embedding: trunk.Only("pos_embed", "patch_embed", "ln_pre"), necks: make(map[string][]nn.Weights),
		embed:    program("embed", func(p nn.Params, in []*Node) *Node { return embedPatches(p, cfg, in[0]) }),
		windowed: program("window", func(p nn.Params, in []*Node) *Node { return trunkBlock(p, cfg, false, in[0]) }),
		global:   program("global", func(p nn.Params, in []*Node) *Node { return trunkBlock(p, cfg, true, in[0]) }),
		level:    program("level", func(p nn.Params, in []*Node) *Node { return neckLevel(p, in[0]) }),
	}
	for i := range cfg.ViTDepth {
		v.blocks = append(v.blocks, trunk.In("blocks.%d", i))
	}
	for _, neck := range []string{groundingNeck, interactiveNeck} {
		for level := range levels {
			v.necks[neck] = append(v.necks[neck], w.In("%s.%d", neck, level))
		}
	}
	return v
}

func (v *vision) close() {
	for _, p := range []*nn.Program{v.embed, v.windowed, v.global, v.level} {
		p.Close()
	}
}

// trunk runs the image encoder.
//
//	pixels [B, 3, S, S] normalised
//	out    [B, g, g, ViTDim]; the caller frees it
func (v *vision) trunk(ctx context.Context, pixels *tensors.Tensor) (*tensors.Tensor, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	x, err := v.embed.Call1(v.embedding, pixels)
	for i := 0; i < len(v.blocks) && err == nil; i++ {
		before, program := x, v.windowed
		if v.cfg.global(i) {
			program = v.global
		}
		x, err = program.Call1(v.blocks[i], before)
		nn.Free(before)
		if err == nil {
			err = ctx.Err()
		}
	}
	if err != nil {
		nn.Free(x)
		return nil, err
	}
	return x, nil
}

// neck makes the feature maps of a head, the finest first.
//
//	features [B, g, g, ViTDim]
//	out      [B, 4g, 4g, D], [B, 2g, 2g, D], [B, g, g, D]; the caller frees them
func (v *vision) neck(ctx context.Context, module string, features *tensors.Tensor) ([]*tensors.Tensor, error) {
	var out []*tensors.Tensor
	for _, w := range v.necks[module] {
		x, err := v.level.Call1(w, features)
		if err == nil {
			out, err = append(out, x), ctx.Err()
		}
		if err != nil {
			nn.Free(out...)
			return nil, err
		}
	}
	return out, nil
}
