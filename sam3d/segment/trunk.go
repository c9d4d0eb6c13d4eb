// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gomlx3d/image3d/internal/nn"
)

// rotaryBase is the base of the frequencies of the rotary position embedding.
const rotaryBase = 10000

// attended is the number of positions that a token of a block can attend to.
func (c Config) attended(block int) int {
	if c.global(block) {
		return c.grid() * c.grid()
	}
	return c.WindowSize * c.WindowSize
}

// embedPatches projects patches and adds their positions: the table of the pretraining size is laid out like tiles, not
// enlarged.
//
//	p      patch_embed.proj, pos_embed, ln_pre
//	pixels [B, 3, S, S]
//	out    [B, g, g, ViTDim]
func embedPatches(p nn.Params, cfg Config, pixels *Node) *Node {
	batch, grid, table, width := pixels.Shape().Dimensions[0], cfg.grid(), cfg.table(), cfg.ViTDim
	pixels.AssertDims(-1, 3, cfg.ImageSize, cfg.ImageSize)
	x := Reshape(patches(p.In("patch_embed.proj"), pixels, cfg.PatchSize), batch, grid, grid, width)
	position := Slice(p.As(x, "pos_embed"), AxisRange(), AxisRange(1)) // without that of a class token
	position = Reshape(position, table, table, width)
	position = tile(tile(position, 0, grid), 1, grid) // [g, g, ViTDim]
	x = Add(x, ExpandAxes(position, 0))
	return nn.LayerNorm(p.In("ln_pre"), x, cfg.ViTEpsilon)
}

// patches projects square patches, without a bias.
//
//	p   weight [D, in, k, k]
//	x   [B, in, Y, X]
//	out [B, Y/k, X/k, D]
func patches(p nn.Params, x *Node, k int) *Node {
	weight, dims := p.As(x, "weight"), x.Shape().Dimensions
	width, in, rows, cols := weight.Shape().Dimensions[0], dims[1], dims[2]/k, dims[3]/k
	x = Reshape(x, dims[0], in, rows, k, cols, k)
	x = TransposeAllAxes(x, 0, 2, 4, 1, 3, 5) // [B, Y/k, X/k, in, k, k]
	x = Reshape(x, dims[0], rows, cols, in*k*k)
	return nn.MatMulT(x, Reshape(weight, width, in*k*k))
}

// tile repeats an axis until it has the given size, cutting the last copy.
func tile(x *Node, axis, size int) *Node {
	have := x.Shape().Dimensions[axis]
	var parts []*Node
	for start := 0; start < size; start += have {
		parts = append(parts, SliceAxis(x, axis, AxisRange(0, min(have, size-start))))
	}
	return Concatenate(parts, axis)
}

// trunkBlock is one pre-norm transformer block of the image encoder. It attends among all patches, or among those of
// each window.
//
//	p   norm1, attn.qkv, attn.proj, norm2, mlp.fc1, mlp.fc2
//	x   [B, g, g, ViTDim]
//	out [B, g, g, ViTDim]
func trunkBlock(p nn.Params, cfg Config, global bool, x *Node) *Node {
	h := nn.LayerNorm(p.In("norm1"), x, cfg.ViTEpsilon)
	if global {
		// Positions count in windows, so that a token sees distances as in pretraining.
		scale := float64(cfg.WindowSize) / float64(cfg.grid())
		h = rotaryAttention(p.In("attn"), cfg, scale, h)
	} else {
		h = windowAttention(p.In("attn"), cfg, h)
	}
	x = Add(x, h)
	h = nn.LayerNorm(p.In("norm2"), x, cfg.ViTEpsilon)
	return Add(x, nn.FeedForward(p.In("mlp"), "fc1", "fc2", nn.GELU, h))
}

// windowAttention attends inside each window. Windows that reach over the right or the lower border are filled with
// zeros, which take part.
//
//	x   [B, g, g, ViTDim]
//	out [B, g, g, ViTDim]
func windowAttention(p nn.Params, cfg Config, x *Node) *Node {
	dims, side := x.Shape().Dimensions, cfg.WindowSize
	batch, grid, width := dims[0], dims[1], dims[3]
	n := (grid + side - 1) / side // windows a row
	if fill := n*side - grid; fill > 0 {
		x = GrowRight(GrowRight(x, 1, fill, 0), 2, fill, 0)
	}
	x = Reshape(x, batch, n, side, n, side, width)
	x = TransposeAllAxes(x, 0, 1, 3, 2, 4, 5)
	x = Reshape(x, batch*n*n, side, side, width) // [windows, side, side, ViTDim]
	x = rotaryAttention(p, cfg, 1, x)
	x = Reshape(x, batch, n, n, side, side, width)
	x = TransposeAllAxes(x, 0, 1, 3, 2, 4, 5)
	x = Reshape(x, batch, n*side, n*side, width) // [B, filled, filled, ViTDim]
	return Slice(x, AxisRange(), AxisRange(0, grid), AxisRange(0, grid))
}

