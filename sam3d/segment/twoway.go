// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gomlx3d/image3d/internal/nn"
)

const (
	headEpsilon = 1e-5 // of the layer norms of both heads
	mapEpsilon  = 1e-6 // of the norms of feature maps in the interactive head
)

// clickFeatures makes what the interactive head needs of a picture.
//
//	p   conv_s0, conv_s1, no_mem_embed, positions
//	in  the neck's maps [B, 4g, 4g, D], [B, 2g, 2g, D], [B, g, g, D]
//	out [B, 4g, 4g, D/8], [B, 2g, 2g, D/4], [B, g*g, D], and the positions of the cells [1, g*g, D]
func (c Config) clickFeatures(p nn.Params, in []*Node) []*Node {
	grid := c.grid()
	coarse := Reshape(in[2], in[2].Shape().Dimensions[0], grid*grid, c.ModelDim)
	coarse = Add(coarse, p.As(coarse, "no_mem_embed")) // there is no video before this picture
	places := make([]float32, 0, 2*grid*grid)
	for row := range grid {
		for col := range grid {
			places = append(places, (float32(col)+0.5)/float32(grid), (float32(row)+0.5)/float32(grid))
		}
	}
	cells := placeEmbedding(p.As(coarse, "positions"), Reshape(ConstAs(coarse, places), 1, grid*grid, 2))
	return []*Node{conv1x1(p.In("conv_s0"), in[0]), conv1x1(p.In("conv_s1"), in[1]), coarse, cells}
}

// placeEmbedding embeds places by sines and cosines of random frequencies.
//
//	frequencies [2, D/2]
//	places      [B, N, 2] in 0..1, x before y
//	out         [B, N, D]
func placeEmbedding(frequencies, places *Node) *Node {
	dims, half := places.Shape().Dimensions, frequencies.Shape().Dimensions[1]
	places = AddScalar(MulScalar(places, 2), -1)
	along := func(axis int) *Node { // not by a matrix product, whose precision some devices reduce
		place := Slice(places, AxisRange(), AxisRange(), AxisElem(axis)) // [B, N, 1]
		frequency := Reshape(Slice(frequencies, AxisElem(axis)), 1, 1, half)
		return Mul(BroadcastToDims(place, dims[0], dims[1], half), BroadcastToDims(frequency, dims[0], dims[1], half))
	}
	angle := MulScalar(Add(along(0), along(1)), 2*math.Pi)
	return Concatenate([]*Node{Sin(angle), Cos(angle)}, 2)
}

// click decodes a prompt (prompt_encoder.py and mask_decoder.py of the original).
//
//	p   prompt, decoder
//	in  fine, middle, coarse and position of clickFeatures for one picture; the prompt's places [1, P, 2] in 0..1, kinds
//	    [1, P] int32 and whether each counts [1, P] bool; perhaps a mask [1, 4g, 4g, 1]
//	out logits [1, maskTokens, 4g, 4g], scores [1, maskTokens], logit of an object [1, 1]
func (c Config) click(p nn.Params, in []*Node) []*Node {
	fine, middle, image, position, places, kinds, valid := in[0], in[1], in[2], in[3], in[4], in[5], in[6]
	prompt := p.In("prompt")
	if len(in) > 7 {
		image = Add(image, c.maskEmbedding(prompt.In("mask_downscaling"), in[7]))
	} else {
		image = Add(image, ExpandLeftToRank(prompt.As(image, "no_mask_embed.weight"), 3))
	}
	decoder := p.In("decoder")
	own := Concatenate([]*Node{
		decoder.As(image, "obj_score_token.weight"), decoder.As(image, "iou_token.weight"), decoder.As(image, "mask_tokens.weight"),
	}, 0) // [2+maskTokens, D]
	tokens := Concatenate([]*Node{ExpandAxes(own, 0), promptEmbedding(prompt, places, kinds)}, 1) // [1, 2+maskTokens+P, D]
	always := BroadcastToDims(Const(image.Graph(), true), 1, 2+maskTokens)
	valid = Concatenate([]*Node{always, valid}, 1)
	tokens, image = c.twoWay(decoder.In("transformer"), tokens, image, position, valid)
	object, score := token(tokens, 0, 1), token(tokens, 1, 1)
	masks := c.maskLogits(decoder, token(tokens, 2, maskTokens), image, fine, middle)
	score = Sigmoid(mlp(decoder.In("iou_prediction_head"), 3, score))
	object = mlp(decoder.In("pred_obj_score_head"), 3, object)
	return []*Node{masks, Reshape(score, 1, maskTokens), Reshape(object, 1, 1)}
}

