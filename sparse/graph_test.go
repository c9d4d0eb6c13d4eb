// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sparse

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/nn"
)

func linear(r *rand.Rand, w nn.Weights, name string, in, out int) {
	flat := random(r, in*out)
	for i := range flat {
		flat[i] /= float32(math.Sqrt(float64(in)))
	}
	w[name+".weight"] = tensors.FromFlatDataAndDimensions(flat, out, in)
	w[name+".bias"] = tensors.FromFlatDataAndDimensions(random(r, out), out)
}

func attentionWeights(r *rand.Rand, channels int) nn.Weights {
	w := make(nn.Weights)
	linear(r, w, "to_qkv", channels, 3*channels)
	linear(r, w, "to_out", channels, channels)
	return w
}

// padded returns two uploads of the same features, with different values in the padding rows.
func padded(r *rand.Rand, l Layout, channels int) (a, b *tensors.Tensor) {
	flat := random(r, l.Count*channels)
	make := func(padding float32) *tensors.Tensor {
		rest := slices.Repeat([]float32{padding}, (l.Rows-l.Count)*channels)
		return tensors.FromFlatDataAndDimensions(append(slices.Clone(flat), rest...), l.Rows, channels)
	}
	return make(0), make(1e4)
}

// TestPaddingDoesNotMatter runs every function that mixes rows with two different paddings.
func TestPaddingDoesNotMatter(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	c, err := New(cloud(r, 2, 9, 0.2), 9)
	require.NoError(t, err)
	pool := c.Downsample()
	windows, err := c.Windows(4, 2)
	require.NoError(t, err)
	rows, pairs, pools, bins := uploaded(t, c), uploaded(t, neighbors(t, c)), uploaded(t, pool), uploaded(t, windows[0])
	norm := nn.Weights{"weight": tensors.FromFlatDataAndDimensions(random(r, 8), 8), "bias": tensors.FromFlatDataAndDimensions(random(r, 8), 8)}
	fine := c.Layout.Subdivide()
	for name, test := range map[string]struct {
		w       nn.Weights
		in, out Layout
		build   func(p nn.Params, in *Inputs) *Node
		topo    []Arrays
	}{
		"Conv": {convWeights(r, 8, 8), c.Layout, c.Layout, func(p nn.Params, in *Inputs) *Node {
			return Conv(p, in.Node(), in.Rows(), in.Neighbors())
		}, []Arrays{rows, pairs}},
		"ConvSubdivided": {convWeights(r, 8, 8), c.Layout, fine, func(p nn.Params, in *Inputs) *Node {
			return ConvSubdivided(p, in.Node(), in.Rows(), in.Neighbors())
		}, []Arrays{rows, pairs}},
		"ConvChildren": {convWeights(r, 8, 8), fine, fine, func(p nn.Params, in *Inputs) *Node {
			return ConvChildren(p, in.Node(), in.Rows(), in.Neighbors())
		}, []Arrays{rows, pairs}},
		"ConvUpsampled": {convWeights(r, 8, 8), pool.Parents.Layout, c.Layout, func(p nn.Params, in *Inputs) *Node {
			return ConvUpsampled(p, in.Node(), in.Rows(), in.Pooling(), in.Neighbors())
		}, []Arrays{uploaded(t, pool.Parents), pools, pairs}},
		"Downsample": {nil, c.Layout, pool.Parents.Layout, func(p nn.Params, in *Inputs) *Node {
			return Downsample(in.Node(), in.Rows(), in.Pooling())
		}, []Arrays{rows, pools}},
		"GroupNorm": {norm, c.Layout, c.Layout, func(p nn.Params, in *Inputs) *Node {
			return GroupNorm(p, in.Node(), in.Rows(), 4, 1e-5)
		}, []Arrays{rows}},
		"SelfAttention": {attentionWeights(r, 8), c.Layout, c.Layout, func(p nn.Params, in *Inputs) *Node {
			return SelfAttention(p, in.Node(), in.Rows(), 2)
		}, []Arrays{rows}},
		"WindowAttention": {attentionWeights(r, 8), c.Layout, c.Layout, func(p nn.Params, in *Inputs) *Node {
			return WindowAttention(p, in.Node(), in.Windows(), 2)
		}, []Arrays{bins}},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := padded(r, test.in, 8)
			var got [2][]float32
			for i, x := range []any{a, b} {
				args := []any{x}
				for _, arrays := range test.topo {
					args = append(args, arrays)
				}
				got[i] = stripped(t, test.out, call(t, test.w, test.build, args...))
			}
			assert.Equal(t, got[0], got[1])
		})
	}
}

// TestWindowAttentionIsSelfAttention compares windows that hold a whole object, longer than a short bin, with full
// attention.
func TestWindowAttentionIsSelfAttention(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	c, err := New(cloud(r, 2, 8, 0.6), 8)
	require.NoError(t, err)
	windows, err := c.Windows(8, 0)
	require.NoError(t, err)
	require.Equal(t, 512, windows[0].Length[1])
	x, _ := padded(r, c.Layout, 8)
	w := attentionWeights(r, 8)
	full := call(t, w, func(p nn.Params, in *Inputs) *Node {
		return SelfAttention(p, in.Node(), in.Rows(), 2)
	}, x, uploaded(t, c))
	windowed := call(t, w, func(p nn.Params, in *Inputs) *Node {
		return WindowAttention(p, in.Node(), in.Windows(), 2)
	}, x, uploaded(t, windows[0]))
	assert.InDeltaSlice(t, stripped(t, c.Layout, full), stripped(t, c.Layout, windowed), 1e-5)
}

