// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package condition

import (
	"context"
	"encoding/binary"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/dinov2"
	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/weights"
)

// shrink replaces the networks of a configuration by ones that run in milliseconds.
func shrink(cfg Config) Config {
	for _, e := range cfg.Embedders {
		if e.Image != nil {
			e.Image.InputSize = 8
			e.Image.Backbone = dinov2.Config{
				EmbedDim: 8, Depth: 2, NumHeads: 2, MLPRatio: 2, PatchSize: 4, Grid: 2, Registers: 1, InterpolateAntialias: true,
				NormEpsilon: 1e-6,
			}
		} else {
			e.Points.Width, e.Points.InputSize, e.Points.PatchSize, e.Points.NumHeads = 4, 6, 2, 2
		}
	}
	return cfg
}

// local returns a tensor in local memory.
func local[T float32 | bool](flat []T, dims ...int) *tensors.Tensor {
	return tensors.FromFlatDataAndDimensions(flat, dims...)
}

// randomSet returns tensors for a spec, the same for the same seed. Values that bfloat16 can hold are used for all.
func randomSet(spec weights.Spec, dtype dtypes.DType, seed uint64) *weights.Set {
	random := rand.New(rand.NewPCG(seed, 1))
	all := make(map[string]weights.Tensor)
	for _, name := range slices.Sorted(maps.Keys(spec)) {
		var data []byte
		for range shapes.Make(dtype, spec[name].Shape...).Size() {
			bits := math.Float32bits(random.Float32() - 0.5)
			if dtype == dtypes.BFloat16 {
				data = binary.LittleEndian.AppendUint16(data, uint16(bits>>16))
			} else {
				data = binary.LittleEndian.AppendUint32(data, bits&0xffff0000)
			}
		}
		all[name] = weights.Tensor{DType: dtype, Shape: spec[name].Shape, Data: data}
	}
	return weights.NewSet(all)
}

// with returns the set with the tensors of other whose names start with prefix, put below to.
func with(set *weights.Set, to string, other *weights.Set, from string) *weights.Set {
	all := make(map[string]weights.Tensor)
	for _, name := range set.Names() {
		all[name], _ = set.Get(name)
		if rest, ok := strings.CutPrefix(name, to); ok {
			if t, ok := other.Get(from + rest); ok {
				all[name] = t
			}
		}
	}
	return weights.NewSet(all)
}

// released returns small weights of both stages, whose four image networks are equal.
func released(seed uint64) (structure, latent *weights.Set) {
	structure = randomSet(Spec(shrink(ReleasedStructure())), dtypes.Float32, seed)
	latent = randomSet(Spec(shrink(ReleasedLatent())), dtypes.Float32, seed+1)
	structure = with(structure, trunkPrefix(1), structure, trunkPrefix(0))
	for i := range 2 {
		latent = with(latent, trunkPrefix(i), structure, trunkPrefix(0))
	}
	return structure, latent
}

// smallViews returns views of distinct values, with a few points missing.
func smallViews(side int) Views {
	random := rand.New(rand.NewPCG(5, 5))
	plane := func(channels int) []float32 {
		flat := make([]float32, channels*side*side)
		for i := range flat {
			flat[i] = random.Float32()
		}
		return flat
	}
	v := Views{
		Size: side, Image: plane(3), RGBImage: plane(3), Mask: plane(1), RGBMask: plane(1),
		PointMap: plane(3), RGBPointMap: plane(3),
	}
	v.PointMap[side+1] = float32(math.NaN())
	v.PointMap[2*side*side+2] = float32(math.Inf(1))
	return v
}

func newTestEncoder(t testing.TB, structure Config, ss *weights.Set, latent Config, slat *weights.Set) *Encoder {
	t.Helper()
	encoder, err := New(fixture.Backend(t), structure, ss, latent, slat)
	require.NoError(t, err)
	t.Cleanup(encoder.Close)
	return encoder
}

func newReleased(t testing.TB, ss, slat *weights.Set) *Encoder {
	return newTestEncoder(t, shrink(ReleasedStructure()), ss, shrink(ReleasedLatent()), slat)
}

