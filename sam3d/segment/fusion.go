// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gomlx3d/image3d/internal/nn"
)

// packedAttention is an attention whose projections of queries, keys and values are one tensor.
//
//	p    in_proj_weight [3*D, D], in_proj_bias [3*D], out_proj
//	q    [B, T, D]; k, v [B, S, D]
//	bias [B|1, H|1, T|1, S] float32, added to the scores, or nil
//	out  [B, T, D]
func packedAttention(p nn.Params, heads int, q, k, v, bias *Node) *Node {
	weight, offset := p.As(q, "in_proj_weight"), p.As(q, "in_proj_bias")
	width := q.Shape().Dimensions[2]
	project := func(i int, x *Node) *Node {
		rows := AxisRange(i*width, (i+1)*width)
		return nn.Heads(nn.AddLast(nn.MatMulT(x, Slice(weight, rows)), Slice(offset, rows)), heads)
	}
	return nn.Linear(p.In("out_proj"), nn.AttendBias(project(0, q), project(1, k), project(2, v), bias))
}

// keyBias makes the bias that leaves out keys.
//
//	valid [B, S] bool
//	out   [B, 1, 1, S]
func keyBias(valid *Node) *Node {
	out := ConvertDType(valid, headType)
	return ExpandAxes(MulScalar(OneMinus(out), -1e30), 1, 2)
}

// fusionLayer is one pre-norm layer in which tokens look at themselves, then at others.
//
//	p         norm1, self_attn, norm2, cross_attn_image, norm3, linear1, linear2
//	x         [B, T, D]
//	position  [1, T, D] of the tokens, for the first attention, or nil
//	bias      for the first attention, or nil
//	k, v      [B, S, D], with their bias, or nil
//	out       [B, T, D]
func (c Config) fusionLayer(p nn.Params, x, position, bias, k, v, otherBias *Node) *Node {
	h := nn.LayerNorm(p.In("norm1"), x, headEpsilon)
	at := h
	if position != nil {
		at = Add(h, position)
	}
	x = Add(x, packedAttention(p.In("self_attn"), c.Heads, at, at, h, bias))
	h = nn.LayerNorm(p.In("norm2"), x, headEpsilon)
	x = Add(x, packedAttention(p.In("cross_attn_image"), c.Heads, h, k, v, otherBias))
	h = nn.LayerNorm(p.In("norm3"), x, headEpsilon)
	return Add(x, nn.FeedForward(p, "linear1", "linear2", relu, h))
}

// cellPositions are the sinusoids of a map's cells: of the row, then of the column (PositionEmbeddingSine of DETR,
// Carion et al., 2020).
//
//	out [1, side*side, D]
func (c Config) cellPositions(g *Graph, side int) *Node {
	half := c.ModelDim / 2
	table := make([]float32, 0, side*half)
	for i := range side {
		table = append(table, sinusoid(float64(i+1)/(float64(side)+1e-6), half)...)
	}
	axis := Const(g, table)
	rows := BroadcastToDims(Reshape(axis, side, 1, half), side, side, half)
	cols := BroadcastToDims(Reshape(axis, 1, side, half), side, side, half)
	return Reshape(Concatenate([]*Node{rows, cols}, 2), 1, side*side, c.ModelDim)
}

// sinusoid embeds a place in 0..1: sines and cosines in turn, of falling frequencies.
func sinusoid(v float64, n int) []float32 {
	out := make([]float32, n)
	for i, divisor := range sinusoidDivisors(n) {
		phase := float64(float32(v*2*math.Pi) / divisor)
		if i%2 == 0 {
			out[i] = float32(math.Sin(phase))
		} else {
			out[i] = float32(math.Cos(phase))
		}
	}
	return out
}

// sinusoidDivisors are what places are divided by in each of n sinusoids.
func sinusoidDivisors(n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(math.Pow(10000, float64(i/2*2)/float64(n)))
	}
	return out
}

// sinusoids embeds places in the graph as sinusoid does.
//
//	x   [..., A]
//	out [..., A*n]
func sinusoids(x *Node, n int) *Node {
	dims := x.Shape().Dimensions
	rank := len(dims)
	divisors := sinusoidDivisors(n)
	half := make([]float32, 0, n/2)
	for i := 0; i < n; i += 2 {
		half = append(half, divisors[i])
	}
	phase := Div(MulScalar(ExpandAxes(x, -1), 2*math.Pi), ExpandLeftToRank(Const(x.Graph(), half), rank+1)) // [..., A, n/2]
	out := Stack([]*Node{Sin(phase), Cos(phase)}, -1)                                                       // [..., A, n/2, 2]
	return Reshape(out, append(append([]int{}, dims[:rank-1]...), dims[rank-1]*n)...)
}
