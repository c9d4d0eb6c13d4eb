// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gomlx3d/image3d/internal/nn"
)

// embedText looks up tokens and adds their positions.
//
//	p   token_embedding, positional_embedding
//	ids [B, L] int32, L at most ContextLength
//	out [B, L, TextDim]
func embedText(p nn.Params, ids *Node) *Node {
	rows := Gather(p.Get("token_embedding.weight"), ExpandAxes(ids, -1)) // before widening: it is the largest tensor
	x := ConvertDType(rows, dtypes.Float32)
	position := p.As(x, "positional_embedding")
	return Add(x, ExpandAxes(Slice(position, AxisRange(0, ids.Shape().Dimensions[1])), 0))
}

// textBlock is one pre-norm block of the text encoder. A token attends to itself and to those before it.
//
//	p   ln_1, attn, ln_2, mlp.c_fc, mlp.c_proj
//	x   [B, L, TextDim]
//	out [B, L, TextDim]
func textBlock(p nn.Params, cfg Config, x *Node) *Node {
	attn, length := p.In("attn"), x.Shape().Dimensions[1]
	h := nn.LayerNorm(p.In("ln_1"), x, headEpsilon)
	h = nn.AddLast(nn.MatMulT(h, attn.As(h, "in_proj_weight")), attn.As(h, "in_proj_bias"))
	parts := nn.SplitHeads(h, 3, cfg.TextHeads) // 3 x [B, L, H, K]
	later := make([]float32, length*length)
	for row := range length {
		for col := row + 1; col < length; col++ {
			later[row*length+col] = -1e30
		}
	}
	bias := Reshape(Const(x.Graph(), later), 1, 1, length, length)
	h = nn.AttendBias(nn.HeadsFirst(parts[0]), nn.HeadsFirst(parts[1]), nn.HeadsFirst(parts[2]), bias)
	x = Add(x, nn.Linear(attn.In("out_proj"), h))
	h = nn.LayerNorm(p.In("ln_2"), x, headEpsilon)
	return Add(x, nn.FeedForward(p.In("mlp"), "c_fc", "c_proj", nn.GELU, h))
}

// finishText brings the text encoder's tokens to the width of the model.
//
//	p   ln_final, resizer
//	x   [B, L, TextDim]
//	out [B, L, D]
func finishText(p nn.Params, x *Node) *Node {
	return nn.Linear(p.In("resizer"), nn.LayerNorm(p.In("ln_final"), x, headEpsilon))
}
