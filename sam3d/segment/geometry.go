// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gomlx3d/image3d/internal/nn"
)

// headType is what the grounding head computes in.
const headType = dtypes.Float32

// geometryTokens makes the tokens of exemplars, as they are before the layers: what lies at a point or in a box, where,
// and whether it is wanted. The last token stands for them all.
//
//	p   points_*, boxes_*, label_embed, cls_embed, img_pre_norm, final_proj, norm
//	in  the map [B, g, g, D]; then, of N points and M boxes, the coordinates [B, N, 2], their sinusoids [B, N, D], the
//	    weights of rows and of columns [B, N, g] and the labels [B, N] int32; [B, M, 4], [B, M, D+2], [B, M, R, g] twice,
//	    [B, M]
//	out [B, N+M+1, D]
func (c Config) geometryTokens(p nn.Params, in []*Node) *Node {
	features := nn.LayerNorm(p.In("img_pre_norm"), in[0], headEpsilon)
	labels := p.As(features, "label_embed.weight")
	points, boxes := in[1:6], in[6:11]
	batch, width := features.Shape().Dimensions[0], c.ModelDim
	sum := func(parts ...*Node) *Node {
		out := parts[0]
		for _, part := range parts[1:] {
			out = Add(out, part)
		}
		return out
	}
	var tokens []*Node
	if c.examplePoints() {
		sampled := Dot(points[2], features).General([]int{2}, []int{0}, []int{1}, []int{0}) // [B, N, g, D]
		sampled = ReduceSum(Mul(sampled, ExpandAxes(points[3], -1)), 2)                     // [B, N, D]
		tokens = append(tokens, sum(nn.Linear(p.In("points_direct_project"), points[0]),
			nn.Linear(p.In("points_pool_project"), sampled), nn.Linear(p.In("points_pos_enc_project"), points[1]),
			Gather(labels, ExpandAxes(points[4], -1))))
	} else {
		tokens = append(tokens, Zeros(features.Graph(), points[1].Shape()))
	}
	pooled := Dot(boxes[2], features).General([]int{3}, []int{0}, []int{1}, []int{0})    // [B, M, R, g, D]
	pooled = Dot(boxes[3], pooled).General([]int{3}, []int{0, 1}, []int{3}, []int{0, 1}) // [B, M, R of columns, R of rows, D]
	pooled = TransposeAllAxes(pooled, 0, 1, 4, 3, 2)                                     // [B, M, D, R, R]
	area := width * c.RoISize * c.RoISize
	pooled = Reshape(pooled, batch, boxes[0].Shape().Dimensions[1], area)
	pool := p.In("boxes_pool_project") // its kernel covers the pooled grid, so that it is a projection
	pooled = nn.AddLast(nn.MatMulT(pooled, Reshape(pool.As(pooled, "weight"), width, area)), pool.As(pooled, "bias"))
	tokens = append(tokens, sum(nn.Linear(p.In("boxes_direct_project"), boxes[0]), pooled,
		nn.Linear(p.In("boxes_pos_enc_project"), boxes[1]), Gather(labels, ExpandAxes(boxes[4], -1))))
	all := p.As(features, "cls_embed.weight")
	tokens = append(tokens, BroadcastToDims(ExpandAxes(all, 0), batch, 1, width))
	return nn.LayerNorm(p.In("norm"), nn.Linear(p.In("final_proj"), Concatenate(tokens, 1)), headEpsilon)
}

// geometryLayer lets the tokens of exemplars look at each other and at the picture.
//
//	p   of fusionLayer
//	in  tokens [B, T, D]; which of them count [B, T]; the picture's cells [B, g*g, D]
//	out [B, T, D]
func (c Config) geometryLayer(p nn.Params, in []*Node) *Node {
	cells := in[2]
	at := Add(cells, c.cellPositions(cells.Graph(), c.grid()))
	return c.fusionLayer(p, in[0], nil, keyBias(in[1]), at, cells, nil)
}

// flat lays a map out as tokens.
//
//	x   [B, g, g, D]
//	out [B, g*g, D]
func (c Config) flat(x *Node) *Node {
	return Reshape(x, x.Shape().Dimensions[0], c.grid()*c.grid(), c.ModelDim)
}

// joinPrompt puts the tokens of a text and those of exemplars one after the other.
//
//	p   encode_norm
//	in  [B, L, D], [B, T, D]
//	out [B, L+T, D]
func (c Config) joinPrompt(p nn.Params, in []*Node) *Node {
	return Concatenate([]*Node{in[0], nn.LayerNorm(p.In("encode_norm"), in[1], headEpsilon)}, 1)
}
