// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flow

import (
	"context"
	"encoding/binary"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/sparse"
	"github.com/gomlx3d/image3d/weights"
)

func smallLatent() LatentConfig {
	return LatentConfig{
		Resolution: 16, Channels: 2, Width: 12, Heads: 2, Blocks: 2, MLPRatio: 2, CondWidth: 6,
		IOWidth: 4, IOBlocks: 3, HeadNorm: true, ZeroCondition: true,
	}
}

// randomLatentSet makes weights for a configuration.
func randomLatentSet(cfg LatentConfig) *weights.Set { return scaledSet(LatentSpec(cfg)) }

// scaledSet makes weights for a specification, of such sizes that activations keep theirs.
func scaledSet(spec weights.Spec) *weights.Set {
	r := rand.New(rand.NewPCG(1, 2))
	set := make(map[string]weights.Tensor)
	for _, name := range slices.Sorted(maps.Keys(spec)) {
		shape := spec[name].Shape
		size := 1
		for _, d := range shape {
			size *= d
		}
		scale := 1 / math.Sqrt(float64(size/shape[0]))
		var data []byte
		for range size {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(scale*r.NormFloat64())))
		}
		set[name] = weights.Tensor{DType: dtypes.Float32, Shape: shape, Data: data}
	}
	return weights.NewSet(set)
}

func newSmallLatent(t *testing.T, cfg LatentConfig) *Latent {
	t.Helper()
	l, err := NewLatent(fixture.Backend(t), cfg, randomLatentSet(cfg))
	require.NoError(t, err)
	t.Cleanup(l.Close)
	return l
}

func tokens(batch, count, width int) *tensors.Tensor {
	values := make([]float32, batch*count*width)
	NewNoise(5, LatentStage).Fill(values)
	return tensors.FromFlatDataAndDimensions(values, batch, count, width)
}

// ball is a batch of balls of voxels around the middle of a grid of 16.
func ball(t *testing.T, radii ...float64) *sparse.Coords {
	t.Helper()
	var list []sparse.Voxel
	for b, radius := range radii {
		for cell := range int32(16 * 16 * 16) {
			x, y, z := cell>>8, cell>>4&15, cell&15
			if math.Sqrt(math.Pow(float64(x)-7, 2)+math.Pow(float64(y)-7, 2)+math.Pow(float64(z)-7, 2)) < radius {
				list = append(list, sparse.Voxel{int32(b), x, y, z})
			}
		}
	}
	c, err := sparse.New(list, 16)
	require.NoError(t, err)
	return c
}

var unit = LatentScale{Mean: []float32{0, 0}, Std: []float32{1, 1}}

func sample(t *testing.T, l *Latent, coords *sparse.Coords, c *Context, noise []float32) []float32 {
	t.Helper()
	opt := ReleasedLatentSampling()
	opt.Steps = 3
	out, err := l.Sample(t.Context(), coords, c, noise, unit, opt)
	require.NoError(t, err)
	assert.Equal(t, out.Normalized, out.Scaled)
	return out.Normalized
}

func latentContext(t *testing.T, l *Latent, tokens *tensors.Tensor) *Context {
	t.Helper()
	c, err := l.Condition(t.Context(), tokens)
	require.NoError(t, err)
	t.Cleanup(c.Free)
	return c
}

func TestLatentIsEquivariant(t *testing.T) {
	l := newSmallLatent(t, smallLatent())
	c := latentContext(t, l, tokens(1, 5, 6))
	coords := ball(t, 3.3)
	n := coords.Layout.Count
	noise := l.Config().Noise(3, n)
	want := sample(t, l, coords, c, noise)
	var list []sparse.Voxel
	var mixedNoise, mixedWant []float32
	for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(n) {
		list = append(list, coords.Voxels[i])
		mixedNoise = append(mixedNoise, noise[2*i:2*i+2]...)
		mixedWant = append(mixedWant, want[2*i:2*i+2]...)
	}
	mixed, err := sparse.New(list, 16)
	require.NoError(t, err)
	assert.InDeltaSlice(t, mixedWant, sample(t, l, mixed, c, mixedNoise), 1e-4)
}