// token returns n tokens from the given one on.
func token(tokens *Node, first, n int) *Node {
	return Slice(tokens, AxisRange(), AxisRange(first, first+n))
}

// promptEmbedding embeds the prompt's tokens: a place and what it means. Where there is no place, the meaning alone.
//
//	p      pe_layer, point_embeddings, not_a_point_embed
//	places [1, P, 2], kinds [1, P] int32
//	out    [1, P, D]
func promptEmbedding(p nn.Params, places, kinds *Node) *Node {
	e := placeEmbedding(p.As(places, "pe_layer.positional_encoding_gaussian_matrix"), places)
	var rows []*Node
	for label := range pointLabels {
		rows = append(rows, p.In("point_embeddings.%d", label).As(e, "weight"))
	}
	nothing := p.As(e, "not_a_point_embed.weight")
	table := Concatenate(append(rows, nothing, ZerosLike(nothing)), 0) // [6, D]
	meaning := Gather(table, ExpandAxes(kinds, -1))                    // [1, P, D]
	isPlace := LessThan(kinds, Scalar(kinds.Graph(), dtypes.Int32, tokenNoPoint))
	isPlace = BroadcastToDims(ExpandAxes(isPlace, -1), e.Shape().Dimensions...)
	return Add(Where(isPlace, e, ZerosLike(e)), meaning)
}

// maskEmbedding embeds a mask that the answer shall be near.
//
//	p    0, 1, 3, 4, 6
//	mask [1, 4g, 4g, 1] logits
//	out  [1, g*g, D]
func (c Config) maskEmbedding(p nn.Params, mask *Node) *Node {
	x := nn.GELU(nn.LayerNorm(p.In("1"), halve(p.In("0"), mask), mapEpsilon))
	x = nn.GELU(nn.LayerNorm(p.In("4"), halve(p.In("3"), x), mapEpsilon))
	return Reshape(conv1x1(p.In("6"), x), 1, c.grid()*c.grid(), c.ModelDim)
}

// halve is a convolution of kernel 2 and stride 2.
//
//	p   weight [out, in, 2, 2], bias [out]
//	x   [B, Y, X, in]
//	out [B, Y/2, X/2, out]
func halve(p nn.Params, x *Node) *Node {
	weight, dims := p.As(x, "weight"), x.Shape().Dimensions
	out, in := weight.Shape().Dimensions[0], dims[3]
	x = Reshape(x, dims[0], dims[1]/2, 2, dims[2]/2, 2, in)
	x = TransposeAllAxes(x, 0, 1, 3, 5, 2, 4)
	x = Reshape(x, dims[0], dims[1]/2, dims[2]/2, in*4) // [B, Y/2, X/2, in*2*2]
	return nn.AddLast(nn.MatMulT(x, Reshape(weight, out, in*4)), p.As(x, "bias"))
}

