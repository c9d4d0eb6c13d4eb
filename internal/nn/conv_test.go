// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package nn_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/nn"
)

// TestConv2D compares both kinds with the plain sum, on sizes down to a single pixel and kernels wider than the map.
func TestConv2D(t *testing.T) {
	for _, size := range [][5]int{{5, 7, 3, 4, 3}, {1, 1, 2, 3, 3}, {2, 6, 3, 1, 5}, {4, 3, 2, 5, 1}} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			rows, cols, in, out, k := size[0], size[1], size[2], size[3], size[4]
			x, w, b := random(rows*cols*in), random(out*in*k*k), random(out)
			for name, test := range map[string]struct {
				conv func(p nn.Params, x *Node) *Node
				zero bool
			}{"replicated": {nn.Conv2D, false}, "zero": {nn.Conv2DZero, true}} {
				program := nn.NewProgram(fixture.Backend(t), "conv", func(p nn.Params, in []*Node) []*Node {
					return []*Node{test.conv(p, in[0])}
				})
				defer program.Close()
				got, err := program.Call1(nn.Weights{
					"weight": tensors.FromFlatDataAndDimensions(w, out, in, k, k), "bias": tensors.FromFlatDataAndDimensions(b, out),
				}, tensors.FromFlatDataAndDimensions(x, 1, rows, cols, in))
				require.NoError(t, err)
				defer nn.Free(got)
				require.Equal(t, []int{1, rows, cols, out}, got.Shape().Dimensions)
				require.InDeltaSlice(t, plainConv2D(x, w, b, size, test.zero), tensors.MustCopyFlatData[float32](got), 1e-5, name)
			}
		})
	}
}

// plainConv2D sums over the taps; beyond the borders there are zeros, or copies of the border.
func plainConv2D(x, w, b []float32, size [5]int, zero bool) []float32 {
	rows, cols, in, out, k := size[0], size[1], size[2], size[3], size[4]
	var y []float32
	for i := range rows {
		for j := range cols {
			for o := range out {
				sum := b[o]
				for tap := range k * k {
					r, s := i+tap/k-k/2, j+tap%k-k/2
					if zero && (r < 0 || r >= rows || s < 0 || s >= cols) {
						continue
					}
					r, s = min(max(r, 0), rows-1), min(max(s, 0), cols-1)
					for c := range in {
						sum += x[(r*cols+s)*in+c] * w[(o*in+c)*k*k+tap]
					}
				}
				y = append(y, sum)
			}
		}
	}
	return y
}

func random(n int) []float32 {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	out := make([]float32, n)
	for i := range out {
		out[i] = 2*r.Float32() - 1
	}
	return out
}
