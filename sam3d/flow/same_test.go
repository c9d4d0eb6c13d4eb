// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flow

import (
	"fmt"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/sparse"
)

// What makes the computation cheaper must not change its result: the tests of this file compare with the plain way.

func smallStructure() StructureConfig {
	return StructureConfig{
		Width: 12, Heads: 2, Blocks: 3, MLPRatio: 2, CondWidth: 6,
		Latents: []StructureLatent{
			{Name: "pose", Channels: 3, Tokens: 2}, {Name: "scale", Channels: 1, Tokens: 1},
			{Name: ShapeLatent, Channels: 4, Tokens: 27},
		},
		Merged:    []StructureStream{{Name: "pose", Latents: []string{"pose", "scale"}}},
		StepInput: true, ZeroCondition: true,
	}
}

func newSmallStructure(t *testing.T, cfg StructureConfig) *Structure {
	t.Helper()
	s, err := NewStructure(fixture.Backend(t), cfg, scaledSet(StructureSpec(cfg)))
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// structureGraph is the whole network in one graph, without anything remembered: the keys and values of every block are
// projected from the tokens there, for all streams.
func (cfg StructureConfig) structureGraph(p nn.Params, in []*Node) []*Node {
	tokens, streams := in[0], cfg.streams()
	state := cfg.enter(p, in[1:])
	for i := range cfg.Blocks {
		block := p.In("blocks.%d", i)
		state = append(state[:1:1], cfg.block(block, state, func(i int, x *Node) *Node {
			cross := block.In("cross_attn.%s", streams[i].Name)
			k, v := crossContext(cross, tokens, cfg.Heads)
			return crossAttention(cross, nn.LayerNorm(block.In("norm2.%s", streams[i].Name), x, blockEpsilon), k, v, cfg.Heads)
		})...)
	}
	return cfg.leave(p, state[1:])
}

// TestStructureIsOneGraph compares a block that is compiled once and called for every layer, with keys and values that
// were projected once, with one graph of all layers.
func TestStructureIsOneGraph(t *testing.T) {
	for _, change := range []func(*StructureConfig){
		func(*StructureConfig) {},
		func(c *StructureConfig) { c.CrossNorm, c.SharedModulation = true, true },
		func(c *StructureConfig) { c.Merged = nil },
	} {
		cfg := smallStructure()
		change(&cfg)
		s := newSmallStructure(t, cfg)
		whole := nn.NewProgram(fixture.Backend(t), "whole", cfg.structureGraph)
		x, err := cfg.Noise(4, 1)
		require.NoError(t, err)
		condition := tokens(1, 5, cfg.CondWidth)
		c, err := s.Condition(t.Context(), condition)
		require.NoError(t, err)
		for _, time := range []float32{0, 250} { // the context serves all steps
			out, err := whole.Call(s.weights, append([]any{condition, sinusoids([]float32{time}), sinusoids([]float32{0})}, x.list(cfg.names())...)...)
			require.NoError(t, err)
			want := named(cfg.names(), out)
			got, err := s.Velocity(t.Context(), x, []float32{time}, []float32{0}, c)
			require.NoError(t, err)
			sameLatents(t, want, got)
		}
		c.Free()
		x.Free()
		whole.Close()
	}
}

func sameLatents(t *testing.T, want, got Latents) {
	t.Helper()
	require.Equal(t, want.Names(), got.Names())
	for _, name := range want.Names() {
		assert.InDeltaSlice(t, values(t, want[name]), values(t, got[name]), 1e-4, name)
	}
	want.Free()
	got.Free()
}

func zeroTokens(count, width int) *tensors.Tensor {
	return tensors.FromFlatDataAndDimensions(make([]float32, count*width), 1, count, width)
}

// TestStructureWithoutConditionIsZeroTokens compares the constant with one and with many tokens of zeros.
func TestStructureWithoutConditionIsZeroTokens(t *testing.T) {
	s := newSmallStructure(t, smallStructure())
	x, err := s.cfg.Noise(5, 1)
	require.NoError(t, err)
	defer x.Free()
	for _, count := range []int{1, 300} {
		zeros, err := s.Condition(t.Context(), zeroTokens(count, s.cfg.CondWidth))
		require.NoError(t, err)
		want, err := s.Velocity(t.Context(), x, []float32{125}, []float32{0}, zeros)
		require.NoError(t, err)
		got, err := s.Velocity(t.Context(), x, []float32{125}, []float32{0}, nil)
		require.NoError(t, err)
		sameLatents(t, want, got)
		zeros.Free()
	}
}

// latentGraph is the transformer of Latent in one graph, without anything remembered.
func (cfg LatentConfig) latentGraph(p nn.Params, nodes []*Node) []*Node {
	in := sparse.Read(nodes)
	tokens, h, time, rows := in.Node(), in.Node(), in.Node(), in.Rows()
	for i := range cfg.Blocks {
		block := p.In("blocks.%d", i)
		k, v := crossContext(block.In("cross_attn"), tokens, cfg.Heads)
		h = sparse.ModulatedCrossBlock(block, h, time, rows, cfg.Heads, func(x *Node) *Node {
			return sparse.NormedCross(block, x, rows, k, v)
		})
	}
	return []*Node{h}
}

// TestLatentIsOneGraph is TestStructureIsOneGraph for the transformer of the latent flow. What remains is compared with
// the original in the reference cases.
func TestLatentIsOneGraph(t *testing.T) {
	l := newSmallLatent(t, smallLatent())
	condition := tokens(1, 5, 6)
	c := latentContext(t, l, condition)
	v, err := l.Voxels(ball(t, 3.3))
	require.NoError(t, err)
	defer v.Free()
	x, err := v.Layout.UploadFeatures(fixture.Backend(t), l.Config().Noise(1, v.Layout.Count), 2)
	require.NoError(t, err)
	defer nn.Free(x)
	whole := nn.NewProgram(fixture.Backend(t), "whole", l.cfg.latentGraph)
	defer whole.Close()
	var last []float32
	e := &latentEvaluation{model: l, voxels: v, observe: func(name string, x *tensors.Tensor) {
		if name == fmt.Sprintf("blocks.%d", l.cfg.Blocks-1) {
			last = strippedRows(t, v.Parents.Layout, x)
		}
	}}
	defer e.free()
	for _, time := range []float32{0, 250} {
		y, err := e.velocity(t.Context(), x, []float32{time}, nil, c)
		require.NoError(t, err)
		nn.Free(y)
		want, err := whole.Call1(l.weights, sparse.Args(condition, e.h, e.time, v.parentRows)...)
		require.NoError(t, err)
		assert.InDeltaSlice(t, strippedRows(t, v.Parents.Layout, want), last, 1e-4)
		nn.Free(want)
	}
}

func strippedRows(t *testing.T, l sparse.Layout, x *tensors.Tensor) []float32 {
	t.Helper()
	flat, err := l.Strip(x)
	require.NoError(t, err)
	return flat
}

// TestLatentBucketsAreExactCounts samples two objects whose voxels fall into one bucket, in arrays of the bucket's rows,
// of exactly as many as there are voxels and of more.
func TestLatentBucketsAreExactCounts(t *testing.T) {
	l := newSmallLatent(t, smallLatent())
	c := latentContext(t, l, tokens(1, 5, 6))
	whole := ball(t, 4.2)
	less, err := sparse.New(whole.Voxels[3:], 16)
	require.NoError(t, err)
	require.Equal(t, whole.Layout.Rows, less.Layout.Rows)
	for _, bucket := range []*sparse.Coords{whole, less} {
		noise := l.Config().Noise(2, bucket.Layout.Count)
		want := sample(t, l, bucket, c, noise)
		for _, rows := range []int{bucket.Layout.Count + 1, 2 * bucket.Layout.Count} {
			other := *bucket
			other.Layout.Rows = rows
			assert.InDeltaSlice(t, want, sample(t, l, &other, c, noise), 1e-4, "%d rows", rows)
		}
	}
}
