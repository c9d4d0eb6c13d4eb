// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flow

import (
	"fmt"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/weights"
)

// denseLayers are the products of a block of the structure flow with rows for all tokens of the shape: names, widths in
// and out.
var denseLayers = []struct {
	name    string
	in, out int
}{
	{"to_qkv", 1024, 3072}, {"to_out", 1024, 1024}, {"cross.to_q", 1024, 1024}, {"cross.to_out", 1024, 1024},
	{"mlp.0", 1024, 4096}, {"mlp.2", 4096, 1024},
}

const denseRows = 4096

// benchmarkDense runs a program and reports the rate of that many multiplications and additions.
func benchmarkDense(b *testing.B, flop float64, w nn.Weights, program nn.GraphFn, inputs ...any) {
	p := nn.NewProgram(fixture.Backend(b), b.Name(), program)
	defer p.Close()
	fixture.Benchmark(b, func() error {
		out, err := p.Call(w, inputs...)
		nn.Free(out...)
		return err
	})
	b.ReportMetric(flop*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}

// BenchmarkDenseLayers runs the dense layers of a block after each other, with their biases and the activation, as the
// block does.
func BenchmarkDenseLayers(b *testing.B) {
	if testing.Short() {
		b.Skip("full size")
	}
	flop, spec := 0.0, make(weights.Spec)
	for _, l := range denseLayers {
		flop += 2 * denseRows * float64(l.in) * float64(l.out)
		spec[l.name+".weight"] = weights.Param{Shape: []int{l.out, l.in}}
		spec[l.name+".bias"] = weights.Param{Shape: []int{l.out}}
	}
	w, err := weights.NewSet(fixture.RandomWeights(spec)).Upload(fixture.Backend(b))
	require.NoError(b, err)
	defer nn.Weights(w).Free()
	benchmarkDense(b, flop, w, func(p nn.Params, in []*Node) []*Node {
		qkv := Split(nn.Linear(p.In("to_qkv"), in[0]), 1, 3)
		x := nn.Linear(p.In("to_out"), Add(qkv[0], Add(qkv[1], qkv[2])))
		x = nn.Linear(p.In("cross.to_out"), nn.Linear(p.In("cross.to_q"), x))
		return []*Node{nn.FeedForward(p.In("mlp"), "0", "2", nn.GELUTanh, x)}
	}, activations(1024))
}

// BenchmarkMatMul runs the bare products of those layers, one a program, with the matrix as files keep it [out, in] and
// turned: the faster of the two is the most that the backend reaches at this shape.
func BenchmarkMatMul(b *testing.B) {
	if testing.Short() {
		b.Skip("full size")
	}
	for _, l := range denseLayers {
		flop := 2 * denseRows * float64(l.in) * float64(l.out)
		matrices := map[string]*tensors.Tensor{"kept": randomMatrix(l.out, l.in), "turned": randomMatrix(l.in, l.out)}
		for _, layout := range []string{"kept", "turned"} {
			axis := 1
			if layout == "turned" {
				axis = 0
			}
			b.Run(fmt.Sprintf("%s/%s", l.name, layout), func(b *testing.B) {
				benchmarkDense(b, flop, nil, func(_ nn.Params, in []*Node) []*Node {
					return []*Node{Dot(in[0], in[1]).General([]int{1}, nil, []int{axis}, nil)}
				}, activations(l.in), matrices[layout])
			})
		}
	}
}

func activations(width int) *tensors.Tensor { return randomMatrix(denseRows, width) }

func randomMatrix(rows, cols int) *tensors.Tensor {
	values := make([]float32, rows*cols)
	NewNoise(3, StructureStage).Fill(values)
	return tensors.FromFlatDataAndDimensions(values, rows, cols)
}
