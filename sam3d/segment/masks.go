// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gomlx3d/image3d/internal/nn"
)

// pixels makes the map whose products with queries are masks, and one that is a mask already.
//
//	p   cross_attn_norm, cross_attend_prompt, pixel_decoder
//	in  cells [B, g*g, D]; prompt [B, P, D]; valid [B, P]; the neck's maps [B, 4g, 4g, D], [B, 2g, 2g, D]
//	out [B, 4g, 4g, D]
func (c Config) pixels(p nn.Params, in []*Node) *Node {
	cells, prompt, valid, fine, middle := in[0], in[1], in[2], in[3], in[4]
	h := nn.LayerNorm(p.In("cross_attn_norm"), cells, headEpsilon)
	x := Add(cells, packedAttention(p.In("cross_attend_prompt"), c.Heads, h, prompt, prompt, keyBias(valid)))
	x = Reshape(x, x.Shape().Dimensions[0], c.grid(), c.grid(), c.ModelDim)
	for i, level := range []*Node{middle, fine} {
		x = nn.Conv2DZero(p.In("pixel_decoder.conv_layers.%d", i), Add(level, doubled(x)))
		x = relu(nn.GroupNorm(p.In("pixel_decoder.norms.%d", i), x, maskGroups, headEpsilon))
	}
	return x
}

// doubled repeats every cell of a map [B, Y, X, C] twice in both directions.
func doubled(x *Node) *Node {
	dims := x.Shape().Dimensions
	x = BroadcastToDims(ExpandAxes(x, 2, 4), dims[0], dims[1], 2, dims[2], 2, dims[3])
	return Reshape(x, dims[0], 2*dims[1], 2*dims[2], dims[3])
}

// masks multiplies some queries with the map of pixels.
//
//	p      instance_seg_head, mask_predictor.mask_embed
//	pixels [B, 4g, 4g, D]; queries [B, Q, D]; chosen [B, K] int32
//	out    [B, K, 4g, 4g] logits
func (c Config) masks(p nn.Params, pixels, queries, chosen *Node) *Node {
	dims := queries.Shape().Dimensions
	// Rows of one list of all pictures' queries.
	first := MulScalar(Iota(chosen.Graph(), chosen.Shape(), 0), float64(dims[1]))
	rows := Gather(Reshape(queries, dims[0]*dims[1], dims[2]), ExpandAxes(Add(chosen, first), -1)) // [B, K, D]
	look := mlp(p.In("mask_predictor.mask_embed"), 3, rows)
	// The projection of the pixels is applied to the few queries instead: both are linear.
	head := p.In("instance_seg_head")
	weight := head.As(look, "weight")
	weight = Reshape(weight, weight.Shape().Dimensions[:2]...)
	look, offset := Dot(look, weight).General([]int{2}, nil, []int{0}, nil), Dot(look, head.As(look, "bias")).General([]int{2}, nil, []int{0}, nil)
	out := Dot(look, pixels).General([]int{2}, []int{0}, []int{3}, []int{0}) // [B, K, 4g, 4g]
	return Add(out, ExpandAxes(offset, 2, 3))
}

// semantic is one mask of all that the prompt describes.
//
//	p      semantic_seg_head
//	pixels [B, 4g, 4g, D]
//	out    [B, 4g, 4g] logits
func semantic(p nn.Params, pixels *Node) *Node {
	return Squeeze(conv1x1(p.In("semantic_seg_head"), pixels), 3)
}