// requireNear compares the tokens of two encoders.
func requireNear(t *testing.T, want, got []float32) {
	t.Helper()
	require.InDeltaSlice(t, want, got, 1e-5)
}

// encode returns both stages' tokens.
func encode(t testing.TB, e *Encoder, v Views) (structure, latent []float32) {
	t.Helper()
	a, b, err := e.Encode(t.Context(), v)
	require.NoError(t, err)
	return take(a), take(b)
}

// TestSharing holds equal image networks once and gives the same tokens as four of them.
func TestSharing(t *testing.T) {
	ss, slat := released(1)
	shared := newReleased(t, ss, slat)
	require.Len(t, shared.trunks, 1)
	require.Len(t, shared.jobs, 6)
	wantSS, wantSLAT := encode(t, shared, smallViews(8))

	// The final norm is part of a stage's head: networks that differ in it alone are shared, and each head uses its own.
	other := randomSet(Spec(shrink(ReleasedStructure())), dtypes.Float32, 99)
	norms := newReleased(t, with(ss, trunkPrefix(1)+"norm.", other, trunkPrefix(1)+"norm."), slat)
	require.Len(t, norms.trunks, 1)
	gotSS, gotSLAT := encode(t, norms, smallViews(8))
	masks := 2 * 5 * 8 // values before those of the masks
	requireNear(t, wantSS[:masks], gotSS[:masks])
	require.NotEqual(t, wantSS[masks:2*masks], gotSS[masks:2*masks])
	requireNear(t, wantSLAT, gotSLAT)

	// One other value anywhere else, and the network is held twice.
	bias := trunkPrefix(1) + "blocks.1.mlp.fc2.bias"
	differ := newReleased(t, ss, with(slat, bias, other, bias))
	require.Len(t, differ.trunks, 2)
	require.Len(t, differ.jobs, 8)
	gotSS, gotSLAT = encode(t, differ, smallViews(8))
	requireNear(t, wantSS, gotSS)
	masks = 2 * 6 * 8
	requireNear(t, wantSLAT[:masks], gotSLAT[:masks])
	require.NotEqual(t, wantSLAT[masks:], gotSLAT[masks:])

	// The same weights in another precision are another network, with nearly the same tokens.
	half := newReleased(t, ss, toBFloat16(slat))
	require.Len(t, half.trunks, 2)
	gotSS, gotSLAT = encode(t, half, smallViews(8))
	requireNear(t, wantSS, gotSS)
	requireNear(t, wantSLAT, gotSLAT)
}

// toBFloat16 returns a set of float32 values that bfloat16 can hold, in bfloat16.
func toBFloat16(set *weights.Set) *weights.Set {
	all := make(map[string]weights.Tensor)
	for _, name := range set.Names() {
		t, _ := set.Get(name)
		var data []byte
		for i := 0; i < len(t.Data); i += 4 {
			data = append(data, t.Data[i+2:i+4]...)
		}
		all[name] = weights.Tensor{DType: dtypes.BFloat16, Shape: t.Shape, Data: data}
	}
	return weights.NewSet(all)
}

// TestFourNetworks has a different image network everywhere.
func TestFourNetworks(t *testing.T) {
	ss := randomSet(Spec(shrink(ReleasedStructure())), dtypes.Float32, 1)
	slat := randomSet(Spec(shrink(ReleasedLatent())), dtypes.Float32, 2)
	e := newReleased(t, ss, slat)
	require.Len(t, e.trunks, 4)
	wantSS, wantSLAT := encode(t, e, smallViews(8))
	// Each stage gives the same beside a stage that shares nothing with it.
	otherSS, otherSLAT := released(7)
	gotSS, _ := encode(t, newReleased(t, ss, otherSLAT), smallViews(8))
	_, gotSLAT := encode(t, newReleased(t, otherSS, slat), smallViews(8))
	requireNear(t, wantSS, gotSS)
	requireNear(t, wantSLAT, gotSLAT)
}

