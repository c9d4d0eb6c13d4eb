// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package dinov2

import (
	"context"
	"encoding/binary"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/weights"
)

// small is a network that runs in milliseconds.
func small() Config {
	return Config{
		EmbedDim: 8, Depth: 3, NumHeads: 2, MLPRatio: 4, PatchSize: 2, Grid: 3, Registers: 2,
		InterpolateAntialias: true, NormEpsilon: 1e-6,
	}
}

// randomSet returns weights for a configuration, the same for the same seed.
func randomSet(cfg Config, dtype dtypes.DType, seed uint64) *weights.Set {
	random := rand.New(rand.NewPCG(seed, 1))
	spec := Spec(cfg)
	all := make(map[string]weights.Tensor)
	for _, name := range slices.Sorted(maps.Keys(spec)) {
		shape := spec[name].Shape
		var data []byte
		for range shapes.Make(dtype, shape...).Size() {
			bits := math.Float32bits(random.Float32() - 0.5)
			if dtype == dtypes.BFloat16 {
				data = binary.LittleEndian.AppendUint16(data, uint16(bits>>16))
			} else {
				data = binary.LittleEndian.AppendUint32(data, bits&0xffff0000) // what bfloat16 can hold too
			}
		}
		all[name] = weights.Tensor{DType: dtype, Shape: shape, Data: data}
	}
	return weights.NewSet(all)
}

func randomImage(batch, rows, cols int) *tensors.Tensor {
	random := rand.New(rand.NewPCG(7, 7))
	flat := make([]float32, batch*3*rows*cols)
	for i := range flat {
		flat[i] = random.Float32()*2 - 1
	}
	return tensors.FromFlatDataAndDimensions(flat, batch, 3, rows, cols)
}

func flat(t *tensors.Tensor) []float32 { return tensors.MustCopyFlatData[float32](t) }

func TestIntermediate(t *testing.T) {
	cfg := small()
	encoder := newTestEncoder(t, cfg, randomSet(cfg, dtypes.Float32, 1))
	image := randomImage(2, 8, 4)
	all, err := encoder.Intermediate(t.Context(), image, 0, 1, 2)
	require.NoError(t, err)
	require.Len(t, all, 3)
	for i, x := range all {
		require.Equal(t, []int{2, 1 + 2 + 4*2, 8}, x.Shape().Dimensions)
		one, err := encoder.Intermediate(t.Context(), image, i)
		require.NoError(t, err)
		require.Equal(t, flat(x), flat(one[0]))
	}
	last, err := encoder.Encode(t.Context(), image)
	require.NoError(t, err)
	normed, err := encoder.programs.norm.Call1(encoder.norm, last)
	require.NoError(t, err)
	require.Equal(t, flat(all[2]), flat(normed))
}

// A batch gives what its images give one by one.
func TestBatch(t *testing.T) {
	cfg := small()
	encoder := newTestEncoder(t, cfg, randomSet(cfg, dtypes.Float32, 1))
	both := randomImage(2, 4, 6)
	together, err := encoder.Encode(t.Context(), both)
	require.NoError(t, err)
	pixels := flat(both)
	var apart []float32
	for i := range 2 {
		one := tensors.FromFlatDataAndDimensions(pixels[i*3*4*6:(i+1)*3*4*6], 1, 3, 4, 6)
		out, err := encoder.Encode(t.Context(), one)
		require.NoError(t, err)
		apart = append(apart, flat(out)...)
	}
	require.InDeltaSlice(t, apart, flat(together), 1e-5)
}

// Weights are used in the precision they come in: values that both precisions hold give the same tokens.
func TestHalfPrecisionWeights(t *testing.T) {
	cfg := small()
	image := randomImage(1, 6, 6)
	var got [][]float32
	for _, dtype := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16} {
		encoder := newTestEncoder(t, cfg, randomSet(cfg, dtype, 1))
		out, err := encoder.Encode(t.Context(), image)
		require.NoError(t, err)
		require.Equal(t, dtypes.Float32, out.DType())
		got = append(got, flat(out))
	}
	require.InDeltaSlice(t, got[0], got[1], 1e-6)
}

