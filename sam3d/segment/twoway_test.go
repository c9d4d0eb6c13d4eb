// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

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

func randomFloats(n int) []float32 {
	random, out := rand.New(rand.NewPCG(3, uint64(n))), make([]float32, n)
	for i := range out {
		out[i] = 2*random.Float32() - 1
	}
	return out
}

// TestMaskEmbedding compares the embedding of a mask with the plain sums over the pixels of each cell.
func TestMaskEmbedding(t *testing.T) {
	cfg := small()
	set := randomSet(cfg, 5).Sub(promptEncoder + ".mask_downscaling.")
	params, err := set.Upload(fixture.Backend(t))
	require.NoError(t, err)
	w := nn.Weights(params)
	defer w.Free()
	side := 4 * cfg.grid()
	mask := randomFloats(side * side)
	program := nn.NewProgram(fixture.Backend(t), "mask", func(p nn.Params, in []*Node) []*Node {
		return []*Node{cfg.maskEmbedding(p, in[0])}
	})
	defer program.Close()
	out, err := program.Call1(w, tensors.FromFlatDataAndDimensions(mask, 1, side, side, 1))
	require.NoError(t, err)
	defer nn.Free(out)
	require.Equal(t, []int{1, cfg.grid() * cfg.grid(), cfg.ModelDim}, out.Shape().Dimensions)

	flat := func(name string) []float32 { return tensors.MustCopyFlatData[float32](w[name]) }
	x := plainHalve(mask, side, 1, flat("0.weight"), flat("0.bias"))
	plainNormGELU(x, flat("1.weight"), flat("1.bias"))
	x = plainHalve(x, side/2, cfg.MaskChannels/4, flat("3.weight"), flat("3.bias"))
	plainNormGELU(x, flat("4.weight"), flat("4.bias"))
	var want []float32
	weight, bias := flat("6.weight"), flat("6.bias")
	for cell := range cfg.grid() * cfg.grid() {
		for o := range bias {
			sum := bias[o]
			for c := range cfg.MaskChannels {
				sum += weight[o*cfg.MaskChannels+c] * x[cell*cfg.MaskChannels+c]
			}
			want = append(want, sum)
		}
	}
	require.InDeltaSlice(t, want, tensors.MustCopyFlatData[float32](out), 1e-5)
}

// plainHalve is a convolution of kernel 2 and stride 2 of a square [side, side, in].
func plainHalve(x []float32, side, in int, weight, bias []float32) []float32 {
	var out []float32
	for row := range side / 2 {
		for col := range side / 2 {
			for o := range bias {
				sum := bias[o]
				for c := range in {
					for k := range 4 {
						sum += weight[(o*in+c)*4+k] * x[((2*row+k/2)*side+2*col+k%2)*in+c]
					}
				}
				out = append(out, sum)
			}
		}
	}
	return out
}

// plainNormGELU normalises the channels of each pixel in place and activates them.
func plainNormGELU(x, weight, bias []float32) {
	n := len(weight)
	for at := 0; at < len(x); at += n {
		mean, variance := 0.0, 0.0
		for _, v := range x[at : at+n] {
			mean += float64(v) / float64(n)
		}
		for _, v := range x[at : at+n] {
			variance += (float64(v) - mean) * (float64(v) - mean) / float64(n)
		}
		for i, v := range x[at : at+n] {
			y := (float64(v)-mean)/math.Sqrt(variance+mapEpsilon)*float64(weight[i]) + float64(bias[i])
			x[at+i] = float32(y * 0.5 * (1 + math.Erf(y/math.Sqrt2)))
		}
	}
}

// TestPlaceEmbedding checks order and scale of the embedding of a place.
func TestPlaceEmbedding(t *testing.T) {
	frequencies, place := randomFloats(2*3), []float32{0.25, 0.875}
	program := nn.NewProgram(fixture.Backend(t), "place", func(p nn.Params, in []*Node) []*Node {
		return []*Node{placeEmbedding(in[0], in[1])}
	})
	defer program.Close()
	out, err := program.Call1(nil, tensors.FromFlatDataAndDimensions(frequencies, 2, 3), tensors.FromFlatDataAndDimensions(place, 1, 1, 2))
	require.NoError(t, err)
	defer nn.Free(out)
	var sines, cosines []float64
	for k := range 3 {
		angle := 2 * math.Pi * ((2*0.25-1)*float64(frequencies[k]) + (2*0.875-1)*float64(frequencies[3+k]))
		sines, cosines = append(sines, math.Sin(angle)), append(cosines, math.Cos(angle))
	}
	for i, want := range append(sines, cosines...) {
		require.InDelta(t, want, tensors.MustCopyFlatData[float32](out)[i], 1e-5)
	}
}