// TestWithoutPoints leaves zeros where the points' tokens were.
func TestWithoutPoints(t *testing.T) {
	ss, slat := released(1)
	e := newReleased(t, ss, slat)
	v := smallViews(8)
	wantSS, wantSLAT := encode(t, e, v)
	crop, full := v.PointMap, v.RGBPointMap
	v.PointMap, v.RGBPointMap = nil, nil
	gotSS, gotSLAT := encode(t, e, v)
	images := 4 * 5 * 8 // values before those of the points
	requireNear(t, wantSLAT, gotSLAT)
	requireNear(t, wantSS[:images], gotSS[:images])
	require.Equal(t, make([]float32, 2*9*8), gotSS[images:])

	v.RGBPointMap = full
	gotSS, _ = encode(t, e, v)
	require.Equal(t, make([]float32, 9*8), gotSS[images:images+9*8])
	requireNear(t, wantSS[images+9*8:], gotSS[images+9*8:])

	// Dropping the modalities does the same, and does not even read them.
	cfg := shrink(ReleasedStructure())
	cfg.Drop = []Modality{PointMap, Image}
	dropping := newTestEncoder(t, cfg, ss, shrink(ReleasedLatent()), slat)
	v.PointMap = crop
	gotSS, gotSLAT = encode(t, dropping, v)
	require.Equal(t, make([]float32, 5*8), gotSS[:5*8])
	requireNear(t, wantSS[5*8:images], gotSS[5*8:images])
	require.Equal(t, make([]float32, 9*8), gotSS[images:images+9*8])
	requireNear(t, wantSLAT, gotSLAT)
}

// TestVariants builds what no released model has.
func TestVariants(t *testing.T) {
	_, slat := released(1)
	for name, vary := range map[string]func(c *Config){
		"random positions": func(c *Config) { c.RandomPositions = true },
		"no norm":          func(c *Config) { c.NoProjectionNorm = true },
		"no group":         func(c *Config) { c.Embedders[0].Inputs[1].Group = "" },
		"no projection":    func(c *Config) { c.ProjectionMultiplier, c.Embedders = 0, c.Embedders[:2] },
		"compression":      func(c *Config) { c.CompressionMultiplier, c.Embedders = 1, c.Embedders[:2] },
		"larger pictures":  func(c *Config) { c.Embedders[0].Image.InputSize = 12 },
		"one input":        func(c *Config) { c.Embedders = c.Embedders[1:2]; c.Embedders[0].Inputs = c.Embedders[0].Inputs[:1] },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := shrink(ReleasedStructure())
			vary(&cfg)
			e := newTestEncoder(t, cfg, randomSet(Spec(cfg), dtypes.BFloat16, 4), shrink(ReleasedLatent()), slat)
			a, b, err := e.Encode(t.Context(), smallViews(8))
			require.NoError(t, err)
			require.Equal(t, []int{1, cfg.Tokens(), cfg.Width()}, a.Shape().Dimensions)
			for _, v := range append(take(a), take(b)...) {
				require.True(t, finite(v))
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	ss, slat := released(1)
	structure, latent := shrink(ReleasedStructure()), shrink(ReleasedLatent())
	backend := fixture.Backend(t)
	_, err := New(backend, Config{}, ss, latent, slat)
	require.ErrorIs(t, err, ErrConfig)
	_, err = New(backend, structure, ss, Config{}, slat)
	require.ErrorIs(t, err, ErrConfig)
	_, err = New(backend, structure, slat, latent, slat)
	require.ErrorIs(t, err, weights.ErrMismatch)
	require.ErrorContains(t, err, "structure")
	_, err = New(backend, structure, ss, latent, weights.NewSet(nil))
	require.ErrorIs(t, err, weights.ErrMismatch)
	require.ErrorContains(t, err, "latent")
}

func TestEncodeRefuses(t *testing.T) {
	ss, slat := released(1)
	e := newReleased(t, ss, slat)
	for name, spoil := range map[string]func(v *Views){
		"nothing":       func(v *Views) { *v = Views{} },
		"no image":      func(v *Views) { v.Image = nil },
		"no full mask":  func(v *Views) { v.RGBMask = nil },
		"size":          func(v *Views) { v.Size = -8 },
		"huge size":     func(v *Views) { v.Size = math.MaxInt },
		"short":         func(v *Views) { v.Mask = v.Mask[1:] },
		"grey":          func(v *Views) { v.RGBImage = v.RGBImage[:64] },
		"short points":  func(v *Views) { v.PointMap = v.PointMap[:64] },
		"NaN":           func(v *Views) { v.Image[3] = float32(math.NaN()) },
		"infinite mask": func(v *Views) { v.RGBMask[3] = float32(math.Inf(1)) },
	} {
		v := smallViews(8)
		spoil(&v)
		_, _, err := e.Encode(t.Context(), v)
		require.ErrorIs(t, err, ErrInput, name)
	}
}

// TestNoValidPoint encodes a map without points like any other.
func TestNoValidPoint(t *testing.T) {
	ss, slat := released(1)
	v := smallViews(8)
	for i := range v.PointMap {
		v.PointMap[i] = float32(math.NaN())
	}
	structure, _ := encode(t, newReleased(t, ss, slat), v)
	for _, x := range structure {
		require.True(t, finite(x))
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
	ss, slat := released(1)
	e := newReleased(t, ss, slat)
	for looks := range 100 {
		a, b, err := e.Encode(&countdown{t.Context(), looks}, smallViews(8))
		if err == nil {
			nn.Free(a, b)
			require.Equal(t, 4*(1+2+2)+2*2, looks) // networks: start, blocks, heads; maps: rows, head
			return
		}
		require.ErrorIs(t, err, context.Canceled)
		require.Nil(t, a)
		require.Nil(t, b)
	}
	t.Fatal("never finished")
}

func TestConcurrent(t *testing.T) {
	ss, slat := released(1)
	e := newReleased(t, ss, slat)
	wantSS, wantSLAT := encode(t, e, smallViews(8))
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			a, b, err := e.Encode(t.Context(), smallViews(8))
			if err != nil {
				t.Error(err)
				return
			}
			if !slices.Equal(wantSS, take(a)) || !slices.Equal(wantSLAT, take(b)) {
				t.Error("results differ")
			}
		})
	}
	group.Wait()
}

