// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sparse

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gomlx3d/image3d/internal/nn"
)

// Bins is a Windows inside a graph.
type Bins struct {
	row     *Node    // int32 [places]
	place   *Node    // int32 [N]
	windows [2]*Node // int32 [bins, L], short and long
}

// SelfAttention lets every voxel attend to all voxels of its batch item. With B items it computes B times as much as
// for one of the same rows; the pipeline has one.
//
//	x   [N, C]
//	p   to_qkv, to_out, q_rms_norm.gamma and k_rms_norm.gamma (optional)
//	out [N, C]
func SelfAttention(p nn.Params, x *Node, rows Rows, heads int) *Node {
	n := x.Shape().Dimensions[0]
	q, k, v := project(p, ExpandAxes(x, 0), heads)
	q, k, v = nn.HeadsFirst(q), nn.HeadsFirst(k), nn.HeadsFirst(v) // [1, H, N, K]
	out := rows.eachItem(n, func(item int) *Node {
		return attendTo(rows.Item(n, item), q, k, v)
	})
	return nn.Linear(p.In("to_out"), out)
}

// attendTo is nn.Attend with a key mask, as one more channel instead of a bias: where the mask is false the keys have 1
// in it and the queries bring -1e9. Unlike a bias that costs neither time nor memory.
//
//	mask    [S] bool
//	q, k, v [1, H, T or S, K]
//	out     [1, T, H*K]
func attendTo(mask, q, k, v *Node) *Node {
	dims := q.Shape().Dimensions
	heads, width := dims[1], float64(dims[3])
	out := ConvertDType(LogicalNot(mask), k.DType())
	out = BroadcastToDims(Reshape(out, 1, 1, -1, 1), 1, heads, k.Shape().Dimensions[2], 1)
	weight := BroadcastToDims(Scalar(q.Graph(), q.DType(), -1e9), 1, heads, dims[2], 1)
	q = MulScalar(q, math.Sqrt((width+1)/width)) // nn.Attend divides by the root of the width it sees
	return nn.Attend(Concatenate([]*Node{q, weight}, 3), Concatenate([]*Node{k, out}, 3), v, nil)
}

// CrossAttention lets every voxel attend to the tokens of its batch item, of which CrossContext made k and v.
//
//	x    [N, C]
//	k, v [B, H, S, K]
//	p    to_q, to_out
//	out  [N, C]
func CrossAttention(p nn.Params, x *Node, rows Rows, k, v *Node) *Node {
	n, heads := x.Shape().Dimensions[0], k.Shape().Dimensions[1]
	q := nn.Heads(ExpandAxes(nn.Linear(p.In("to_q"), x), 0), heads) // [1, H, N, K]
	out := rows.eachItem(n, func(item int) *Node {
		return nn.Attend(q, Slice(k, AxisElem(item)), Slice(v, AxisElem(item)), nil)
	})
	return nn.Linear(p.In("to_out"), out)
}

// CrossContext projects tokens to the keys and values of a CrossAttention.
//
//	tokens [B, S, ctx]
//	p      to_kv
//	k, v   [B, H, S, K]
func CrossContext(p nn.Params, tokens *Node, heads int) (k, v *Node) {
	kv := nn.SplitHeads(nn.Linear(p.In("to_kv"), tokens), 2, heads)
	return nn.HeadsFirst(kv[0]), nn.HeadsFirst(kv[1])
}

// eachItem takes the rows [n] of each batch item from what attend makes of it, [1, n, C].
func (r Rows) eachItem(n int, attend func(item int) *Node) *Node {
	out := Squeeze(attend(0), 0) // [n, C]
	for item := 1; item < r.Batches(); item++ {
		mask := BroadcastToDims(ExpandAxes(r.Item(n, item), 1), out.Shape().Dimensions...)
		out = Where(mask, Squeeze(attend(item), 0), out)
	}
	return out
}

// project makes queries, keys and values [B, T, H, K] of x [B, T, C].
func project(p nn.Params, x *Node, heads int) (q, k, v *Node) {
	qkv := nn.SplitHeads(nn.Linear(p.In("to_qkv"), x), 3, heads)
	q, k, v = qkv[0], qkv[1], qkv[2]
	if p.Has("q_rms_norm.gamma") {
		q, k = nn.HeadRMSNorm(p.In("q_rms_norm"), q), nn.HeadRMSNorm(p.In("k_rms_norm"), k)
	}
	return q, k, v
}

