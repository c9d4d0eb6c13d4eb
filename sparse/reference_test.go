// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sparse

import (
	"maps"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/nn"
)

// kind is the configuration of a case.
type kind struct {
	Kind      string  `json:"kind"`
	Kernel    int     `json:"kernel_size"`
	Channels  int     `json:"channels"`
	Heads     int     `json:"num_heads"`
	Groups    int     `json:"num_groups"`
	Factor    int     `json:"factor"`
	Epsilon   float64 `json:"eps"`
	Affine    bool    `json:"affine"`
	Mode      string  `json:"attn_mode"`
	Window    int     `json:"window_size"`
	Shift     int     `json:"shift_window"`
	HeadNorms bool    `json:"qk_rms_norm"`
}

func TestReference(t *testing.T) {
	fixture.Run(t, "sparse", func(t *testing.T, c *fixture.Case) {
		var k kind
		c.Decode(t, &k)
		if c.Required != nil && !*c.Required {
			_, err := FromFlat(ints(t, c, "in/coords"), MaxGrid)
			require.ErrorIs(t, err, ErrDuplicate)
			return
		}
		run := map[string]func(*testing.T, *fixture.Case, kind) map[string]any{
			"subm_conv": refConv, "downsample": refDownsample, "down_up": refDownUp, "subdivide": refSubdivide,
			"group_norm": refGroupNorm, "layer_norm": refLayerNorm, "ffn": refFeedForward, "rms_norm": refHeadNorm,
			"modulate": refModulate, "ape": refPositions, "self_attn": refSelfAttention, "cross_attn": refCrossAttention,
			"swin_block": refSwinBlock, "modulated_cross_block": refModulatedBlock,
		}[k.Kind]
		require.NotNil(t, run, "unknown kind %q", k.Kind)
		got := run(t, c, k)
		require.ElementsMatch(t, c.Outputs(), slices.Collect(maps.Keys(got)))
		for name, value := range got {
			c.Check(t, name, value)
		}
	})
}

func ints(t *testing.T, c *fixture.Case, name string) []int32 {
	var out []int32
	for _, v := range c.Ints(t, name) {
		out = append(out, int32(v))
	}
	return out
}

// coords reads the voxels of a case on a grid that holds them.
func coords(t *testing.T, c *fixture.Case) *Coords {
	out, err := FromFlat(ints(t, c, "in/coords"), MaxGrid)
	require.NoError(t, err)
	return out
}

func uploaded(t testing.TB, a interface {
	Upload(compute.Backend) (Arrays, error)
}) Arrays {
	t.Helper()
	arrays, err := a.Upload(fixture.Backend(t))
	require.NoError(t, err)
	t.Cleanup(arrays.Free)
	return arrays
}

// features pads and uploads in/feats or another array [N, ...].
func features(t *testing.T, c *fixture.Case, l Layout, name string) *tensors.Tensor {
	flat := c.Float32s(t, name)
	x, err := l.UploadFeatures(fixture.Backend(t), flat, len(flat)/l.Count)
	require.NoError(t, err)
	t.Cleanup(func() { nn.Free(x) })
	return x
}