func TestClose(t *testing.T) {
	ss, slat := released(1)
	e := newReleased(t, ss, slat)
	e.Close()
	e.Close()
	_, _, err := e.Encode(t.Context(), smallViews(8))
	require.ErrorIs(t, err, nn.ErrClosed)
	_, err = e.Features(t.Context(), 8, smallViews(8).RGBImage)
	require.ErrorIs(t, err, nn.ErrClosed)
}

// Loading the weights twice leaves them once.
func TestLoadTwice(t *testing.T) {
	ss, slat := released(1)
	device := fixture.NewDevice(fixture.Backend(t))
	e, err := New(device, shrink(ReleasedStructure()), ss, shrink(ReleasedLatent()), slat)
	require.NoError(t, err)
	loaded := device.Count()
	require.NoError(t, e.Load(ss, slat))
	require.Equal(t, loaded, device.Count())
	require.Error(t, e.Load(ss, weights.NewSet(nil)))
	require.Zero(t, device.Count())
	e.Close()
}

// BenchmarkEncode makes the tokens of both stages at the released size, with weights of zeros.
func BenchmarkEncode(b *testing.B) {
	zeros := make([]byte, 2*4096*1024)
	blank := func(cfg Config) *weights.Set {
		all := make(map[string]weights.Tensor)
		for name, p := range Spec(cfg) {
			size := 2 * shapes.Make(dtypes.BFloat16, p.Shape...).Size()
			all[name] = weights.Tensor{DType: dtypes.BFloat16, Shape: p.Shape, Data: zeros[:size]}
		}
		return weights.NewSet(all)
	}
	e := newTestEncoder(b, ReleasedStructure(), blank(ReleasedStructure()), ReleasedLatent(), blank(ReleasedLatent()))
	v := smallViews(518)
	for b.Loop() {
		structure, latent, err := e.Encode(b.Context(), v)
		require.NoError(b, err)
		nn.Free(structure, latent)
	}
}
