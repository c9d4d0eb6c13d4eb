// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package dinov2 is the DINOv2 vision transformer (Oquab et al., "DINOv2: Learning Robust Visual Features without
// Supervision", 2023; registers: Darcet et al., "Vision Transformers Need Registers", 2023): an image in, one token for
// each patch of 14 x 14 pixels out.
//
// Encoder holds the weights and runs the network. The functions on nodes are its parts, for the graphs of other
// models. Parameters have the names of the original checkpoints.
//
// Dimension letters: B batch, H and W pixels, N patches, R registers, T = 1+R+N tokens, D model width.
package dinov2

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gomlx3d/image3d/internal/nn"
)

// Mean and Std are the per-channel statistics that images in 0..1 are normalised with.
var (
	Mean = [3]float32{0.485, 0.456, 0.406}
	Std  = [3]float32{0.229, 0.224, 0.225}
)

// Embed turns an image into the tokens that enter the first block: the class token, the registers, then the patches
// row by row. Positions are added to the class token and the patches, not to the registers.
//
//	p     cls_token, pos_embed, register_tokens, patch_embed.proj
//	image [B, 3, H, W] normalised
//	out   [B, T, D]
func Embed(p nn.Params, cfg Config, image *Node) *Node {
	batch, rows, cols := image.Shape().Dimensions[0], image.Shape().Dimensions[2], image.Shape().Dimensions[3]
	patches := nn.PatchEmbed(p.In("patch_embed.proj"), image) // [B, N, D]
	class, grid := positions(p, cfg, rows/cfg.PatchSize, cols/cfg.PatchSize)
	patches = Add(patches, ConvertDType(grid, patches.DType()))
	class = Add(p.As(patches, "cls_token"), ConvertDType(class, patches.DType())) // [1, 1, D]
	parts := []*Node{BroadcastToDims(class, batch, 1, cfg.EmbedDim)}
	if cfg.Registers > 0 {
		registers := p.As(patches, "register_tokens") // [1, R, D]
		parts = append(parts, BroadcastToDims(registers, batch, cfg.Registers, cfg.EmbedDim))
	}
	return Concatenate(append(parts, patches), 1) // [B, T, D]
}

// Block is one pre-norm transformer block with layer scale.
//
//	p   norm1, attn.qkv, attn.proj, ls1, norm2, mlp.fc1, mlp.fc2, ls2
//	x   [B, T, D]
//	out [B, T, D]
func Block(p nn.Params, cfg Config, x *Node) *Node {
	h := nn.LayerNorm(p.In("norm1"), x, cfg.NormEpsilon)
	h = attention(p.In("attn"), cfg, h)
	x = Add(x, nn.MulLast(h, p.As(h, "ls1.gamma")))
	h = nn.LayerNorm(p.In("norm2"), x, cfg.NormEpsilon)
	h = nn.FeedForward(p.In("mlp"), "fc1", "fc2", nn.GELU, h)
	return Add(x, nn.MulLast(h, p.As(h, "ls2.gamma")))
}

// attention attends among all tokens. The packed projection holds the queries of all heads, then the keys, then the
// values.
func attention(p nn.Params, cfg Config, x *Node) *Node {
	qkv := nn.SplitHeads(nn.Linear(p.In("qkv"), x), 3, cfg.NumHeads) // 3 x [B, T, H, K]
	for i := range qkv {
		qkv[i] = nn.HeadsFirst(qkv[i])
	}
	return nn.Linear(p.In("proj"), nn.Attend(qkv[0], qkv[1], qkv[2], nil))
}

// FinalNorm is the layer norm that ends the network. MoGe applies it to intermediate layers too.
//
//	p   norm
//	x   [B, T, D]
//	out [B, T, D]
func FinalNorm(p nn.Params, cfg Config, x *Node) *Node {
	return nn.LayerNorm(p.In("norm"), x, cfg.NormEpsilon)
}

// Patches returns the tokens of the patches alone.
//
//	x   [B, T, D]
//	out [B, N, D], row-major over the grid
func Patches(cfg Config, x *Node) *Node { return Slice(x, AxisRange(), AxisRange(cfg.Special())) }

// WithoutRegisters returns the class token and the patches.
//
//	x   [B, T, D]
//	out [B, 1+N, D]
func WithoutRegisters(cfg Config, x *Node) *Node {
	if cfg.Registers == 0 {
		return x
	}
	return Concatenate([]*Node{Slice(x, AxisRange(), AxisRange(0, 1)), Patches(cfg, x)}, 1)
}

// Normalize prepares a picture as the "Dino" wrapper of SAM 3D Objects does: resized to size x size (bilinear, without
// antialiasing; untouched if it has that size), one channel repeated to three, then normalised per channel. Masks are
// normalised like pictures.
//
//	x   [B, 3, H, W] or [B, 1, H, W], 0..1
//	out [B, 3, size, size]
func Normalize(x *Node, size int) *Node {
	dims := x.Shape().Dimensions
	if dims[2] != size || dims[3] != size {
		x = TransposeAllAxes(x, 0, 2, 3, 1)
		x = TransposeAllAxes(nn.ResizeBilinear(x, size, size), 0, 3, 1, 2)
	}
	x = BroadcastToDims(x, dims[0], 3, size, size)
	channel := func(v [3]float32) *Node { return Reshape(ConstAs(x, v[:]), 1, 3, 1, 1) }
	return Div(Sub(x, channel(Mean)), channel(Std))
}
