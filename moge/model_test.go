// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/weights"
)

func TestInferRefuses(t *testing.T) {
	m := newModel(t, small())
	image := testImage(40, 60)
	bad := testImage(40, 60)
	bad.Pixels[7] = float32(math.NaN())
	low := -20
	for name, c := range map[string]struct {
		image   Image
		options Options
	}{
		"pixel":         {bad, Options{}},
		"no tokens":     {image, Options{NumTokens: -1}},
		"many tokens":   {image, Options{NumTokens: math.MaxInt}},
		"level":         {image, Options{ResolutionLevel: &low}},
		"narrow":        {testImage(3000, 40), Options{}},
		"negative FOV":  {image, Options{FOVX: -3}},
		"straight FOV":  {image, Options{FOVX: 180}},
		"FOV of no one": {image, Options{FOVX: math.NaN()}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := m.Infer(t.Context(), c.image, c.options)
			require.ErrorIs(t, err, ErrInput)
		})
	}
}

// TestInferSizes runs on pictures of odd shapes.
func TestInferSizes(t *testing.T) {
	m := newModel(t, small())
	for _, c := range []struct{ height, width, tokens int }{{1, 1, 6}, {2, 30, 30}, {14, 14, 1}, {45, 31, 9}} {
		image := testImage(c.height, c.width)
		r, err := m.Infer(t.Context(), image, Options{NumTokens: c.tokens, KeepInvalid: true})
		require.NoError(t, err)
		require.Len(t, r.Points, 3*c.height*c.width)
		require.Len(t, r.Depth, c.height*c.width)
		require.Len(t, r.Mask, c.height*c.width)
		for i, p := range r.Points {
			require.Zero(t, p-p, "point %d of %v", i, c) // finite
		}
	}
}

// TestInferSinglePixel: one pixel has no camera.
func TestInferSinglePixel(t *testing.T) {
	cfg := small()
	cfg.MaskThreshold = float32(math.Inf(-1))
	m := newModel(t, cfg)
	r, err := m.Infer(t.Context(), testImage(1, 1), Options{})
	require.NoError(t, err)
	require.True(t, r.Degenerate())
	_, err = m.Infer(t.Context(), testImage(1, 1), Options{ForceProjection: true})
	require.ErrorIs(t, err, ErrCamera)
}

func TestInferNothingValid(t *testing.T) {
	cfg := small()
	cfg.MaskThreshold = 1e9
	m := newModel(t, cfg)
	r, err := m.Infer(t.Context(), testImage(40, 60), Options{ForceProjection: true})
	require.NoError(t, err)
	require.True(t, r.Degenerate())
	require.Equal(t, FocalShift{Focal: 1}, r.FocalShift)
	for i, z := range r.Depth {
		require.True(t, math.IsInf(float64(z), 1) && math.IsInf(float64(r.Points[3*i]), 1))
		require.False(t, r.Mask[i])
	}
}

// TestProjection: projected points are seen where their pixels are.
func TestProjection(t *testing.T) {
	cfg := small()
	cfg.MaskThreshold = float32(math.Inf(-1))
	m := newModel(t, cfg)
	image := testImage(40, 60)
	r, err := m.Infer(t.Context(), image, Options{FOVX: 70, ForceProjection: true})
	require.NoError(t, err)
	k := r.Intrinsics
	require.InDelta(t, 70, 2*math.Atan(0.5/k[0][0])*180/math.Pi, 1e-4)
	for i := range r.Depth {
		x, y, z := float64(r.Points[3*i]), float64(r.Points[3*i+1]), float64(r.Points[3*i+2])
		require.InDelta(t, (float64(i%60)+0.5)/60, k[0][0]*x/z+k[0][2], 1e-5)
		require.InDelta(t, (float64(i/60)+0.5)/40, k[1][1]*y/z+k[1][2], 1e-5)
		require.Equal(t, r.Depth[i], r.Points[3*i+2])
	}
}

// TestStrips: the output branches give the same in strips of any height.
func TestStrips(t *testing.T) {
	m := newModel(t, small())
	image := testImage(60, 40)
	want, err := m.Forward(t.Context(), image, Options{NumTokens: 12})
	require.NoError(t, err)
	for _, strip := range []int{1, 300, 1000} {
		m.version.(*trunk).strip = strip
		got, err := m.Forward(t.Context(), image, Options{NumTokens: 12})
		require.NoError(t, err)
		require.InDeltaSlice(t, want.Points, got.Points, 1e-5)
		require.InDeltaSlice(t, want.Mask, got.Mask, 1e-5)
	}
}

