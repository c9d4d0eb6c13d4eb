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

// cloud returns voxels that are occupied with a probability, in random order within each batch item.
func cloud(r *rand.Rand, batches, grid int, probability float64) []Voxel {
	var voxels []Voxel
	for b := range batches {
		start := len(voxels)
		for cell := range grid * grid * grid {
			if r.Float64() < probability {
				voxels = append(voxels, Voxel{int32(b), int32(cell / grid / grid), int32(cell / grid % grid), int32(cell % grid)})
			}
		}
		item := voxels[start:]
		r.Shuffle(len(item), func(i, j int) { item[i], item[j] = item[j], item[i] })
	}
	return voxels
}

func random(r *rand.Rand, n int) []float32 {
	flat := make([]float32, n)
	for i := range flat {
		flat[i] = float32(r.NormFloat64())
	}
	return flat
}

func convWeights(r *rand.Rand, in, out int) nn.Weights {
	return nn.Weights{
		"weight": tensors.FromFlatDataAndDimensions(random(r, out*27*in), out, 3, 3, 3, in),
		"bias":   tensors.FromFlatDataAndDimensions(random(r, out), out),
	}
}

// dirty is random features whose padding rows are not zero.
func dirty(r *rand.Rand, l Layout, channels int) *tensors.Tensor {
	return tensors.FromFlatDataAndDimensions(random(r, l.Rows*channels), l.Rows, channels)
}

// naiveConv is the definition of Conv.
func naiveConv(c *Coords, x []float32, w nn.Weights) []float32 {
	weight := tensors.MustCopyFlatData[float32](w["weight"])
	bias := tensors.MustCopyFlatData[float32](w["bias"])
	out, in := len(bias), len(weight)/27/len(bias)
	rows := make(map[Voxel]int)
	for i, v := range c.Voxels {
		rows[v] = i
	}
	var y []float32
	for _, v := range c.Voxels {
		for o := range out {
			sum := float64(bias[o])
			for tap := range numTaps {
				off := offset(tap)
				if row, ok := rows[Voxel{v[0], v[1] + off[0], v[2] + off[1], v[3] + off[2]}]; ok {
					for i := range in {
						sum += float64(weight[(o*27+tap)*in+i]) * float64(x[row*in+i])
					}
				}
			}
			y = append(y, float32(sum))
		}
	}
	return y
}

func TestConvIgnoresPadding(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, p := range []float64{0.02, 0.3, 1} {
		t.Run(fmt.Sprint(p), func(t *testing.T) {
			c, err := New(cloud(r, 2, 6, p), 6)
			require.NoError(t, err)
			x, w := dirty(r, c.Layout, 3), convWeights(r, 3, 5)
			y := call(t, w, func(p nn.Params, in *Inputs) *Node {
				return Conv(p, in.Node(), in.Rows(), in.Neighbors())
			}, x, uploaded(t, c), uploaded(t, neighbors(t, c)))
			assert.InDeltaSlice(t, naiveConv(c, tensors.MustCopyFlatData[float32](x), w), stripped(t, c.Layout, y), 1e-4)
		})
	}
}

// TestConvShortcuts compares the evaluations that use the coarse grid with the convolution of the fine grid.
func TestConvShortcuts(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	c, err := New(cloud(r, 2, 7, 0.25), 7)
	require.NoError(t, err)
	fine, err := c.Subdivide()
	require.NoError(t, err)
	rows, pairs := uploaded(t, c), uploaded(t, neighbors(t, c))
	fineRows, finePairs := uploaded(t, fine), uploaded(t, neighbors(t, fine))

	t.Run("ConvSubdivided", func(t *testing.T) {
		x, w := dirty(r, c.Layout, 4), convWeights(r, 4, 3)
		want := call(t, w, func(p nn.Params, in *Inputs) *Node {
			return Conv(p, Subdivide(in.Node()), in.Rows(), in.Neighbors())
		}, x, fineRows, finePairs)
		got := call(t, w, func(p nn.Params, in *Inputs) *Node {
			return ConvSubdivided(p, in.Node(), in.Rows(), in.Neighbors())
		}, x, rows, pairs)
		assert.InDeltaSlice(t, stripped(t, fine.Layout, want), stripped(t, fine.Layout, got), 1e-4)
	})
	t.Run("ConvChildren", func(t *testing.T) {
		x, w := dirty(r, fine.Layout, 4), convWeights(r, 4, 3)
		want := call(t, w, func(p nn.Params, in *Inputs) *Node {
			return Conv(p, in.Node(), in.Rows(), in.Neighbors())
		}, x, fineRows, finePairs)
		got := call(t, w, func(p nn.Params, in *Inputs) *Node {
			return ConvChildren(p, in.Node(), in.Rows(), in.Neighbors())
		}, x, rows, pairs)
		assert.InDeltaSlice(t, stripped(t, fine.Layout, want), stripped(t, fine.Layout, got), 1e-4)
	})
	t.Run("ConvUpsampled", func(t *testing.T) {
		pool := c.Downsample()
		x, w := dirty(r, pool.Parents.Layout, 4), convWeights(r, 4, 3)
		want := call(t, w, func(p nn.Params, in *Inputs) *Node {
			return Conv(p, Upsample(in.Node(), in.Pooling()), in.Rows(), in.Neighbors())
		}, x, uploaded(t, pool), rows, pairs)
		got := call(t, w, func(p nn.Params, in *Inputs) *Node {
			return ConvUpsampled(p, in.Node(), in.Rows(), in.Pooling(), in.Neighbors())
		}, x, uploaded(t, pool.Parents), uploaded(t, pool), pairs)
		assert.InDeltaSlice(t, stripped(t, c.Layout, want), stripped(t, c.Layout, got), 1e-4)
	})
}

func TestConvRejectsShapes(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	c, err := New(cloud(r, 1, 4, 0.5), 4)
	require.NoError(t, err)
	program := nn.NewProgram(fixture.Backend(t), "test", func(p nn.Params, nodes []*Node) []*Node {
		in := Read(nodes)
		return []*Node{Conv(p, in.Node(), in.Rows(), in.Neighbors())}
	})
	defer program.Close()
	_, err = program.Call(convWeights(r, 3, 5), Args(dirty(r, c.Layout, 4), uploaded(t, c), uploaded(t, neighbors(t, c)))...)
	assert.Error(t, err, "channels")
	_, err = program.Call(convWeights(r, 3, 5), Args(dirty(r, c.Layout, 3), uploaded(t, c))...)
	assert.Error(t, err, "missing inputs")
}
