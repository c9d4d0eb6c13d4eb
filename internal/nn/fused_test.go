// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package nn

import (
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
)

// fusing is a backend that claims an attention kernel, which counts its calls and returns the values.
type fusing struct {
	compute.Backend
	refuses bool
	calls   []dtypes.DType // of the operands
}

func (b *fusing) Capabilities() compute.Capabilities {
	c := b.Backend.Capabilities().Clone()
	c.Operations[compute.OpTypeFusedScaledDotProductAttention] = true
	return c
}

func (b *fusing) Builder(name string) compute.Builder {
	return fusingBuilder{b.Backend.Builder(name), b}
}

type fusingBuilder struct {
	compute.Builder
	backend *fusing
}

func (b fusingBuilder) Main() compute.Function { return fusingFunction{b.Builder.Main(), b} }

type fusingFunction struct {
	compute.Function
	builder fusingBuilder
}

func (f fusingFunction) FusedScaledDotProductAttention(q, k, v compute.Value, layout compute.AttentionAxesLayout,
	_ *compute.ScaledDotProductAttentionConfig) (compute.Value, []compute.Value, error) {
	if f.builder.backend.refuses || layout != compute.AttentionAxesLayoutBHSD {
		return nil, nil, compute.ErrNotImplemented
	}
	shape, err := f.builder.OpShape(q)
	f.builder.backend.calls = append(f.builder.backend.calls, shape.DType)
	return v, nil, err
}

// TestFusedAttentionChoice calls Attend on a backend with a kernel, with and without leave to round.
func TestFusedAttentionChoice(t *testing.T) {
	for name, test := range map[string]struct {
		half               bool
		dtype              dtypes.DType
		queries, keys, dim int
		bias, refuses      bool
		want               []dtypes.DType
	}{
		"half precision":    {dtype: dtypes.BFloat16, queries: 3, keys: 3, dim: 8, want: []dtypes.DType{dtypes.BFloat16}},
		"float16":           {dtype: dtypes.Float16, queries: 3, keys: 3, dim: 64, want: []dtypes.DType{dtypes.Float16}},
		"by leave":          {half: true, dtype: dtypes.Float32, queries: 3, keys: 3, dim: 8, want: []dtypes.DType{dtypes.BFloat16}},
		"float32":           {dtype: dtypes.Float32, queries: 3, keys: 3, dim: 8},
		"other keys":        {half: true, dtype: dtypes.Float32, queries: 3, keys: 4, dim: 8},
		"odd width":         {half: true, dtype: dtypes.Float32, queries: 3, keys: 3, dim: 9},
		"wide":              {half: true, dtype: dtypes.Float32, queries: 3, keys: 3, dim: 136},
		"bias":              {half: true, dtype: dtypes.Float32, queries: 3, keys: 3, dim: 8, bias: true},
		"refused by kernel": {half: true, dtype: dtypes.Float32, queries: 3, keys: 3, dim: 8, refuses: true},
	} {
		t.Run(name, func(t *testing.T) {
			fake := &fusing{Backend: fixture.Backend(t), refuses: test.refuses}
			var backend compute.Backend = fake
			if test.half {
				backend = HalfAttention(fake)
			}
			const heads = 2
			build := func(_ Params, in []*Node) []*Node {
				q, k, v := ConvertDType(in[0], test.dtype), ConvertDType(in[1], test.dtype), ConvertDType(in[2], test.dtype)
				var bias *Node
				if test.bias {
					bias = ScalarZero(q.Graph(), dtypes.Float32)
					bias = BroadcastToDims(bias, 1, 1, 1, test.keys)
				}
				return []*Node{ConvertDType(AttendBias(q, k, v, bias), dtypes.Float32)}
			}
			run := func(backend compute.Backend) []float32 {
				program := NewProgram(backend, "test", build)
				defer program.Close()
				ramp := func(tokens int) *tensors.Tensor {
					flat := make([]float32, heads*tokens*test.dim)
					for i := range flat {
						flat[i] = float32(i%7) / 4
					}
					return tensors.FromFlatDataAndDimensions(flat, 1, heads, tokens, test.dim)
				}
				out, err := program.Call1(nil, ramp(test.queries), ramp(test.keys), ramp(test.keys))
				require.NoError(t, err)
				require.Equal(t, []int{1, test.queries, heads * test.dim}, out.Shape().Dimensions)
				return tensors.MustCopyFlatData[float32](out)
			}
			got := run(backend)
			assert.Equal(t, test.want, fake.calls)
			if test.want == nil {
				assert.Equal(t, run(fixture.Backend(t)), got)
				return
			}
			for i, x := range got { // token, head, channel
				token, head, channel := i/(heads*test.dim), i/test.dim%heads, i%test.dim
				require.Equal(t, float32(((head*test.keys+token)*test.dim+channel)%7)/4, x)
			}
		})
	}
}

func TestHalfAttentionNeedsAKernel(t *testing.T) {
	backend := fixture.Backend(t)
	assert.Equal(t, backend, HalfAttention(backend))
}

// TestLimitScores attends with a bound on the scores: no array of the graph is larger, and nothing else changes.
func TestLimitScores(t *testing.T) {
	const heads, queries, keys, width = 2, 1200, 4096, 4
	ramp := func(tokens int) *tensors.Tensor {
		flat := make([]float32, heads*tokens*width)
		for i := range flat {
			flat[i] = float32(i%23)/8 - 1
		}
		return tensors.FromFlatDataAndDimensions(flat, 1, heads, tokens, width)
	}
	run := func(backend compute.Backend) (out []float32, largest uintptr) {
		program := NewProgram(backend, "test", func(_ Params, in []*Node) []*Node {
			out := Attend(in[0], in[1], in[2], nil)
			for _, node := range in[0].Graph().Nodes() {
				if node.NumOutputs() == 1 {
					largest = max(largest, uintptr(node.Shape().Size()*node.DType().Size()))
				}
			}
			return []*Node{out}
		})
		defer program.Close()
		y, err := program.Call1(nil, ramp(queries), ramp(keys), ramp(keys))
		require.NoError(t, err)
		defer Free(y)
		return tensors.MustCopyFlatData[float32](y), largest
	}
	want, whole := run(fixture.Backend(t))
	require.Greater(t, whole, uintptr(MinScoreBytes))
	got, bounded := run(LimitScores(HalfAttention(fixture.Backend(t)), 1))
	require.LessOrEqual(t, bounded, uintptr(MinScoreBytes))
	require.InDeltaSlice(t, want, got, 1e-5)
}