// rotaryAttention attends among all tokens of a square, whose positions turn queries and keys. Positions are multiples
// of scale.
//
//	x   [B, n, n, ViTDim]
//	out [B, n, n, ViTDim]
func rotaryAttention(p nn.Params, cfg Config, scale float64, x *Node) *Node {
	dims := x.Shape().Dimensions
	x = Reshape(x, dims[0], dims[1]*dims[2], dims[3])                // [B, T, ViTDim]
	qkv := nn.SplitHeads(nn.Linear(p.In("qkv"), x), 3, cfg.ViTHeads) // 3 x [B, T, H, K]
	for i := range qkv {
		qkv[i] = nn.HeadsFirst(qkv[i]) // [B, H, T, K]
	}
	cos, sin := rotaryTables(dims[1], cfg.ViTDim/cfg.ViTHeads, scale)
	tokens, pairs := dims[1]*dims[2], cfg.ViTDim/cfg.ViTHeads/2
	table := func(values []float32) *Node { return Reshape(ConstAs(x, values), 1, 1, tokens, pairs) }
	q, k := rotate(qkv[0], table(cos), table(sin)), rotate(qkv[1], table(cos), table(sin))
	x = nn.Linear(p.In("proj"), nn.Attend(q, k, qkv[2], nil))
	return Reshape(x, dims...) // [B, n, n, ViTDim]
}

// rotate turns the pairs (2i, 2i+1) of each head's values. The results of all first halves come first: the order does
// not matter to a product of queries and keys that share it.
//
//	x        [B, H, T, K]
//	cos, sin [1, 1, T, K/2]
//	out      [B, H, T, K]
func rotate(x, cos, sin *Node) *Node {
	dims := x.Shape().Dimensions
	pairs := Reshape(x, dims[0], dims[1], dims[2], dims[3]/2, 2)
	half := func(i int) *Node {
		return Squeeze(Slice(pairs, AxisRange(), AxisRange(), AxisRange(), AxisRange(), AxisElem(i)), 4)
	}
	a, b := half(0), half(1)
	return Concatenate([]*Node{Sub(Mul(a, cos), Mul(b, sin)), Add(Mul(a, sin), Mul(b, cos))}, 3)
}

// rotaryTables returns the cosines and sines that turn the pairs of a head's values at each place of a square: the first
// half of the pairs by the column, the second by the row.
//
//	out [side*side, width/2] each, row-major
func rotaryTables(side, width int, scale float64) (cos, sin []float32) {
	quarter := width / 4
	for row := range side {
		for col := range side {
			for pair := range 2 * quarter {
				place := col
				if pair >= quarter {
					place = row
				}
				frequency := math.Pow(rotaryBase, -4*float64(pair%quarter)/float64(width))
				// In float32, as in the original: its rounding is part of the trained network.
				angle := float64(float32(float64(place)*scale) * float32(frequency))
				cos, sin = append(cos, float32(math.Cos(angle))), append(sin, float32(math.Sin(angle)))
			}
		}
	}
	return cos, sin
}

// neckLevel makes one feature map of a neck: enlarged by 4 or 2 if the level has such layers, then mixed.
//
//	p   [dconv_2x2_0, dconv_2x2_1 | dconv_2x2], conv_1x1, conv_3x3
//	x   [B, g, g, ViTDim]
//	out [B, n, n, D], n = 4g, 2g or g
func neckLevel(p nn.Params, x *Node) *Node {
	if p.Has("dconv_2x2_0.weight") {
		x = nn.GELU(nn.ConvTranspose2x2(p.In("dconv_2x2_0"), x))
		x = nn.ConvTranspose2x2(p.In("dconv_2x2_1"), x)
	} else if p.Has("dconv_2x2.weight") {
		x = nn.ConvTranspose2x2(p.In("dconv_2x2"), x)
	}
	return nn.Conv2DZero(p.In("conv_3x3"), conv1x1(p.In("conv_1x1"), x))
}

// conv1x1 projects the channels of each pixel.
//
//	p   weight [out, in, 1, 1], bias [out]
//	x   [B, Y, X, in]
//	out [B, Y, X, out]
func conv1x1(p nn.Params, x *Node) *Node {
	weight := p.As(x, "weight")
	y := nn.MatMulT(x, Reshape(weight, weight.Shape().Dimensions[:2]...))
	return nn.AddLast(y, p.As(y, "bias"))
}
