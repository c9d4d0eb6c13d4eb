// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flow

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/internal/nn"
)

// Context is what the blocks of one model need of the condition tokens: the keys and values of their cross attentions.
// They depend on nothing else, so they are projected once for a request and stay on the device.
//
// A Context may be used by concurrent calls of the model it was made by. Free it after the last.
type Context struct {
	owner  any // the model
	batch  int
	blocks [][]*tensors.Tensor // by block: what its project program returned
}

// Free releases the device memory. The Context is of no use afterwards.
func (c *Context) Free() {
	if c == nil {
		return
	}
	for _, kv := range c.blocks {
		nn.Free(kv...)
	}
	c.blocks = nil
}

// crossContext projects condition tokens to the keys and values of one cross attention.
//
//	tokens [B, S, cond]
//	p      to_kv.{weight,bias}, k_rms_norm.gamma (optional)
//	k, v   [B, H, S, K]
func crossContext(p nn.Params, tokens *Node, heads int) (k, v *Node) {
	kv := nn.SplitHeads(nn.Linear(p.In("to_kv"), tokens), 2, heads)
	k, v = kv[0], kv[1]
	if p.Has("k_rms_norm.gamma") {
		k = nn.HeadRMSNorm(p.In("k_rms_norm"), k)
	}
	return nn.HeadsFirst(k), nn.HeadsFirst(v)
}

// crossAttention attends from x to projected condition tokens.
//
//	x    [B, T, D]
//	k, v [B, H, S, K]
//	p    to_q, to_out, q_rms_norm.gamma (optional)
//	out  [B, T, D]
func crossAttention(p nn.Params, x, k, v *Node, heads int) *Node {
	q := nn.SplitHeads(nn.Linear(p.In("to_q"), x), 1, heads)[0] // [B, T, H, K]
	if p.Has("q_rms_norm.gamma") {
		q = nn.HeadRMSNorm(p.In("q_rms_norm"), q)
	}
	return nn.Linear(p.In("to_out"), nn.Attend(nn.HeadsFirst(q), k, v, nil))
}

// crossConstant is what crossAttention gives for condition tokens that are all zero, whatever x is: then every key and
// every value is the projection's bias, the weights are equal, and their mean is the value bias itself.
//
//	p   to_kv.bias, to_out
//	out [D]
func crossConstant(p nn.Params) *Node {
	bias := ConvertDType(p.Get("to_kv.bias"), dtypes.Float32)
	width := bias.Shape().Dimensions[0] / 2
	value := Slice(bias, AxisRange(width)) // [D]
	return Reshape(nn.Linear(p.In("to_out"), Reshape(value, 1, width)), -1)
}

// finiteGraph is whether all values of its input are finite.
func finiteGraph(_ nn.Params, in []*Node) []*Node { return []*Node{LogicalAll(IsFinite(in[0]))} }
