// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package nn_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/nn"
)

// uniform returns values in [-1, 1).
func uniform(r *rand.Rand, dims ...int) *tensors.Tensor {
	size := 1
	for _, d := range dims {
		size *= d
	}
	values := make([]float32, size)
	for i := range values {
		values[i] = 2*r.Float32() - 1
	}
	return tensors.FromFlatDataAndDimensions(values, dims...)
}

func flat(t *tensors.Tensor) []float32 { return tensors.MustCopyFlatData[float32](t) }

// evaluate runs a graph function of one output.
func evaluate(t *testing.T, w nn.Weights, build func(p nn.Params, in []*Node) *Node, in ...any) *tensors.Tensor {
	t.Helper()
	program := nn.NewProgram(fixture.Backend(t), t.Name(), func(p nn.Params, in []*Node) []*Node { return []*Node{build(p, in)} })
	t.Cleanup(program.Close)
	out, err := program.Call1(w, in...)
	require.NoError(t, err)
	t.Cleanup(func() { nn.Free(out) })
	return out
}

func requireClose(t *testing.T, want, got []float32, tolerance float64) {
	t.Helper()
	require.Len(t, got, len(want))
	for i, w := range want {
		require.InDelta(t, w, got[i], tolerance, "value %d", i)
	}
}

func TestAttendAgainstLoops(t *testing.T) {
	const batch, heads, tokens, keys, width = 2, 3, 5, 7, 4
	r := rand.New(rand.NewPCG(1, 2))
	q, k, v := uniform(r, batch, heads, tokens, width), uniform(r, batch, heads, keys, width), uniform(r, batch, heads, keys, width)
	kept := make([]bool, batch*keys)
	for i := range kept {
		kept[i] = i%3 != 1
	}
	mask := tensors.FromFlatDataAndDimensions(kept, batch, keys)
	for name, masked := range map[string]bool{"all keys": false, "masked": true} {
		t.Run(name, func(t *testing.T) {
			got := evaluate(t, nil, func(_ nn.Params, in []*Node) *Node {
				if masked {
					return nn.Attend(in[0], in[1], in[2], in[3])
				}
				return nn.Attend(in[0], in[1], in[2], nil)
			}, q, k, v, mask)
			Q, K, V := flat(q), flat(k), flat(v)
			want := make([]float32, batch*tokens*heads*width)
			for b := range batch {
				for h := range heads {
					head := b*heads + h
					for i := range tokens {
						var sum float64
						var mean [width]float64
						for j := range keys {
							if masked && !kept[b*keys+j] {
								continue
							}
							var dot float64
							for c := range width {
								dot += float64(Q[(head*tokens+i)*width+c]) * float64(K[(head*keys+j)*width+c])
							}
							weight := math.Exp(dot / 2) // sqrt(width)
							sum += weight
							for c := range width {
								mean[c] += weight * float64(V[(head*keys+j)*width+c])
							}
						}
						for c := range width {
							want[((b*tokens+i)*heads+h)*width+c] = float32(mean[c] / sum)
						}
					}
				}
			}
			requireClose(t, want, flat(got), 1e-5)
		})
	}
}

// A long sequence is cut into chunks of queries, which must not be seen in the result.
func TestAttendInChunks(t *testing.T) {
	const tokens, keys, width = 4200, 4096, 2
	r := rand.New(rand.NewPCG(3, 4))
	q, k, v := uniform(r, 1, 1, tokens, width), uniform(r, 1, 1, keys, width), uniform(r, 1, 1, keys, width)
	chunked := evaluate(t, nil, func(_ nn.Params, in []*Node) *Node { return nn.Attend(in[0], in[1], in[2], nil) }, q, k, v)
	halves := evaluate(t, nil, func(_ nn.Params, in []*Node) *Node {
		var parts []*Node
		for start := 0; start < tokens; start += tokens / 2 {
			part := Slice(in[0], AxisRange(), AxisRange(), AxisRange(start, start+tokens/2))
			parts = append(parts, nn.Attend(part, in[1], in[2], nil))
		}
		return Concatenate(parts, 1)
	}, q, k, v)
	requireClose(t, flat(halves), flat(chunked), 1e-6)
}

