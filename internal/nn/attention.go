// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package nn

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// Heads splits the last axis into heads and puts them first.
//
//	x   [B, T, H*K]
//	out [B, H, T, K]
func Heads(x *Node, numHeads int) *Node {
	dims := x.Shape().Dimensions
	x = Reshape(x, dims[0], dims[1], numHeads, dims[2]/numHeads)
	return TransposeAllAxes(x, 0, 2, 1, 3)
}

// SplitHeads splits a packed projection [B, T, n*H*K] (queries, keys and values one after the other) into n parts of
// [B, T, H, K].
func SplitHeads(x *Node, n, numHeads int) []*Node {
	dims := x.Shape().Dimensions
	x = Reshape(x, dims[0], dims[1], n, numHeads, dims[2]/(n*numHeads))
	parts := make([]*Node, n)
	for i := range parts {
		parts[i] = Squeeze(Slice(x, AxisRange(), AxisRange(), AxisElem(i)), 2)
	}
	return parts
}

// HeadsFirst turns [B, T, H, K] into [B, H, T, K].
func HeadsFirst(x *Node) *Node { return TransposeAllAxes(x, 0, 2, 1, 3) }

const (
	// XLA's CPU plugin fuses scores, softmax and the value product, never storing the scores, from this size on; below
	// it keeps the scores of every chunk.
	fusedScoreBytes = 64 << 20
	minChunk        = 512
)

// Attend is softmax(q kᵀ / sqrt(K)) v. The scores are formed for a chunk of queries at a time, and the division by the
// softmax's sum follows the product with v, where it is cheapest. Softmax runs in float32. A backend with a kernel for
// the whole does that instead, see HalfAttention.
//
//	q       [B, H, T, K]
//	k, v    [B, H, S, K]
//	keyMask [B, S] bool, false for keys to leave out, or nil. A row without any key gives the mean of v.
//	out     [B, T, H*K]
func Attend(q, k, v, keyMask *Node) *Node {
	var bias *Node
	if keyMask != nil {
		bias = Where(keyMask, Scalar(q.Graph(), dtypes.Float32, 0.0), Scalar(q.Graph(), dtypes.Float32, -1e30)) // [B, S]
		bias = ExpandAxes(bias, 1, 2)
	}
	return AttendBias(q, k, v, bias)
}

// AttendBias is Attend with a bias that is added to the scores before the softmax.
//
//	bias [B|1, H|1, T|1, S] float32, or nil
func AttendBias(q, k, v, bias *Node) *Node {
	plain := func() *Node { return attendChunks(q, k, v, bias) }
	if dtype := fusedDType(q, k, v, bias); dtype != dtypes.InvalidDType {
		return attendFused(dtype, q, k, v, plain)
	}
	return plain()
}

// attendChunks is AttendBias in the operations that every backend has.
func attendChunks(q, k, v, bias *Node) *Node {
	dims := q.Shape().Dimensions
	batch, heads, tokens, width := dims[0], dims[1], dims[2], dims[3]
	keys := k.Shape().Dimensions[2]
	q = MulScalar(q, 1/math.Sqrt(float64(width)))
	q = Reshape(q, batch*heads, tokens, width)
	k = Reshape(k, batch*heads, keys, width)
	v = Reshape(v, batch*heads, keys, v.Shape().Dimensions[3])
	rows := 1 // of the bias
	if bias != nil {
		rows = bias.Shape().Dimensions[2]
		bias = Reshape(BroadcastToDims(bias, batch, heads, rows, keys), batch*heads, rows, keys)
	}
	limit := ScoreBytes(q.Graph())
	chunk := queryChunk(batch*heads, tokens, keys, limit)
	outs := make([]*Node, 0, (tokens+chunk-1)/chunk)
	for start := 0; start < tokens; start += chunk {
		part, partBias := q, bias
		if chunk < tokens {
			span := AxisRange(start, min(start+chunk, tokens))
			part = Slice(q, AxisRange(), span)
			if rows > 1 {
				partBias = Slice(bias, AxisRange(), span)
			}
		}
		if n := len(outs); n > 0 && limit > 0 {
			part, outs[n-1] = InTurn(part, outs[n-1])
		}
		o := attendChunk(part, k, v, partBias)
		o = Reshape(o, batch, heads, o.Shape().Dimensions[1], o.Shape().Dimensions[2])
		outs = append(outs, TransposeAllAxes(o, 0, 2, 1, 3)) // [B, t, H, K]
	}
	out := outs[0]
	if len(outs) > 1 {
		out = Concatenate(outs, 1)
	}
	return Reshape(out, batch, tokens, heads*out.Shape().Dimensions[3])
}

// attendChunk attends with every query of q [N, t, K] to all keys.
func attendChunk(q, k, v, bias *Node) *Node {
	scores := ConvertDType(Dot(q, k).General([]int{2}, []int{0}, []int{2}, []int{0}), dtypes.Float32) // [N, t, S]
	if bias != nil {
		scores = Add(scores, bias)
	}
	weight := Exp(Sub(scores, ReduceAndKeep(scores, ReduceMax, -1)))
	sum := ReduceAndKeep(weight, ReduceSum, -1)
	o := Dot(ConvertDType(weight, v.DType()), v).General([]int{2}, []int{0}, []int{1}, []int{0}) // [N, t, K]
	return Div(o, ConvertDType(sum, o.DType()))
}

// InTurn has what is computed from next wait until last is there, so that what both need does not live at once.
func InTurn(next, last *Node) (*Node, *Node) {
	held := OptimizationBarriers(next, last)
	return held[0], held[1]
}

// queryChunk is the number of queries whose scores are formed together: what is fastest, or as many as fit the limit if
// that is not 0.
func queryChunk(heads, tokens, keys, limit int) int {
	row := heads * keys * 4
	if limit > 0 {
		return min(tokens, max(1, limit/row))
	}
	if row*tokens <= fusedScoreBytes {
		return tokens
	}
	return min(tokens, max(minChunk, (fusedScoreBytes+row-1)/row))
}
