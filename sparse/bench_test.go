// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sparse

import (
	"math"
	"math/rand/v2"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/nn"
)

// shell is a hollow sphere of about 20,000 voxels on the grid of 64, in ascending order.
func shell(t testing.TB) *Coords {
	t.Helper()
	var voxels []Voxel
	for cell := range int32(64 * 64 * 64) {
		x, y, z := cell>>12, cell>>6&63, cell&63
		r := math.Sqrt(math.Pow(float64(x)-31.5, 2) + math.Pow(float64(y)-31.5, 2) + math.Pow(float64(z)-31.5, 2))
		if math.Abs(r-30.5) < 0.855 {
			voxels = append(voxels, Voxel{0, x, y, z})
		}
	}
	c, err := New(voxels, 64)
	require.NoError(t, err)
	return c
}

func BenchmarkNew64(b *testing.B) {
	c := shell(b)
	for b.Loop() {
		_, err := New(c.Voxels, 64)
		require.NoError(b, err)
	}
}

func BenchmarkNeighbors64(b *testing.B) {
	c := shell(b)
	for b.Loop() {
		neighbors(b, c)
	}
}

// BenchmarkNeighbors256 is what the last level of the mesh decoder would need without ConvChildren.
func BenchmarkNeighbors256(b *testing.B) {
	c := shell(b)
	for range 2 {
		fine, err := c.Subdivide()
		require.NoError(b, err)
		c = fine
	}
	b.ReportMetric(float64(c.Layout.Count), "voxels")
	for b.Loop() {
		neighbors(b, c)
	}
}

func BenchmarkDownsample64(b *testing.B) {
	c := shell(b)
	for b.Loop() {
		c.Downsample()
	}
}

func BenchmarkWindows64(b *testing.B) {
	c := shell(b)
	for b.Loop() {
		_, err := c.Windows(8, 0, 4)
		require.NoError(b, err)
	}
}

// benchGraph runs a compiled graph function. The first, compiling call is reported apart.
func benchGraph(b *testing.B, w nn.Weights, build func(p nn.Params, in *Inputs) *Node, parts ...any) {
	b.Helper()
	program := nn.NewProgram(fixture.Backend(b), "bench", func(p nn.Params, nodes []*Node) []*Node {
		return []*Node{build(p, Read(nodes))}
	})
	defer program.Close()
	run := func() {
		y, err := program.Call1(w, Args(parts...)...)
		require.NoError(b, err)
		nn.Free(y)
	}
	run()
	for b.Loop() {
		run()
	}
}

// onDevice is random values.
func onDevice(b *testing.B, dims ...int) *tensors.Tensor {
	b.Helper()
	size := 1
	for _, d := range dims {
		size *= d
	}
	r := rand.New(rand.NewPCG(1, 1))
	flat := make([]float32, size)
	for i := range flat {
		flat[i] = (r.Float32() - 0.5) / 8
	}
	arrays, err := upload(fixture.Backend(b), device(flat, dims...))
	require.NoError(b, err)
	b.Cleanup(arrays.Free)
	return arrays[0]
}

func benchConv(b *testing.B, width int) {
	c := shell(b)
	w := nn.Weights{"weight": onDevice(b, width, 3, 3, 3, width), "bias": onDevice(b, width)}
	benchGraph(b, w, func(p nn.Params, in *Inputs) *Node {
		return Conv(p, in.Node(), in.Rows(), in.Neighbors())
	}, onDevice(b, c.Layout.Rows, width), uploaded(b, c), uploaded(b, neighbors(b, c)))
}

func BenchmarkConv128(b *testing.B) { benchConv(b, 128) }
func BenchmarkConv512(b *testing.B) { benchConv(b, 512) }

// BenchmarkConvUpsampled is the widest convolution of the latent flow.
func BenchmarkConvUpsampled(b *testing.B) {
	c := shell(b)
	pool := c.Downsample()
	w := nn.Weights{"weight": onDevice(b, 128, 3, 3, 3, 2048), "bias": onDevice(b, 128)}
	benchGraph(b, w, func(p nn.Params, in *Inputs) *Node {
		return ConvUpsampled(p, in.Node(), in.Rows(), in.Pooling(), in.Neighbors())
	}, onDevice(b, pool.Parents.Layout.Rows, 2048), uploaded(b, pool.Parents), uploaded(b, pool), uploaded(b, neighbors(b, c)))
}