func TestConv3DAgainstLoops(t *testing.T) {
	for name, c := range map[string]struct{ batch, x, y, z, in, out, kernel int }{
		"many outputs":  {2, 3, 4, 5, 3, 6, 3},
		"few outputs":   {2, 3, 4, 5, 30, 1, 3},
		"kernel of one": {1, 3, 2, 4, 5, 2, 1},
		"several slabs": {1, 7, 40, 40, 64, 3, 3},
		"whole tiles":   {2, 4, 6, 2, 40, 32, 3},
		"cut tiles":     {1, 5, 4, 1, 32, 33, 3},
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(5, 6))
			x := uniform(r, c.batch, c.x, c.y, c.z, c.in)
			w := nn.Weights{"weight": uniform(r, c.out, c.in, c.kernel, c.kernel, c.kernel), "bias": uniform(r, c.out)}
			got := evaluate(t, w, func(p nn.Params, in []*Node) *Node { return nn.Conv3D(p, in[0]) }, x)
			requireClose(t, conv3D(flat(x), flat(w["weight"]), flat(w["bias"]), c.batch, c.x, c.y, c.z, c.in, c.out, c.kernel), flat(got), 2e-4)
		})
	}
}

func conv3D(x, weight, bias []float32, batch, sx, sy, sz, in, out, k int) []float32 {
	want := make([]float32, batch*sx*sy*sz*out)
	kernel := k * k * k
	for cell := range batch * sx * sy * sz {
		z, y, px, b := cell%sz, cell/sz%sy, cell/sz/sy%sx, cell/sz/sy/sx
		for o := range out {
			sum := float64(bias[o])
			for tap := range kernel {
				nx, ny, nz := px+tap/(k*k)-k/2, y+tap/k%k-k/2, z+tap%k-k/2
				if nx < 0 || ny < 0 || nz < 0 || nx >= sx || ny >= sy || nz >= sz {
					continue
				}
				row := x[(((b*sx+nx)*sy+ny)*sz+nz)*in:]
				for i := range in {
					sum += float64(row[i]) * float64(weight[(o*in+i)*kernel+tap])
				}
			}
			want[cell*out+o] = float32(sum)
		}
	}
	return want
}

func TestConvTranspose2x2AgainstLoops(t *testing.T) {
	const batch, rows, cols, in, out = 2, 3, 2, 4, 3
	r := rand.New(rand.NewPCG(7, 8))
	x := uniform(r, batch, rows, cols, in)
	w := nn.Weights{"weight": uniform(r, in, out, 2, 2), "bias": uniform(r, out)}
	got := evaluate(t, w, func(p nn.Params, in []*Node) *Node { return nn.ConvTranspose2x2(p, in[0]) }, x)
	X, W, B := flat(x), flat(w["weight"]), flat(w["bias"])
	want := make([]float32, batch*2*rows*2*cols*out)
	for b := range batch {
		for y := range 2 * rows {
			for x := range 2 * cols {
				for o := range out {
					sum := B[o]
					for i := range in {
						sum += X[((b*rows+y/2)*cols+x/2)*in+i] * W[((i*out+o)*2+y%2)*2+x%2]
					}
					want[((b*2*rows+y)*2*cols+x)*out+o] = sum
				}
			}
		}
	}
	requireClose(t, want, flat(got), 1e-5)
}

// Norms leave mean 0 and variance 1 (or length sqrt(K)) where their parameters are 1 and 0.
func TestNorms(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	ones := func(n int) *tensors.Tensor {
		values := make([]float32, n)
		for i := range values {
			values[i] = 1
		}
		return tensors.FromFlatDataAndDimensions(values, n)
	}
	moments := func(values []float32) (mean, variance float64) {
		for _, v := range values {
			mean += float64(v) / float64(len(values))
		}
		for _, v := range values {
			variance += (float64(v) - mean) * (float64(v) - mean) / float64(len(values))
		}
		return mean, variance
	}
	x := uniform(r, 2, 6, 8)
	w := nn.Weights{"weight": ones(8), "bias": tensors.FromFlatDataAndDimensions(make([]float32, 8), 8)}

	layer := flat(evaluate(t, w, func(p nn.Params, in []*Node) *Node { return nn.LayerNorm(p, in[0], 1e-12) }, x))
	for row := range 12 {
		mean, variance := moments(layer[8*row : 8*row+8])
		require.InDelta(t, 0, mean, 1e-6)
		require.InDelta(t, 1, variance, 1e-4)
	}
	group := flat(evaluate(t, w, func(p nn.Params, in []*Node) *Node { return nn.GroupNorm(p, in[0], 2, 1e-12) }, x))
	for item := range 2 {
		for g := range 2 {
			var values []float32
			for position := range 6 {
				at := (item*6+position)*8 + 4*g
				values = append(values, group[at:at+4]...)
			}
			mean, variance := moments(values)
			require.InDelta(t, 0, mean, 1e-6)
			require.InDelta(t, 1, variance, 1e-4)
		}
	}
	gamma := nn.Weights{"gamma": tensors.FromFlatDataAndDimensions([]float32{1, 1, 1, 1, 1, 1, 1, 1}, 2, 4)}
	heads := flat(evaluate(t, gamma, func(p nn.Params, in []*Node) *Node { return nn.HeadRMSNorm(p, in[0]) }, uniform(r, 3, 2, 4)))
	for row := range 6 {
		var square float64
		for _, v := range heads[4*row : 4*row+4] {
			square += float64(v) * float64(v)
		}
		require.InDelta(t, 4, square, 1e-5)
	}
}