func TestLatentBatchItemsAreApart(t *testing.T) {
	l := newSmallLatent(t, smallLatent())
	both := tokens(2, 5, 6)
	flat := tensors.MustCopyFlatData[float32](both)
	coords := ball(t, 2.5, 3.3)
	noise := l.Config().Noise(3, coords.Layout.Count)
	got := sample(t, l, coords, latentContext(t, l, both), noise)
	for item, radius := range []float64{2.5, 3.3} {
		alone := ball(t, radius)
		c := latentContext(t, l, tensors.FromFlatDataAndDimensions(slices.Clone(flat[30*item:30*item+30]), 1, 5, 6))
		start, end := 2*coords.Starts[item], 2*coords.Starts[item+1]
		assert.InDeltaSlice(t, sample(t, l, alone, c, noise[start:end]), got[start:end], 1e-4)
	}
}

// TestLatentWithoutConditionIsZeroTokens compares the constant with the attention that it stands for.
func TestLatentWithoutConditionIsZeroTokens(t *testing.T) {
	l := newSmallLatent(t, smallLatent())
	v, err := l.Voxels(ball(t, 3))
	require.NoError(t, err)
	defer v.Free()
	x, err := v.Layout.UploadFeatures(fixture.Backend(t), l.Config().Noise(1, v.Layout.Count), 2)
	require.NoError(t, err)
	defer nn.Free(x)
	zeros := latentContext(t, l, tensors.FromFlatDataAndDimensions(make([]float32, 4*6), 1, 4, 6))
	a, err := l.Velocity(t.Context(), x, []float32{250}, nil, v, zeros)
	require.NoError(t, err)
	b, err := l.Velocity(t.Context(), x, []float32{250}, nil, v, nil)
	require.NoError(t, err)
	assert.InDeltaSlice(t, values(t, a), values(t, b), 1e-4)
	nn.Free(a, b)
}

func TestLatentOneBlockEachSide(t *testing.T) {
	cfg := smallLatent()
	cfg.IOBlocks, cfg.HeadNorm = 1, false
	l := newSmallLatent(t, cfg)
	coords := ball(t, 2)
	out := sample(t, l, coords, latentContext(t, l, tokens(1, 3, 6)), cfg.Noise(1, coords.Layout.Count))
	assert.Len(t, out, 2*coords.Layout.Count)
}

func TestLatentSameBucketsCompileOnce(t *testing.T) {
	l := newSmallLatent(t, smallLatent())
	c := latentContext(t, l, tokens(1, 5, 6))
	whole := ball(t, 4.2)
	sample(t, l, whole, c, l.Config().Noise(1, whole.Layout.Count))
	before := nn.Compilations()
	less, err := sparse.New(whole.Voxels[1:], 16)
	require.NoError(t, err)
	require.Equal(t, whole.Layout.Rows, less.Layout.Rows)
	sample(t, l, less, c, l.Config().Noise(1, less.Layout.Count))
	assert.Equal(t, before, nn.Compilations())
}

func TestLatentConfigRejects(t *testing.T) {
	for name, change := range map[string]func(*LatentConfig){
		"channels":       func(c *LatentConfig) { c.Channels = 0 },
		"width":          func(c *LatentConfig) { c.Width = -4 },
		"heads":          func(c *LatentConfig) { c.Heads = 5 },
		"blocks":         func(c *LatentConfig) { c.Blocks = 1 << 30 },
		"ratio":          func(c *LatentConfig) { c.MLPRatio = 0 },
		"ratio NaN":      func(c *LatentConfig) { c.MLPRatio = math.NaN() },
		"condition":      func(c *LatentConfig) { c.CondWidth = 0 },
		"outer width":    func(c *LatentConfig) { c.IOWidth = 0 },
		"outer blocks":   func(c *LatentConfig) { c.IOBlocks = 0 },
		"odd resolution": func(c *LatentConfig) { c.Resolution = 15 },
		"resolution":     func(c *LatentConfig) { c.Resolution = 4096 },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := smallLatent()
			change(&cfg)
			_, err := NewLatent(fixture.Backend(t), cfg, weights.NewSet(nil))
			assert.ErrorIs(t, err, ErrConfig)
		})
	}
	assert.NoError(t, ReleasedLatent().Validate())
	_, err := NewLatent(fixture.Backend(t), smallLatent(), weights.NewSet(nil))
	assert.ErrorIs(t, err, weights.ErrMismatch)
}