func TestWithWeights(t *testing.T) {
	cfg := small()
	image := randomImage(1, 6, 6)
	first, err := New(fixture.Backend(t), cfg, randomSet(cfg, dtypes.Float32, 1))
	require.NoError(t, err)
	second, err := first.WithWeights(randomSet(cfg, dtypes.Float32, 2))
	require.NoError(t, err)
	a, err := first.Encode(t.Context(), image)
	require.NoError(t, err)
	compiled := nn.Compilations()
	first.Close()
	first.Close()
	b, err := second.Encode(t.Context(), image)
	require.NoError(t, err, "closing one encoder must not close the other")
	require.Equal(t, compiled, nn.Compilations())
	require.NotEqual(t, flat(a), flat(b))
	second.Close()
	_, err = second.Encode(t.Context(), image)
	require.ErrorIs(t, err, nn.ErrClosed)
	_, err = first.WithWeights(weights.NewSet(nil))
	require.ErrorIs(t, err, weights.ErrMismatch)
}

func TestNewRefuses(t *testing.T) {
	cfg := small()
	set := randomSet(cfg, dtypes.Float32, 1)
	backend := fixture.Backend(t)
	_, err := New(backend, Config{}, set)
	require.ErrorIs(t, err, ErrConfig)
	wider := cfg
	wider.Grid = 4
	_, err = New(backend, wider, set)
	var mismatch *weights.MismatchError
	require.ErrorAs(t, err, &mismatch)
	require.Len(t, mismatch.Shape, 1)
	plain := cfg
	plain.Registers = 0
	_, err = New(backend, plain, set)
	require.ErrorAs(t, err, &mismatch)
	require.Equal(t, []string{"register_tokens"}, mismatch.Unexpected)
}

func TestEncodeRefuses(t *testing.T) {
	cfg := small()
	encoder := newTestEncoder(t, cfg, randomSet(cfg, dtypes.Float32, 1))
	good := randomImage(1, 4, 4)
	dead := randomImage(1, 4, 4)
	nn.Free(dead)
	for name, image := range map[string]*tensors.Tensor{
		"nil": nil, "freed": dead, "odd": randomImage(1, 4, 5), "empty": randomImage(1, 0, 4), "no batch": randomImage(0, 4, 4),
		"float64":      tensors.FromFlatDataAndDimensions(make([]float64, 48), 1, 3, 4, 4),
		"rank":         tensors.FromFlatDataAndDimensions(make([]float32, 48), 3, 4, 4),
		"one channel":  tensors.FromFlatDataAndDimensions(make([]float32, 16), 1, 1, 4, 4),
		"many patches": randomImage(1, 2, 2*(maxTokens+1)),
	} {
		_, err := encoder.Encode(t.Context(), image)
		require.ErrorIs(t, err, ErrInput, name)
	}
	for _, layers := range [][]int{nil, {-1}, {3}, {1, 1}, {2, 0}} {
		_, err := encoder.Intermediate(t.Context(), good, layers...)
		require.ErrorIs(t, err, ErrInput, "%v", layers)
	}
}

// countdown is a context that is cancelled after a number of looks at it.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestCancel(t *testing.T) {
	cfg := small()
	encoder := newTestEncoder(t, cfg, randomSet(cfg, dtypes.Float32, 1))
	image := randomImage(1, 4, 4)
	for looks := range 1 + cfg.Depth {
		out, err := encoder.Intermediate(&countdown{t.Context(), looks}, image, 0, 2)
		require.ErrorIs(t, err, context.Canceled, "after %d", looks)
		require.Nil(t, out)
	}
	_, err := encoder.Intermediate(&countdown{t.Context(), 1 + cfg.Depth}, image, 0, 2)
	require.NoError(t, err)
}

func TestConcurrent(t *testing.T) {
	cfg := small()
	encoder := newTestEncoder(t, cfg, randomSet(cfg, dtypes.Float32, 1))
	image := randomImage(1, 4, 4)
	want, err := encoder.Encode(t.Context(), image)
	require.NoError(t, err)
	var group sync.WaitGroup
	got, failures := make([]*tensors.Tensor, 8), make([]error, 8)
	for i := range got {
		group.Go(func() { got[i], failures[i] = encoder.Encode(t.Context(), image) })
	}
	group.Wait()
	for i := range got {
		require.NoError(t, failures[i])
		require.Equal(t, flat(want), flat(got[i]))
	}
}

// BenchmarkEncode runs the released network, of random weights, on an image of its own size.
func BenchmarkEncode(b *testing.B) {
	if testing.Short() {
		b.Skip("full size")
	}
	cfg := ViTL14Reg()
	encoder := newTestEncoder(b, cfg, weights.NewSet(fixture.RandomWeights(Spec(cfg))))
	image := randomImage(1, 518, 518)
	fixture.Benchmark(b, func() error {
		out, err := encoder.Encode(b.Context(), image)
		nn.Free(out)
		return err
	})
}
