// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sparse

import (
	"fmt"
	"math/rand/v2"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/nn"
)

// What makes the computation cheaper must not change its result: the tests of this file compare with the plain way.

// TestJoinedWindowsAreSeparateWindows compares windows that share bins under a mask with attention in each window alone.
func TestJoinedWindowsAreSeparateWindows(t *testing.T) {
	const channels, heads = 8, 2
	r := rand.New(rand.NewPCG(21, 21))
	c, err := New(cloud(r, 2, 6, 0.4), 6)
	require.NoError(t, err)
	flat, w := random(r, c.Layout.Count*channels), attentionWeights(r, channels)
	x, err := c.Layout.UploadFeatures(fixture.Backend(t), flat, channels)
	require.NoError(t, err)
	defer nn.Free(x)
	separate := nn.NewProgram(fixture.Backend(t), "separate", func(p nn.Params, nodes []*Node) []*Node {
		in := Read(nodes)
		return []*Node{SelfAttention(p, in.Node(), in.Rows(), heads)}
	})
	defer separate.Close()
	for _, shift := range []int{0, 2} {
		all, err := c.Windows(4, shift)
		require.NoError(t, err)
		groups := c.groups(4, int32(shift))
		require.Greater(t, len(groups), all[0].Bins[0]+all[0].Bins[1], "windows share bins")
		joined := stripped(t, c.Layout, call(t, w, func(p nn.Params, in *Inputs) *Node {
			return WindowAttention(p, in.Node(), in.Windows(), heads)
		}, x, uploaded(t, all[0])))
		for _, rows := range groups {
			var voxels []Voxel
			var own, want []float32
			for _, row := range rows {
				v := c.Voxels[row]
				voxels = append(voxels, Voxel{0, v[1], v[2], v[3]})
				own = append(own, flat[row*channels:(row+1)*channels]...)
				want = append(want, joined[row*channels:(row+1)*channels]...)
			}
			window, err := New(voxels, 6)
			require.NoError(t, err)
			features, err := window.Layout.UploadFeatures(fixture.Backend(t), own, channels)
			require.NoError(t, err)
			y, err := separate.Call1(w, Args(features, uploaded(t, window))...)
			require.NoError(t, err)
			assert.InDeltaSlice(t, want, stripped(t, window.Layout, y), 1e-5, "shift %d, window of %v", shift, voxels[0])
			nn.Free(features, y)
		}
	}
}

// exactly is the same voxels in arrays of another number of rows.
func exactly(c *Coords, rows int) *Coords {
	other := *c
	other.Layout.Rows = rows
	return &other
}

// TestBucketsAreExactCounts runs what mixes rows on arrays of a bucket's rows, of exactly the voxels' and of many more,
// for two numbers of voxels in one bucket.
func TestBucketsAreExactCounts(t *testing.T) {
	const channels = 8
	r := rand.New(rand.NewPCG(22, 22))
	norm := nn.Weights{"weight": vectorOf(random(r, channels)), "bias": vectorOf(random(r, channels))}
	whole := cloud(r, 1, 6, 0.5)
	require.Equal(t, NewLayout(len(whole)).Rows, NewLayout(len(whole)-3).Rows, "in one bucket")
	for name, test := range map[string]struct {
		w     nn.Weights
		build func(p nn.Params, in *Inputs) *Node
	}{
		"convolution": {convWeights(r, channels, channels), func(p nn.Params, in *Inputs) *Node {
			x, rows, pairs, _, _ := inputs(in)
			return Conv(p, x, rows, pairs)
		}},
		"pooling": {nil, func(p nn.Params, in *Inputs) *Node {
			x, rows, _, pools, _ := inputs(in)
			return Upsample(Downsample(x, rows, pools), pools)
		}},
		"norm": {norm, func(p nn.Params, in *Inputs) *Node {
			x, rows, _, _, _ := inputs(in)
			return GroupNorm(p, x, rows, 4, 1e-5)
		}},
		"attention": {attentionWeights(r, channels), func(p nn.Params, in *Inputs) *Node {
			x, rows, _, _, _ := inputs(in)
			return SelfAttention(p, x, rows, 2)
		}},
		"windows": {attentionWeights(r, channels), func(p nn.Params, in *Inputs) *Node {
			x, _, _, _, bins := inputs(in)
			return WindowAttention(p, x, bins, 2)
		}},
	} {
		for _, count := range []int{len(whole), len(whole) - 3} {
			t.Run(fmt.Sprint(name, count), func(t *testing.T) {
				c, err := New(whole[:count], 6)
				require.NoError(t, err)
				flat := random(r, count*channels)
				run := func(c *Coords) []float32 {
					windows, err := c.Windows(4, 2)
					require.NoError(t, err)
					x, err := c.Layout.UploadFeatures(fixture.Backend(t), flat, channels)
					require.NoError(t, err)
					defer nn.Free(x)
					return stripped(t, c.Layout, call(t, test.w, test.build,
						x, uploaded(t, c), uploaded(t, neighbors(t, c)), uploaded(t, c.Downsample()), uploaded(t, windows[0])))
				}
				exact := run(exactly(c, count+1))
				assert.InDeltaSlice(t, exact, run(c), 1e-5)
				assert.InDeltaSlice(t, exact, run(exactly(c, 2*count)), 1e-5)
			})
		}
	}
}

// inputs are all that an object has.
func inputs(in *Inputs) (x *Node, rows Rows, pairs Pairs, pools Pools, bins Bins) {
	return in.Node(), in.Rows(), in.Neighbors(), in.Pooling(), in.Windows()
}

func vectorOf(flat []float32) *tensors.Tensor {
	return tensors.FromFlatDataAndDimensions(flat, len(flat))
}

// TestTorsoIsOneGraph compares one compiled block that is called for every layer with all layers in one graph.
func TestTorsoIsOneGraph(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 23))
	cfg := TorsoConfig{Resolution: 16, Width: 12, Heads: 2, Blocks: 3, Window: 4}
	w := torsoWeights(r, cfg.Blocks)
	torso := NewTorso(fixture.Backend(t), cfg)
	torso.Use(w)
	defer torso.Close()
	c, err := New(cloud(r, 1, 16, 0.02), 16)
	require.NoError(t, err)
	x := dirty(r, c.Layout, 3)
	called, err := torso.Run(t.Context(), c, x)
	require.NoError(t, err)
	defer nn.Free(called)
	windows, err := c.Windows(cfg.Window, 0, cfg.Window/2)
	require.NoError(t, err)
	positions, err := c.UploadPositions(fixture.Backend(t))
	require.NoError(t, err)
	defer positions.Free()
	chained := call(t, w, func(p nn.Params, in *Inputs) *Node {
		h := nn.Linear(p.In("input_layer"), in.Node())
		h = Add(h, nn.GridEmbedding(in.Node(), cfg.Resolution, cfg.Width))
		shifts := [2]Bins{in.Windows(), in.Windows()}
		for i := range cfg.Blocks {
			h = SwinBlock(p.In("blocks.%d", i), h, shifts[i%2], cfg.Heads)
		}
		return h
	}, x, positions, uploaded(t, windows[0]), uploaded(t, windows[1]))
	assert.InDeltaSlice(t, stripped(t, c.Layout, chained), stripped(t, c.Layout, called), 1e-4)
}