// TestGroupNormOfMany checks the accuracy of the sums over many rows that are far from zero.
func TestGroupNormOfMany(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	var voxels []Voxel
	for cell := range int32(100_000) {
		voxels = append(voxels, Voxel{0, cell >> 12, cell >> 6 & 63, cell & 63})
	}
	c, err := New(voxels, 64)
	require.NoError(t, err)
	flat := random(r, 2*c.Layout.Count)
	mean, squares := 0.0, 0.0
	for i := range flat {
		flat[i] += 30
		mean += float64(flat[i]) / float64(len(flat))
	}
	for _, v := range flat {
		squares += (float64(v) - mean) * (float64(v) - mean) / float64(len(flat))
	}
	x, err := c.Layout.UploadFeatures(fixture.Backend(t), flat, 2)
	require.NoError(t, err)
	defer nn.Free(x)
	w := nn.Weights{"weight": tensors.FromFlatDataAndDimensions([]float32{1, 1}, 2), "bias": tensors.FromFlatDataAndDimensions([]float32{0, 0}, 2)}
	y := stripped(t, c.Layout, call(t, w, func(p nn.Params, in *Inputs) *Node {
		return GroupNorm(p, in.Node(), in.Rows(), 1, 1e-5)
	}, x, uploaded(t, c)))
	for i, v := range y {
		require.InDelta(t, (float64(flat[i])-mean)/math.Sqrt(squares+1e-5), v, 2e-5)
	}
}

func TestSameBucketsCompileOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 10))
	program := nn.NewProgram(fixture.Backend(t), "test", func(p nn.Params, nodes []*Node) []*Node {
		in := Read(nodes)
		return []*Node{Conv(p, in.Node(), in.Rows(), in.Neighbors())}
	})
	defer program.Close()
	w := convWeights(r, 2, 2)
	before := nn.Compilations()
	for _, missing := range []int{0, 1, 2, 3} { // a cube of 12^3 without some corners
		corners := []Voxel{{0, 0, 0, 0}, {0, 11, 0, 0}, {0, 0, 11, 11}}
		voxels := slices.DeleteFunc(cloud(r, 1, 12, 1), func(v Voxel) bool { return slices.Contains(corners[:missing], v) })
		c, err := New(voxels, 12)
		require.NoError(t, err)
		y, err := program.Call1(w, Args(dirty(r, c.Layout, 2), uploaded(t, c), uploaded(t, neighbors(t, c)))...)
		require.NoError(t, err)
		nn.Free(y)
	}
	assert.EqualValues(t, 1, nn.Compilations()-before)
}

func torsoWeights(r *rand.Rand, blocks int) nn.Weights {
	w := make(nn.Weights)
	linear(r, w, "input_layer", 3, 12)
	for i := range blocks {
		prefix := []string{"blocks.0.", "blocks.1.", "blocks.2."}[i]
		linear(r, w, prefix+"attn.to_qkv", 12, 36)
		linear(r, w, prefix+"attn.to_out", 12, 12)
		linear(r, w, prefix+"mlp.mlp.0", 12, 48)
		linear(r, w, prefix+"mlp.mlp.2", 48, 12)
	}
	return w
}

// TestTorsoIsEquivariant checks that rows may come in any order.
func TestTorsoIsEquivariant(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 11))
	torso := NewTorso(fixture.Backend(t), TorsoConfig{Resolution: 16, Width: 12, Heads: 2, Blocks: 3, Window: 4})
	torso.Use(torsoWeights(r, 3))
	defer torso.Close()
	voxels := cloud(r, 1, 16, 0.05)
	flat := random(r, 3*len(voxels))
	run := func(voxels []Voxel, flat []float32) []float32 {
		c, err := New(voxels, 16)
		require.NoError(t, err)
		x, err := c.Layout.UploadFeatures(fixture.Backend(t), flat, 3)
		require.NoError(t, err)
		defer nn.Free(x)
		y, err := torso.Run(t.Context(), c, x)
		require.NoError(t, err)
		defer nn.Free(y)
		return stripped(t, c.Layout, y)
	}
	want := run(voxels, flat)
	order := r.Perm(len(voxels))
	var mixed []Voxel
	var mixedFlat, mixedWant []float32
	for _, i := range order {
		mixed = append(mixed, voxels[i])
		mixedFlat = append(mixedFlat, flat[3*i:3*i+3]...)
		mixedWant = append(mixedWant, want[12*i:12*i+12]...)
	}
	assert.InDeltaSlice(t, mixedWant, run(mixed, mixedFlat), 1e-4)
}

func TestTorsoRejects(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 12))
	torso := NewTorso(fixture.Backend(t), TorsoConfig{Resolution: 16, Width: 12, Heads: 2, Blocks: 1, Window: 4})
	torso.Use(torsoWeights(r, 1))
	defer torso.Close()
	large, err := New([]Voxel{{0, 0, 0, 0}}, 32)
	require.NoError(t, err)
	small, err := New([]Voxel{{0, 0, 0, 0}}, 16)
	require.NoError(t, err)
	x := dirty(r, small.Layout, 3)
	_, err = torso.Run(t.Context(), large, x)
	assert.ErrorIs(t, err, ErrRange)
	_, err = torso.Run(t.Context(), small, dirty(r, small.Layout, 4))
	assert.Error(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = torso.Run(ctx, small, x)
	assert.ErrorIs(t, err, context.Canceled)
}

func TestFeaturesReject(t *testing.T) {
	l := NewLayout(3)
	for _, bad := range []struct{ values, channels int }{{5, 2}, {0, 0}, {6, -2}} {
		_, err := l.UploadFeatures(fixture.Backend(t), make([]float32, bad.values), bad.channels)
		assert.Error(t, err)
	}
	_, err := l.Strip(tensors.FromFlatDataAndDimensions(make([]float32, 6), 3, 2))
	assert.Error(t, err)
}
