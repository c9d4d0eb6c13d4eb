// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package condition

import (
	"context"
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/nn"
)

func TestNearest(t *testing.T) {
	require.Equal(t, []int{0, 1, 2}, nearest(3, 3))
	require.Equal(t, []int{0, 2}, nearest(4, 2))
	require.Equal(t, []int{0, 0, 1, 1}, nearest(2, 4))
	// Integer arithmetic, d*in/out, gives other sources at seven places.
	differ := 0
	for d, s := range nearest(70, 518) {
		if s != d*70/518 {
			differ++
		}
	}
	require.Equal(t, 7, differ)
}

func TestRowsPerCall(t *testing.T) {
	for grid, want := range map[int]int{1: 1, 4: 4, 7: 7, 11: 11, 12: 6, 31: 1, 32: 4, 128: 1, 512: 1} {
		require.Equal(t, want, rowsPerCall(grid), "grid %d", grid)
	}
}

// TestSplit cuts a map of distinct points, some of them missing, into windows.
func TestSplit(t *testing.T) {
	e := PointEmbedder{InputSize: 4, PatchSize: 2, Remap: RemapSinh}
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	points := make([]float32, 3*16)
	for i := range 16 {
		points[i], points[16+i], points[32+i] = float32(i), float32(-i), 1
	}
	points[5], points[16+6], points[32+7] = nan, inf, nan
	xyz, valid := e.split(points, 4, 4)
	order := []int{0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15}
	for i, at := range order {
		want := [3]float64{}
		if valid[i] {
			want = [3]float64{math.Asinh(float64(at)), -math.Asinh(float64(at)), math.Asinh(1)}
		}
		require.Equal(t, at < 5 || at > 7, valid[i])
		require.InDeltaSlice(t, want[:], []float64{float64(xyz[3*i]), float64(xyz[3*i+1]), float64(xyz[3*i+2])}, 1e-6)
	}
}

// fullBlock is the transformer block of a window without short cuts.
func (e PointEmbedder) fullBlock(p nn.Params, x *Node) *Node {
	h := nn.LayerNorm(p.In("norm1"), x, pointEpsilon)
	qkv := nn.SplitHeads(nn.Linear(p.In("attn.qkv"), h), 3, e.NumHeads)
	h = nn.Attend(nn.HeadsFirst(qkv[0]), nn.HeadsFirst(qkv[1]), nn.HeadsFirst(qkv[2]), nil)
	x = Add(x, nn.Linear(p.In("attn.proj"), h))
	h = nn.LayerNorm(p.In("norm2"), x, pointEpsilon)
	return Add(x, nn.FeedForward(p.In("mlp"), "fc1", "fc2", nn.GELU, h))
}

// TestAttendClass compares the class token's short cut with the whole block.
func TestAttendClass(t *testing.T) {
	e := PointEmbedder{Width: 24, InputSize: 6, PatchSize: 3, NumHeads: 4, Remap: RemapLinear}
	backend := fixture.Backend(t)
	w, err := randomSet(pointSpec(e), dtypes.Float32, 3).Upload(backend)
	require.NoError(t, err)
	t.Cleanup(nn.Weights(w).Free)
	xyz, valid := e.split(smallViews(6).PointMap, 6, 6)
	program := nn.NewProgram(backend, "windows", func(p nn.Params, in []*Node) []*Node {
		short := e.windowGraph(p, in[0], in[1])
		x := nn.Linear(p.In("point_proj"), in[0])
		dims := x.Shape().Dimensions
		missing := BroadcastToDims(Reshape(p.As(x, "invalid_xyz_token"), 1, 1, e.Width), dims...)
		x = Where(BroadcastToDims(ExpandAxes(in[1], -1), dims...), x, missing)
		x = Concatenate([]*Node{BroadcastToDims(p.As(x, "cls_token"), dims[0], 1, e.Width), x}, 1)
		x = e.fullBlock(p.In("blocks.0"), Add(x, p.As(x, "pos_embed_window")))
		return []*Node{short, Squeeze(Slice(x, AxisRange(), AxisElem(0)), 1)}
	})
	t.Cleanup(program.Close)
	out, err := program.Call(w, local(xyz, 4, 9, 3), local(valid, 4, 9))
	require.NoError(t, err)
	require.InDeltaSlice(t, take(out[1]), take(out[0]), 1e-5)
}

// BenchmarkPoints embeds a point map at the released size.
func BenchmarkPoints(b *testing.B) {
	e := *ReleasedStructure().Embedders[2].Points
	backend := fixture.Backend(b)
	w, err := randomSet(pointSpec(e), dtypes.BFloat16, 3).Upload(backend)
	require.NoError(b, err)
	net := newPointNet(backend, e, w)
	b.Cleanup(net.close)
	points := smallViews(518).PointMap
	for b.Loop() {
		out, err := net.embed(context.Background(), points, 518, 518)
		require.NoError(b, err)
		nn.Free(out)
	}
}