// twoWay lets the tokens and the picture look at each other.
//
//	p               layers, final_attn_token_to_image, norm_final_attn
//	tokens          [1, T, D]
//	image, position [1, g*g, D]
//	valid           [1, T], which tokens count
func (c Config) twoWay(p nn.Params, tokens, image, position, valid *Node) (outTokens, outImage *Node) {
	prompt := tokens // the tokens as they came mark their places in every attention
	norm := func(p nn.Params, x *Node) *Node { return nn.LayerNorm(p, x, headEpsilon) }
	for i := range twoWayLayers {
		layer := p.In("layers.%d", i)
		if i == 0 {
			tokens = c.attend(layer.In("self_attn"), tokens, tokens, tokens, valid)
		} else {
			at := Add(tokens, prompt)
			tokens = Add(tokens, c.attend(layer.In("self_attn"), at, at, tokens, valid))
		}
		tokens = norm(layer.In("norm1"), tokens)
		tokens = Add(tokens, c.attend(layer.In("cross_attn_token_to_image"), Add(tokens, prompt), Add(image, position), image, nil))
		tokens = norm(layer.In("norm2"), tokens)
		tokens = Add(tokens, nn.FeedForward(layer.In("mlp"), "lin1", "lin2", relu, tokens))
		tokens = norm(layer.In("norm3"), tokens)
		image = Add(image, c.attend(layer.In("cross_attn_image_to_token"), Add(image, position), Add(tokens, prompt), tokens, valid))
		image = norm(layer.In("norm4"), image)
	}
	last := p.In("final_attn_token_to_image")
	tokens = Add(tokens, c.attend(last, Add(tokens, prompt), Add(image, position), image, nil))
	return norm(p.In("norm_final_attn"), tokens), image
}

// attend is an attention with projections apart.
//
//	p       q_proj, k_proj, v_proj, out_proj
//	q       [B, T, D]; k, v [B, S, D]
//	keyMask [B, S] bool, or nil
//	out     [B, T, D]
func (c Config) attend(p nn.Params, q, k, v, keyMask *Node) *Node {
	project := func(name string, x *Node) *Node { return nn.Heads(nn.Linear(p.In("%s", name), x), c.Heads) }
	return nn.Linear(p.In("out_proj"), nn.Attend(project("q_proj", q), project("k_proj", k), project("v_proj", v), keyMask))
}

// maskLogits enlarges the picture's cells fourfold and multiplies them with what each mask token looks for.
//
//	p      output_upscaling, output_hypernetworks_mlps
//	tokens [1, maskTokens, D]
//	image  [1, g*g, D]; fine [1, 4g, 4g, D/8]; middle [1, 2g, 2g, D/4]
//	out    [1, maskTokens, 4g, 4g]
func (c Config) maskLogits(p nn.Params, tokens, image, fine, middle *Node) *Node {
	up, grid := p.In("output_upscaling"), c.grid()
	x := Add(nn.ConvTranspose2x2(up.In("0"), Reshape(image, 1, grid, grid, c.ModelDim)), middle)
	x = nn.GELU(nn.LayerNorm(up.In("1"), x, mapEpsilon))       // [1, 2g, 2g, D/4]
	x = nn.GELU(Add(nn.ConvTranspose2x2(up.In("3"), x), fine)) // [1, 4g, 4g, D/8]
	var wanted []*Node
	for i := range maskTokens {
		wanted = append(wanted, mlp(p.In("output_hypernetworks_mlps.%d", i), 3, token(tokens, i, 1)))
	}
	look := Concatenate(wanted, 1)                                      // [1, maskTokens, D/8]
	return Dot(look, x).General([]int{2}, []int{0}, []int{3}, []int{0}) // [1, maskTokens, 4g, 4g]
}

// mlp is a perceptron of layers with ReLU between them.
//
//	p   layers.0 to layers.n-1
//	x   [..., in]
//	out [..., out]
func mlp(p nn.Params, n int, x *Node) *Node {
	for i := range n {
		if i > 0 {
			x = relu(x)
		}
		x = nn.Linear(p.In("layers.%d", i), x)
	}
	return x
}

func relu(x *Node) *Node { return MaxScalar(x, 0) }