// WindowAttention lets every voxel attend to the voxels of its window.
//
//	x   [N, C]
//	p   to_qkv, to_out, q_rms_norm.gamma and k_rms_norm.gamma (optional)
//	out [N, C]
func WindowAttention(p nn.Params, x *Node, bins Bins, heads int) *Node {
	packed := Gather(x, ExpandAxes(bins.row, 1)) // [places, C]
	q, k, v := project(p, ExpandAxes(packed, 0), heads)
	return nn.Linear(p.In("to_out"), bins.attend(Squeeze(q, 0), Squeeze(k, 0), Squeeze(v, 0)))
}

// attend is attention within the windows, back in the order of the rows.
//
//	q, k, v [places, H, K]
//	out     [N, H*K]
func (bins Bins) attend(q, k, v *Node) *Node {
	heads, width := q.Shape().Dimensions[1], q.Shape().Dimensions[2]
	var parts []*Node
	start := 0
	for _, windows := range bins.windows {
		dims := windows.Shape().Dimensions
		size := dims[0] * dims[1]
		cut := func(y *Node) *Node { // [bins, L, H, K]
			return Reshape(Slice(y, AxisRange(start, start+size)), dims[0], dims[1], heads, width)
		}
		parts = append(parts, Reshape(attendWindows(cut(q), cut(k), cut(v), windows), size, heads*width))
		start += size
	}
	return Gather(Concatenate(parts, 0), ExpandAxes(bins.place, 1)) // [N, C]
}

// maxScoreBytes bounds the scores that are formed together, large enough for XLA's CPU plugin to fuse what makes and
// what takes them.
const maxScoreBytes = 64 << 20

// attendWindows is attention within the places of each bin that have the same window number.
//
//	q, k, v [bins, L, H, K]
//	windows [bins, L] int32
//	out     [bins, L, H, K]
func attendWindows(q, k, v, windows *Node) *Node {
	dims := q.Shape().Dimensions
	bytes := 4 * dims[1] * dims[1] * dims[2] // scores of a bin
	step, limit := max(1, (maxScoreBytes+bytes-1)/bytes), nn.ScoreBytes(q.Graph())
	if limit > 0 {
		step = max(1, limit/bytes)
	}
	var parts []*Node
	for start := 0; start < dims[0]; start += step {
		if n := len(parts); n > 0 && limit > 0 {
			q, parts[n-1] = nn.InTurn(q, parts[n-1])
		}
		cut := func(x *Node) *Node { return Slice(x, AxisRange(start, min(start+step, dims[0]))) }
		parts = append(parts, attendBins(cut(q), cut(k), cut(v), cut(windows)))
	}
	return Concatenate(parts, 0)
}

func attendBins(q, k, v, windows *Node) *Node {
	dims := q.Shape().Dimensions
	bins, length, width := dims[0], dims[1], dims[3]
	q = MulScalar(q, 1/math.Sqrt(float64(width)))
	scores := Dot(nn.HeadsFirst(q), nn.HeadsFirst(k)).General([]int{3}, []int{0, 1}, []int{3}, []int{0, 1}) // [bins, H, L, L]
	scores = ConvertDType(scores, dtypes.Float32)
	same := Equal(BroadcastToDims(ExpandAxes(windows, 2), bins, length, length), BroadcastToDims(ExpandAxes(windows, 1), bins, length, length))
	bias := Where(same, Scalar(q.Graph(), dtypes.Float32, 0.0), Scalar(q.Graph(), dtypes.Float32, -1e30))
	scores = Add(scores, ExpandAxes(bias, 1))
	weight := Exp(Sub(scores, ReduceAndKeep(scores, ReduceMax, -1)))
	sum := ReduceAndKeep(weight, ReduceSum, -1)
	out := Dot(ConvertDType(weight, v.DType()), nn.HeadsFirst(v)).General([]int{3}, []int{0, 1}, []int{2}, []int{0, 1}) // [bins, H, L, K]
	out = Div(out, ConvertDType(sum, out.DType()))
	return TransposeAllAxes(out, 0, 2, 1, 3)
}
