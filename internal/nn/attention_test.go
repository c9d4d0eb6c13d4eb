// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package nn_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gomlx3d/image3d/internal/nn"
)

// TestAttendBias compares a bias of every shape with one whose axes are written out, and that with loops.
func TestAttendBias(t *testing.T) {
	const batch, heads, tokens, keys, width = 2, 3, 4, 5, 2
	r := rand.New(rand.NewPCG(5, 6))
	q, k, v := uniform(r, batch, heads, tokens, width), uniform(r, batch, heads, keys, width), uniform(r, batch, heads, keys, width)
	for _, dims := range [][]int{{batch, heads, tokens, keys}, {1, 1, tokens, keys}, {batch, 1, 1, keys}, {1, heads, 1, keys}} {
		bias := uniform(r, dims...)
		attend := func(_ nn.Params, in []*Node) *Node { return nn.AttendBias(in[0], in[1], in[2], in[3]) }
		got := flat(evaluate(t, nil, attend, q, k, v, bias))
		requireClose(t, attendLoops(flat(q), flat(k), flat(v), flat(bias), [4]int(dims), [5]int{batch, heads, tokens, keys, width}), got, 1e-5)
	}
}

func attendLoops(q, k, v, bias []float32, biasDims [4]int, dims [5]int) []float32 {
	batch, heads, tokens, keys, width := dims[0], dims[1], dims[2], dims[3], dims[4]
	at := func(b, h, i, j int) float64 {
		index := 0
		for axis, n := range [4]int{b, h, i, j} {
			index = index*biasDims[axis] + min(n, biasDims[axis]-1)
		}
		return float64(bias[index])
	}
	out := make([]float32, batch*tokens*heads*width)
	for b := range batch {
		for h := range heads {
			for i := range tokens {
				sum, mean := 0.0, make([]float64, width)
				for j := range keys {
					dot := 0.0
					for c := range width {
						dot += float64(q[((b*heads+h)*tokens+i)*width+c]) * float64(k[((b*heads+h)*keys+j)*width+c])
					}
					weight := math.Exp(dot/math.Sqrt(float64(width)) + at(b, h, i, j))
					sum += weight
					for c := range width {
						mean[c] += weight * float64(v[((b*heads+h)*keys+j)*width+c])
					}
				}
				for c := range width {
					out[((b*tokens+i)*heads+h)*width+c] = float32(mean[c] / sum)
				}
			}
		}
	}
	return out
}

// TestAttendBiasInChunks: chunks of queries take their own rows of the bias.
func TestAttendBiasInChunks(t *testing.T) {
	const tokens, keys, width = 4200, 4096, 2
	r := rand.New(rand.NewPCG(7, 8))
	q, k, v := uniform(r, 1, 1, tokens, width), uniform(r, 1, 1, keys, width), uniform(r, 1, 1, keys, width)
	rows := make([]float32, tokens)
	for i := range rows {
		rows[i] = 20 * r.Float32()
	}
	// Each query may look at the first key more than at the others, by a number of its own.
	build := func(in []*Node, first, last int) *Node {
		span := AxisRange(first, last)
		extra := Slice(in[3], span)
		bias := GrowRight(Reshape(extra, 1, 1, last-first, 1), 3, keys-1, 0)
		return nn.AttendBias(Slice(in[0], AxisRange(), AxisRange(), span), in[1], in[2], bias)
	}
	extra := tensors.FromFlatDataAndDimensions(rows, tokens)
	whole := evaluate(t, nil, func(_ nn.Params, in []*Node) *Node { return build(in, 0, tokens) }, q, k, v, extra)
	parts := evaluate(t, nil, func(_ nn.Params, in []*Node) *Node {
		var out []*Node
		for start := 0; start < tokens; start += tokens / 2 {
			out = append(out, build(in, start, start+tokens/2))
		}
		return Concatenate(out, 1)
	}, q, k, v, extra)
	requireClose(t, flat(parts), flat(whole), 1e-5)
}

// TestAttendAtChunkBorders attends with one query less than fit a chunk, with as many, with one more and with a chunk of
// one left over: each query gives what it gives in company of few others.
func TestAttendAtChunkBorders(t *testing.T) {
	const chunk, heads, keys, part = 512, 8, 4096, 300 // of 64 MB of scores, and queries that make one
	r := rand.New(rand.NewPCG(7, 8))
	k, v := uniform(r, 1, heads, keys, 1), uniform(r, 1, heads, keys, 1)
	for _, tokens := range []int{1, chunk - 1, chunk, chunk + 1, 2*chunk + 1} {
		q := uniform(r, 1, heads, tokens, 1)
		whole := evaluate(t, nil, func(_ nn.Params, in []*Node) *Node { return nn.Attend(in[0], in[1], in[2], nil) }, q, k, v)
		few := evaluate(t, nil, func(_ nn.Params, in []*Node) *Node {
			var parts []*Node
			for start := 0; start < tokens; start += part {
				queries := Slice(in[0], AxisRange(), AxisRange(), AxisRange(start, min(start+part, tokens)))
				parts = append(parts, nn.Attend(queries, in[1], in[2], nil))
			}
			return Concatenate(parts, 1)
		}, q, k, v)
		requireClose(t, flat(few), flat(whole), 1e-6)
	}
}