func TestLatentSampleRejects(t *testing.T) {
	l := newSmallLatent(t, smallLatent())
	c := latentContext(t, l, tokens(1, 5, 6))
	coords := ball(t, 2)
	noise := l.Config().Noise(1, coords.Layout.Count)
	large, err := sparse.New(coords.Voxels, 32)
	require.NoError(t, err)
	other := latentContext(t, newSmallLatent(t, smallLatent()), tokens(1, 5, 6))
	freed, err := l.Condition(t.Context(), tokens(1, 5, 6))
	require.NoError(t, err)
	freed.Free()
	good := ReleasedLatentSampling()
	good.Steps = 1
	stepped, pointMap := good, good
	stepped.Step = StepZero
	pointMap.Guidance.PointMap = true
	nan := float32(math.NaN())
	for name, test := range map[string]struct {
		coords *sparse.Coords
		c      *Context
		noise  []float32
		scale  LatentScale
		opt    Sampling
	}{
		"no voxels":        {nil, c, noise, unit, good},
		"another grid":     {large, c, noise, unit, good},
		"two objects":      {ball(t, 2, 2), c, append(slices.Clone(noise), noise...), unit, good},
		"short noise":      {coords, c, noise[1:], unit, good},
		"other model":      {coords, other, noise, unit, good},
		"freed context":    {coords, freed, noise, unit, good},
		"no scale":         {coords, c, noise, LatentScale{}, good},
		"NaN in the scale": {coords, c, noise, LatentScale{Mean: []float32{0, 0}, Std: []float32{1, nan}}, good},
		"no steps":         {coords, c, noise, unit, Sampling{}},
		"step input":       {coords, c, noise, unit, stepped},
		"point map":        {coords, c, noise, unit, pointMap},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := l.Sample(t.Context(), test.coords, test.c, test.noise, test.scale, test.opt)
			assert.ErrorIs(t, err, ErrInput)
		})
	}
}

func TestLatentConditionRejects(t *testing.T) {
	l := newSmallLatent(t, smallLatent())
	for name, bad := range map[string]*tensors.Tensor{
		"nil": nil, "width": tokens(1, 5, 7), "rank": tensors.FromFlatDataAndDimensions(make([]float32, 30), 5, 6),
		"dtype": tensors.FromFlatDataAndDimensions(make([]float64, 30), 1, 5, 6),
	} {
		_, err := l.Condition(t.Context(), bad)
		assert.ErrorIs(t, err, ErrInput, name)
	}
	infinite := tensors.FromFlatDataAndDimensions([]float32{0, 0, 0, float32(math.Inf(1)), 0, 0}, 1, 1, 6)
	_, err := l.Condition(t.Context(), infinite)
	assert.ErrorIs(t, err, ErrNonFinite)
}

func TestLatentStopsWhenCancelled(t *testing.T) {
	l := newSmallLatent(t, smallLatent())
	c := latentContext(t, l, tokens(1, 5, 6))
	coords := ball(t, 2)
	ctx, cancel := context.WithCancel(t.Context())
	opt := ReleasedLatentSampling()
	done := 0
	opt.Progress = func(step, _ int) { done = step; cancel() }
	_, err := l.Sample(ctx, coords, c, l.Config().Noise(1, coords.Layout.Count), unit, opt)
	assert.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 1, done)
	_, err = l.Condition(ctx, tokens(1, 5, 6))
	assert.ErrorIs(t, err, context.Canceled)
}

func TestLatentConcurrentCalls(t *testing.T) {
	l := newSmallLatent(t, smallLatent())
	c := latentContext(t, l, tokens(1, 5, 6))
	coords := ball(t, 3)
	noise := l.Config().Noise(1, coords.Layout.Count)
	want := sample(t, l, coords, c, noise)
	results := make(chan []float32)
	for range 4 {
		go func() {
			opt := ReleasedLatentSampling()
			opt.Steps = 3
			out, err := l.Sample(context.Background(), coords, c, noise, unit, opt)
			if err != nil {
				results <- nil
				return
			}
			results <- out.Normalized
		}()
	}
	for range 4 {
		assert.InDeltaSlice(t, want, <-results, 1e-5)
	}
}
