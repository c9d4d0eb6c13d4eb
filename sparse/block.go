// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sparse

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gomlx3d/image3d/internal/nn"
)

// Epsilons of layer norms: within blocks, and of the last one before an output projection.
const (
	BlockEpsilon = 1e-6
	FinalEpsilon = 1e-5
)

// FeedForward is a two-layer perceptron with GELU's tanh approximation.
//
//	x   [N, C]
//	p   mlp.0, mlp.2
//	out [N, C]
func FeedForward(p nn.Params, x *Node) *Node {
	return nn.FeedForward(p.In("mlp"), "0", "2", nn.GELUTanh, x)
}

// SwinBlock is the transformer block of the decoders: window attention and perceptron, each on a layer norm without
// parameters and added to what it started from.
//
//	x   [N, C]
//	p   attn.{to_qkv,to_out}, mlp.mlp.{0,2}
//	out [N, C]
func SwinBlock(p nn.Params, x *Node, bins Bins, heads int) *Node {
	x = Add(x, WindowAttention(p.In("attn"), nn.Standardize(x, BlockEpsilon), bins, heads))
	return Add(x, FeedForward(p.In("mlp"), nn.Standardize(x, BlockEpsilon)))
}

// ModulatedCrossBlock is the transformer block of the latent flow: full self attention and perceptron, modulated and
// gated by an embedding of time, with cross attention between, which is neither.
//
//	x     [N, C]
//	time  [B, E] or [1, E], before its activation
//	cross makes what cross attention adds to x, [N, C] or [1, C]; usually NormedCross
//	p     adaLN_modulation.1, self_attn, mlp.mlp.{0,2}
//	out   [N, C]
func ModulatedCrossBlock(p nn.Params, x, time *Node, rows Rows, heads int, cross func(x *Node) *Node) *Node {
	m := Split(nn.Linear(p.In("adaLN_modulation.1"), nn.SiLU(time)), 1, 6) // shift, scale, gate; twice
	h := rows.Modulate(nn.Standardize(x, BlockEpsilon), m[0], m[1])
	x = Add(x, rows.Gate(SelfAttention(p.In("self_attn"), h, rows, heads), m[2]))
	x = Add(x, cross(x))
	h = rows.Modulate(nn.Standardize(x, BlockEpsilon), m[3], m[4])
	return Add(x, rows.Gate(FeedForward(p.In("mlp"), h), m[5]))
}

// NormedCross is the cross attention of a ModulatedCrossBlock.
//
//	x    [N, C]
//	k, v [B, H, S, K]
//	p    norm2, cross_attn.{to_q,to_out}
//	out  [N, C]
func NormedCross(p nn.Params, x *Node, rows Rows, k, v *Node) *Node {
	return CrossAttention(p.In("cross_attn"), nn.LayerNorm(p.In("norm2"), x, BlockEpsilon), rows, k, v)
}