// BenchmarkConvSubdivided and BenchmarkConvChildren are the convolutions of the mesh decoder's first level.
func BenchmarkConvSubdivided(b *testing.B) {
	c := shell(b)
	w := nn.Weights{"weight": onDevice(b, 192, 3, 3, 3, 768), "bias": onDevice(b, 192)}
	benchGraph(b, w, func(p nn.Params, in *Inputs) *Node {
		return ConvSubdivided(p, in.Node(), in.Rows(), in.Neighbors())
	}, onDevice(b, c.Layout.Rows, 768), uploaded(b, c), uploaded(b, neighbors(b, c)))
}

func BenchmarkConvChildren(b *testing.B) {
	c := shell(b)
	w := nn.Weights{"weight": onDevice(b, 192, 3, 3, 3, 192), "bias": onDevice(b, 192)}
	benchGraph(b, w, func(p nn.Params, in *Inputs) *Node {
		return ConvChildren(p, in.Node(), in.Rows(), in.Neighbors())
	}, onDevice(b, 8*c.Layout.Rows, 192), uploaded(b, c), uploaded(b, neighbors(b, c)))
}

// BenchmarkConvFine is BenchmarkConvChildren on the grid of 128 itself.
func BenchmarkConvFine(b *testing.B) {
	c, err := shell(b).Subdivide()
	require.NoError(b, err)
	w := nn.Weights{"weight": onDevice(b, 192, 3, 3, 3, 192), "bias": onDevice(b, 192)}
	benchGraph(b, w, func(p nn.Params, in *Inputs) *Node {
		return Conv(p, in.Node(), in.Rows(), in.Neighbors())
	}, onDevice(b, c.Layout.Rows, 192), uploaded(b, c), uploaded(b, neighbors(b, c)))
}

const benchWidth, benchHeads = 768, 12

func blockWeights(b *testing.B) nn.Weights {
	w := make(nn.Weights)
	for name, dims := range map[string][2]int{"attn.to_qkv": {3, 1}, "attn.to_out": {1, 1}, "mlp.mlp.0": {4, 1}, "mlp.mlp.2": {1, 4}} {
		w[name+".weight"] = onDevice(b, dims[0]*benchWidth, dims[1]*benchWidth)
		w[name+".bias"] = onDevice(b, dims[0]*benchWidth)
	}
	return w
}

// BenchmarkWindows is attention within windows without its projections: gather, attend, gather back.
func BenchmarkWindows(b *testing.B) {
	c := shell(b)
	windows, err := c.Windows(8, 0, 4)
	require.NoError(b, err)
	benchGraph(b, nil, func(p nn.Params, in *Inputs) *Node {
		qkv, bins := in.Node(), in.Windows()
		qkv = Gather(qkv, ExpandAxes(bins.row, 1)) // [places, 3*C]
		parts := nn.SplitHeads(ExpandAxes(qkv, 0), 3, benchHeads)
		return bins.attend(Squeeze(parts[0], 0), Squeeze(parts[1], 0), Squeeze(parts[2], 0))
	}, onDevice(b, c.Layout.Rows, 3*benchWidth), uploaded(b, windows[0]))
}

func BenchmarkSwinBlock(b *testing.B) {
	c := shell(b)
	windows, err := c.Windows(8, 0, 4)
	require.NoError(b, err)
	benchGraph(b, blockWeights(b), func(p nn.Params, in *Inputs) *Node {
		return SwinBlock(p, in.Node(), in.Windows(), benchHeads)
	}, onDevice(b, c.Layout.Rows, benchWidth), uploaded(b, windows[0]))
}

func BenchmarkGroupNorm(b *testing.B) {
	c := shell(b)
	w := nn.Weights{"weight": onDevice(b, 192), "bias": onDevice(b, 192)}
	benchGraph(b, w, func(p nn.Params, in *Inputs) *Node {
		return GroupNorm(p, in.Node(), in.Rows().Subdivide(), 32, 1e-5)
	}, onDevice(b, 8*c.Layout.Rows, 192), uploaded(b, c))
}