// Half-precision weights are widened in the graph, not rounded further.
func TestLinearWidensWeights(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	x, weight := uniform(r, 2, 3, 4), uniform(r, 5, 4)
	half := evaluate(t, nil, func(_ nn.Params, in []*Node) *Node { return ConvertDType(in[0], dtypes.BFloat16) }, weight)
	weight = evaluate(t, nil, func(_ nn.Params, in []*Node) *Node { return ConvertDType(in[0], dtypes.Float32) }, half)
	got := evaluate(t, nn.Weights{"weight": half}, func(p nn.Params, in []*Node) *Node { return nn.Linear(p, in[0]) }, x)
	X, W := flat(x), flat(weight)
	var want []float32
	for row := range 6 {
		for o := range 5 {
			var sum float32
			for i := range 4 {
				sum += X[4*row+i] * W[4*o+i]
			}
			want = append(want, sum)
		}
	}
	requireClose(t, want, flat(got), 1e-5)
}

// A program's faults are errors, whatever was thrown, and a closed program says so.
func TestProgramFaults(t *testing.T) {
	backend := fixture.Backend(t)
	for name, build := range map[string]nn.GraphFn{
		"missing parameter": func(p nn.Params, _ []*Node) []*Node { return []*Node{p.Get("nothing")} },
		"text":              func(nn.Params, []*Node) []*Node { panic("text") },
		"wrong shapes":      func(_ nn.Params, in []*Node) []*Node { return []*Node{nn.MatMulT(in[0], in[0])} },
	} {
		program := nn.NewProgram(backend, name, build)
		_, err := program.Call(nil, tensors.FromFlatDataAndDimensions(make([]float32, 6), 1, 2, 3))
		require.ErrorContains(t, err, name)
		program.Close()
		_, err = program.Call(nil)
		require.ErrorIs(t, err, nn.ErrClosed)
	}
}

func TestTimestepFrequencies(t *testing.T) {
	got := nn.TimestepFrequencies(0, 8)
	require.Equal(t, []float32{1, 1, 1, 1, 0, 0, 0, 0}, got, "cosines first")
}

func TestGridEmbedding(t *testing.T) {
	coords := tensors.FromFlatDataAndDimensions([]int32{0, 1, 2}, 1, 3)
	got := flat(evaluate(t, nil, func(_ nn.Params, in []*Node) *Node { return nn.GridEmbedding(in[0], 4, 14) }, coords))
	var want []float32
	for axis := range 3 { // two frequencies an axis: 1 and 1/100
		for _, f := range []func(float64) float64{math.Sin, math.Cos} {
			want = append(want, float32(f(float64(axis))), float32(f(float64(axis)/100)))
		}
	}
	requireClose(t, append(want, 0, 0), got, 1e-6)
}

func TestResizeBilinear(t *testing.T) {
	x := tensors.FromFlatDataAndDimensions([]float32{0, 1, 2, 3}, 1, 2, 2, 1)
	got := flat(evaluate(t, nil, func(_ nn.Params, in []*Node) *Node { return nn.ResizeBilinear(in[0], 2, 4) }, x))
	requireClose(t, []float32{0, 0.25, 0.75, 1, 2, 2.25, 2.75, 3}, got, 1e-6)
}
