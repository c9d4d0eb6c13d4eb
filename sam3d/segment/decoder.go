// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gomlx3d/image3d/internal/nn"
)

const (
	maskGroups = 8    // of the group norms of the mask head
	boxEpsilon = 1e-3 // keeps logits of coordinates finite
	scoreBound = 12   // of the logits of queries
	rpbScale   = 8    // what distances are multiplied by in the bias of boxes
)

// startDecoder makes the decoder's first state: the token that tells whether anything is there, then the queries, and
// the boxes where these begin to look.
//
//	p     presence_token, query_embed, reference_points
//	cells [B, g*g, D], for their number
//	out   [B, 1+Q, D], and [B, Q, 4]: centre and size in 0..1
func (c Config) startDecoder(p nn.Params, cells *Node) []*Node {
	state := Concatenate([]*Node{p.As(cells, "presence_token.weight"), p.As(cells, "query_embed.weight")}, 0)
	boxes := Sigmoid(p.As(cells, "reference_points.weight"))
	repeat := func(x *Node) *Node {
		dims := x.Shape().Dimensions
		return BroadcastToDims(ExpandAxes(x, 0), cells.Shape().Dimensions[0], dims[0], dims[1])
	}
	return []*Node{repeat(state), repeat(boxes)}
}

// decoderLayer is one post-norm layer of the decoder ("DETR", Carion et al., 2020, with boxes that each layer refines).
//
//	p      layer: self_attn, norm2, ca_text, catext_norm, cross_attn, norm1, linear1, linear2, norm3; what all layers
//	       share: ref_point_head, boxRPB_embed_x, boxRPB_embed_y, bbox_embed, norm
//	in     state [B, 1+Q, D]; boxes [B, Q, 4]; cells of the picture [B, g*g, D]; prompt [B, P, D]; valid [B, P]
//	out    state, boxes
func (c Config) decoderLayer(p nn.Params, in []*Node) []*Node {
	state, boxes, memory, prompt, valid := in[0], in[1], in[2], in[3], in[4]
	layer := p.In("layer")
	// The sinusoids are those of the centre's y, its x, the width and the height.
	order := Concatenate([]*Node{column(boxes, 1), column(boxes, 0), column(boxes, 2), column(boxes, 3)}, 2)
	place := mlp(p.In("ref_point_head"), 2, sinusoids(order, c.ModelDim/2)) // [B, Q, D]
	place = GrowLeft(place, 1, 1, 0)                                        // [B, 1+Q, D]
	norm := func(name string, x *Node) *Node { return nn.LayerNorm(layer.In("%s", name), x, headEpsilon) }
	attend := func(name string, k, v, bias *Node) *Node {
		return Add(state, packedAttention(layer.In("%s", name), c.Heads, Add(state, place), k, v, bias))
	}
	state = norm("norm2", attend("self_attn", Add(state, place), state, nil))
	state = norm("catext_norm", attend("ca_text", prompt, prompt, keyBias(valid)))
	bias := GrowLeft(c.boxBias(p, boxes), 2, 1, 0) // none for the first token
	at := Add(memory, c.cellPositions(memory.Graph(), c.grid()))
	state = norm("norm1", attend("cross_attn", at, memory, bias))
	state = norm("norm3", Add(state, nn.FeedForward(layer, "linear1", "linear2", relu, state)))
	step := mlp(p.In("bbox_embed"), 3, c.queries(p, state))
	return []*Node{state, Sigmoid(Add(logit(boxes), step))}
}

// queries returns the queries of a state, normalised.
//
//	p     norm
//	state [B, 1+Q, D]
//	out   [B, Q, D]
func (c Config) queries(p nn.Params, state *Node) *Node {
	return nn.LayerNorm(p.In("norm"), Slice(state, AxisRange(), AxisRange(1)), headEpsilon)
}

// boxBias draws the attention of each query towards its box: a learned function of how far a cell's row and column are
// from the box's edges, on a logarithmic scale.
//
//	p     boxRPB_embed_x, boxRPB_embed_y
//	boxes [B, Q, 4]
//	out   [B, H, Q, g*g]
func (c Config) boxBias(p nn.Params, boxes *Node) *Node {
	grid := c.grid()
	cells := make([]float32, grid)
	for i := range cells {
		cells[i] = float32(i) / float32(grid)
	}
	axis := func(name string, centre, size int) *Node {
		middle, half := column(boxes, centre), MulScalar(column(boxes, size), 0.5)
		edges := ExpandAxes(Concatenate([]*Node{Sub(middle, half), Add(middle, half)}, 2), 2) // [B, Q, 1, 2]
		distance := MulScalar(Sub(Reshape(Const(boxes.Graph(), cells), 1, 1, grid, 1), edges), rpbScale)
		distance = Mul(Sign(distance), MulScalar(Log1P(Abs(distance)), 1/math.Log(rpbScale)))
		return TransposeAllAxes(mlp(p.In("%s", name), 2, distance), 0, 3, 1, 2) // [B, H, Q, g]
	}
	rows, cols := axis("boxRPB_embed_y", 1, 3), axis("boxRPB_embed_x", 0, 2)
	dims := rows.Shape().Dimensions
	return Reshape(Add(ExpandAxes(rows, 4), ExpandAxes(cols, 3)), dims[0], dims[1], dims[2], grid*grid)
}

// column returns column i of the last axis, which stays.
func column(x *Node, i int) *Node { return SliceAxis(x, -1, AxisElem(i)) }

// logit is the inverse of Sigmoid, kept finite.
func logit(x *Node) *Node {
	x = ClipScalar(x, 0, 1)
	return Log(Div(MaxScalar(x, boxEpsilon), MaxScalar(OneMinus(x), boxEpsilon)))
}

// score tells how well each query fits the prompt, and whether anything in the picture does.
//
//	p   decoder: norm, presence_token_out_norm, presence_token_head; scoring: prompt_mlp, prompt_proj, hs_proj
//	in  state [B, 1+Q, D]; prompt [B, P, D]; valid [B, P]
//	out logits [B, Q], logits [B, 1], queries [B, Q, D]
func (c Config) score(p nn.Params, in []*Node) []*Node {
	state, prompt, valid := in[0], in[1], in[2]
	decoder, scoring := p.In("decoder"), p.In("scoring")
	queries := c.queries(decoder, state)
	present := nn.LayerNorm(decoder.In("presence_token_out_norm"), token(state, 0, 1), headEpsilon)
	presence := Squeeze(mlp(decoder.In("presence_token_head"), 3, present), 2) // [B, 1]

	words := Add(prompt, mlp(scoring.In("prompt_mlp"), 2, prompt))
	words = nn.LayerNorm(scoring.In("prompt_mlp.out_norm"), words, headEpsilon)
	counts := ExpandAxes(ConvertDType(valid, headType), -1) // [B, P, 1]
	mean := Div(ReduceSum(Mul(words, counts), 1), MaxScalar(ReduceSum(counts, 1), 1))
	mean = nn.Linear(scoring.In("prompt_proj"), mean) // [B, D]
	fits := Dot(nn.Linear(scoring.In("hs_proj"), queries), mean).General([]int{2}, []int{0}, []int{1}, []int{0})
	fits = MulScalar(fits, 1/math.Sqrt(float64(c.ModelDim)))
	return []*Node{ClipScalar(fits, -scoreBound, scoreBound), presence, queries}
}