// call runs a graph function of one output once.
func call(t testing.TB, w nn.Weights, build func(p nn.Params, in *Inputs) *Node, parts ...any) *tensors.Tensor {
	t.Helper()
	program := nn.NewProgram(fixture.Backend(t), "test", func(p nn.Params, nodes []*Node) []*Node {
		in := Read(nodes)
		out := build(p, in)
		require.Empty(t, in.nodes, "inputs left over")
		return []*Node{out}
	})
	defer program.Close()
	out, err := program.Call1(w, Args(parts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { nn.Free(out) })
	return out
}

func stripped(t testing.TB, l Layout, x *tensors.Tensor) []float32 {
	t.Helper()
	flat, err := l.Strip(x)
	require.NoError(t, err)
	return flat
}

func flatCoords(c *Coords) []int32 {
	var flat []int32
	for _, v := range c.Voxels {
		flat = append(flat, v[:]...)
	}
	return flat
}

func params(t *testing.T, c *fixture.Case) nn.Weights {
	return c.Params(t, fixture.Backend(t), "param/")
}

func refConv(t *testing.T, c *fixture.Case, k kind) map[string]any {
	v := coords(t, c)
	x := features(t, c, v.Layout, "in/feats")
	if k.Kernel == 1 {
		y := call(t, params(t, c), func(p nn.Params, in *Inputs) *Node { return Conv1(p.In("conv"), in.Node()) }, x)
		return map[string]any{"out/feats": stripped(t, v.Layout, y)}
	}
	require.Equal(t, 3, k.Kernel)
	y := call(t, params(t, c), func(p nn.Params, in *Inputs) *Node {
		return Conv(p.In("conv"), in.Node(), in.Rows(), in.Neighbors())
	}, x, uploaded(t, v), uploaded(t, neighbors(t, v)))
	return map[string]any{"out/feats": stripped(t, v.Layout, y)}
}

func neighbors(t testing.TB, c *Coords) *Neighbors {
	t.Helper()
	n, err := c.Neighbors()
	require.NoError(t, err)
	return n
}

func refDownsample(t *testing.T, c *fixture.Case, k kind) map[string]any {
	require.Equal(t, 2, k.Factor)
	// Duplicates are well defined here, and one case has some; New would reject them.
	flat := ints(t, c, "in/coords")
	var voxels []Voxel
	for row := range slices.Chunk(flat, 4) {
		voxels = append(voxels, Voxel(row))
	}
	v, err := inOrder(voxels, MaxGrid)
	require.NoError(t, err)
	pool := v.Downsample()
	y := call(t, nil, func(p nn.Params, in *Inputs) *Node {
		return Downsample(in.Node(), in.Rows(), in.Pooling())
	}, features(t, c, v.Layout, "in/feats"), uploaded(t, v), uploaded(t, pool))
	return map[string]any{
		"out/feats": stripped(t, pool.Parents.Layout, y), "out/coords": flatCoords(pool.Parents),
		"out/parent_index": pool.Parent[:v.Layout.Count],
	}
}

func refDownUp(t *testing.T, c *fixture.Case, k kind) map[string]any {
	require.Equal(t, 2, k.Factor)
	v := coords(t, c)
	y := call(t, nil, func(p nn.Params, in *Inputs) *Node {
		x, rows, pools := in.Node(), in.Rows(), in.Pooling()
		coarse := nn.AddLast(nn.MulLast(Downsample(x, rows, pools), in.Node()), in.Node())
		return Upsample(coarse, pools)
	}, features(t, c, v.Layout, "in/feats"), uploaded(t, v), uploaded(t, v.Downsample()), c.Tensor(t, "in/mul"), c.Tensor(t, "in/add"))
	return map[string]any{"out/feats": stripped(t, v.Layout, y), "out/coords": flatCoords(v)}
}

func refSubdivide(t *testing.T, c *fixture.Case, k kind) map[string]any {
	v := coords(t, c)
	v.Grid = MaxGrid / 2
	fine, err := v.Subdivide()
	require.NoError(t, err)
	y := call(t, nil, func(p nn.Params, in *Inputs) *Node { return Subdivide(in.Node()) }, features(t, c, v.Layout, "in/feats"))
	return map[string]any{"out/feats": stripped(t, fine.Layout, y), "out/coords": flatCoords(fine)}
}

func refGroupNorm(t *testing.T, c *fixture.Case, k kind) map[string]any {
	v := coords(t, c)
	y := call(t, params(t, c), func(p nn.Params, in *Inputs) *Node {
		return GroupNorm(p, in.Node(), in.Rows(), k.Groups, k.Epsilon)
	}, features(t, c, v.Layout, "in/feats"), uploaded(t, v))
	return map[string]any{"out/feats": stripped(t, v.Layout, y)}
}

func refLayerNorm(t *testing.T, c *fixture.Case, k kind) map[string]any {
	y := call(t, params(t, c), func(p nn.Params, in *Inputs) *Node {
		if k.Affine {
			return nn.LayerNorm(p, in.Node(), k.Epsilon)
		}
		return nn.Standardize(in.Node(), k.Epsilon)
	}, c.Tensor(t, "in/feats"))
	return map[string]any{"out/feats": y}
}

func refFeedForward(t *testing.T, c *fixture.Case, k kind) map[string]any {
	y := call(t, params(t, c), func(p nn.Params, in *Inputs) *Node { return FeedForward(p, in.Node()) }, c.Tensor(t, "in/feats"))
	return map[string]any{"out/feats": y}
}

func refHeadNorm(t *testing.T, c *fixture.Case, k kind) map[string]any {
	y := call(t, params(t, c), func(p nn.Params, in *Inputs) *Node { return nn.HeadRMSNorm(p, in.Node()) }, c.Tensor(t, "in/feats"))
	return map[string]any{"out/feats": y}
}

func refModulate(t *testing.T, c *fixture.Case, k kind) map[string]any {
	v := coords(t, c)
	y := call(t, nil, func(p nn.Params, in *Inputs) *Node {
		x, rows := in.Node(), in.Rows()
		shift, scale, gate := in.Node(), in.Node(), in.Node()
		return rows.Gate(rows.Modulate(x, shift, scale), gate)
	}, features(t, c, v.Layout, "in/feats"), uploaded(t, v), c.Tensor(t, "in/shift"), c.Tensor(t, "in/scale"), c.Tensor(t, "in/gate"))
	return map[string]any{"out/feats": stripped(t, v.Layout, y)}
}

func refPositions(t *testing.T, c *fixture.Case, k kind) map[string]any {
	v := coords(t, c)
	positions, err := v.UploadPositions(fixture.Backend(t))
	require.NoError(t, err)
	y := call(t, nil, func(p nn.Params, in *Inputs) *Node {
		return nn.GridEmbedding(in.Node(), v.Grid, k.Channels)
	}, positions)
	return map[string]any{"out/emb": stripped(t, v.Layout, y)}
}

func refSelfAttention(t *testing.T, c *fixture.Case, k kind) map[string]any {
	v := coords(t, c)
	x, w := features(t, c, v.Layout, "in/feats"), params(t, c)
	require.Equal(t, k.HeadNorms, w["q_rms_norm.gamma"] != nil)
	if k.Mode == "full" {
		y := call(t, w, func(p nn.Params, in *Inputs) *Node {
			return SelfAttention(p, in.Node(), in.Rows(), k.Heads)
		}, x, uploaded(t, v))
		return map[string]any{"out/feats": stripped(t, v.Layout, y)}
	}
	require.Equal(t, "windowed", k.Mode)
	windows := windowsOf(t, v, k)
	if c.Has("mid/window_of_voxel") {
		checkPartition(t, ints(t, c, "mid/window_of_voxel"), windows)
	}
	y := call(t, w, func(p nn.Params, in *Inputs) *Node {
		return WindowAttention(p, in.Node(), in.Windows(), k.Heads)
	}, x, uploaded(t, windows))
	return map[string]any{"out/feats": stripped(t, v.Layout, y)}
}

func windowsOf(t testing.TB, v *Coords, k kind) *Windows {
	t.Helper()
	windows, err := v.Windows(k.Window, k.Shift)
	require.NoError(t, err)
	return windows[0]
}

// checkPartition checks that rows share a window where the original says so.
func checkPartition(t *testing.T, want []int32, w *Windows) {
	ours := make(map[int32]int32)
	for row, number := range want {
		got := w.Window[w.Place[row]]
		if _, seen := ours[number]; !seen {
			ours[number] = got
		}
		require.Equal(t, ours[number], got, "window of row %d", row)
	}
	distinct := make(map[int32]bool)
	for _, number := range ours {
		distinct[number] = true
	}
	require.Len(t, distinct, len(ours))
}

func refCrossAttention(t *testing.T, c *fixture.Case, k kind) map[string]any {
	require.False(t, k.HeadNorms, "the original has no such cross attention")
	v := coords(t, c)
	y := call(t, params(t, c), func(p nn.Params, in *Inputs) *Node {
		x, rows := in.Node(), in.Rows()
		keys, values := CrossContext(p, in.Node(), k.Heads)
		return CrossAttention(p, x, rows, keys, values)
	}, features(t, c, v.Layout, "in/feats"), uploaded(t, v), c.Tensor(t, "in/context"))
	return map[string]any{"out/feats": stripped(t, v.Layout, y)}
}

func refSwinBlock(t *testing.T, c *fixture.Case, k kind) map[string]any {
	v := coords(t, c)
	y := call(t, params(t, c), func(p nn.Params, in *Inputs) *Node {
		return SwinBlock(p, in.Node(), in.Windows(), k.Heads)
	}, features(t, c, v.Layout, "in/feats"), uploaded(t, windowsOf(t, v, k)))
	return map[string]any{"out/feats": stripped(t, v.Layout, y)}
}

func refModulatedBlock(t *testing.T, c *fixture.Case, k kind) map[string]any {
	v := coords(t, c)
	y := call(t, params(t, c), func(p nn.Params, in *Inputs) *Node {
		x, rows, time := in.Node(), in.Rows(), in.Node()
		keys, values := CrossContext(p.In("cross_attn"), in.Node(), k.Heads)
		return ModulatedCrossBlock(p, x, time, rows, k.Heads, func(x *Node) *Node {
			return NormedCross(p, x, rows, keys, values)
		})
	}, features(t, c, v.Layout, "in/feats"), uploaded(t, v), c.Tensor(t, "in/mod"), c.Tensor(t, "in/context"))
	return map[string]any{"out/feats": stripped(t, v.Layout, y)}
}