// TestOutputVariants: branches with residual blocks, or with a wider last convolution, are evaluated in one piece.
func TestOutputVariants(t *testing.T) {
	for _, change := range []func(c *Config){
		func(c *Config) { c.Trunk.LastResBlocks, c.Trunk.LastChannels = 2, 16 },
		func(c *Config) { c.Trunk.LastKernel = 3 },
		func(c *Config) { c.Trunk.ResBlocks = 0 },
		func(c *Config) { c.Trunk.UpsampleDims = [3]int{32, 16, 48} },
	} {
		cfg := small()
		change(&cfg)
		m := newModel(t, cfg)
		m.version.(*trunk).strip = 100
		raw, err := m.Forward(t.Context(), testImage(60, 40), Options{NumTokens: 12})
		require.NoError(t, err)
		require.Len(t, raw.Mask, 60*40)
	}
}

func TestForwardKeepsImage(t *testing.T) {
	m := newModel(t, small())
	size, err := workingSize(28, 42, 6)
	require.NoError(t, err)
	image := testImage(size.height, size.width) // resizing it is the identity
	before := testImage(size.height, size.width)
	_, err = m.Forward(t.Context(), image, Options{NumTokens: 6})
	require.NoError(t, err)
	require.Equal(t, before, image)
}

func TestNewRefusesWeights(t *testing.T) {
	cfg := small()
	_, err := New(fixture.Backend(t), cfg, weights.NewSet(nil))
	require.ErrorIs(t, err, weights.ErrMismatch)
	other := cfg
	other.Trunk.ProjectDim++
	_, err = New(fixture.Backend(t), cfg, randomSet(other))
	require.ErrorIs(t, err, weights.ErrMismatch)
}

func TestClose(t *testing.T) {
	cfg := small()
	m, err := New(fixture.Backend(t), cfg, randomSet(cfg))
	require.NoError(t, err)
	m.Close()
	m.Close()
	_, err = m.Infer(t.Context(), testImage(40, 60), Options{})
	require.ErrorIs(t, err, nn.ErrClosed)
}

// Without its weights a model refuses work. Loading them twice leaves them once.
func TestUnload(t *testing.T) {
	for _, cfg := range []Config{small(), small2(), small3()} {
		device := fixture.NewDevice(fixture.Backend(t))
		m, err := New(device, cfg, randomSet(cfg))
		require.NoError(t, err)
		loaded := device.Count()
		m.Unload()
		require.Zero(t, device.Count())
		_, err = m.Infer(t.Context(), testImage(40, 60), Options{})
		require.ErrorIs(t, err, nn.ErrClosed)
		require.NoError(t, m.Load(randomSet(cfg)))
		require.NoError(t, m.Load(randomSet(cfg)))
		require.Equal(t, loaded, device.Count())
		_, err = m.Infer(t.Context(), testImage(40, 60), Options{})
		require.NoError(t, err)
		m.Close()
		require.Zero(t, device.Count())
	}
}

// countdown is a context that ends after a number of looks at it.
type countdown struct {
	context.Context
	left atomic.Int32
}

func (c *countdown) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// TestCancel ends the context at every point where it is looked at.
func TestCancel(t *testing.T) {
	m := newModel(t, small())
	m.version.(*trunk).strip = 300
	for looks := range int32(1000) {
		ctx := &countdown{Context: t.Context()}
		ctx.left.Store(looks)
		_, err := m.Infer(ctx, testImage(40, 60), Options{})
		if err == nil {
			require.Greater(t, looks, int32(10))
			return
		}
		require.True(t, errors.Is(err, context.Canceled), "%v", err)
	}
	t.Fatal("the context is looked at for ever")
}

func TestConcurrent(t *testing.T) {
	m := newModel(t, small())
	image := testImage(40, 60)
	want, err := m.Infer(t.Context(), image, Options{KeepInvalid: true})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			got, err := m.Infer(t.Context(), image, Options{KeepInvalid: true})
			if err != nil || math.Abs(float64(got.Focal-want.Focal)) > 1e-4 || got.Samples != want.Samples {
				t.Errorf("got %v, %v, want %v", got, err, want.FocalShift)
			}
		})
	}
	wg.Wait()
}

// BenchmarkHead runs the convolutions of the head as released, on a grid of 12 x 12 patches.
func BenchmarkHead(b *testing.B) {
	cfg := V1()
	cfg.Backbone.Depth, cfg.Layers = 1, []int{0}
	m := newModel(b, cfg)
	size := working{height: 170, width: 170, rows: 12, cols: 12}
	layer := tensors.FromFlatDataAndDimensions(make([]float32, 145*1024), 1, 145, 1024)
	for b.Loop() {
		x, err := m.version.(*trunk).decode(b.Context(), size, []*tensors.Tensor{layer})
		require.NoError(b, err)
		_, err = m.version.(*trunk).evaluate(b.Context(), size, x)
		require.NoError(b, err)
		nn.Free(x)
	}
}
