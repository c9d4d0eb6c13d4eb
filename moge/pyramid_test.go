// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/weights"
)

// smallStack has three levels.
func smallStack(in, blocks []int, out int) StackConfig {
	return StackConfig{
		In: in, Channels: []int{8, 8, 4}, Out: []int{0, 0, out}, Blocks: blocks, HiddenRatio: 1,
		Resamplers: []Resampler{ConvTranspose, Bilinear}, InNorm: NormNone, HiddenNorm: NormNone,
	}
}

// small2 is a MoGe-2 that runs in milliseconds, small3 a MoGe-3.
func small2() Config {
	cfg := V2()
	cfg.Backbone, cfg.Layers, cfg.MinTokens, cfg.MaxTokens = small().Backbone, []int{0, 1}, 6, 12
	head := func(out int) *StackConfig {
		c := smallStack([]int{8, 8, 4}, []int{0, 1, 0}, out)
		return &c
	}
	cfg.Pyramid = PyramidConfig{
		FeatureDim: 8, Neck: smallStack([]int{10, 2, 2}, []int{1, 2, 0}, 0),
		Points: *head(3), Mask: head(1), Normal: head(3), ScaleDims: []int{16, 8, 1},
	}
	return cfg
}

func small3() Config {
	cfg := small2()
	cfg.Version = 3
	cfg.Refiner = &RefinerConfig{
		FeatureDim: 10, Channels: []int{4, 8, 8}, DownBlocks: []int{1, 0, 2}, UpBlocks: []int{1, 1}, BottleneckBlocks: 1, Resolution: 64,
	}
	return cfg
}

// versions are small networks of all versions.
func versions() map[string]Config {
	return map[string]Config{"1": small(), "2": small2(), "3": small3()}
}

// TestPictures: pictures of any shape and kind give a result, or an error that says what is wrong.
func TestPictures(t *testing.T) {
	for name, cfg := range versions() {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, cfg)
			for _, size := range []image.Point{{1, 1}, {3000, 40}, {40, 3000}, {2, 1}, {61, 35}} {
				gray := image.NewGray16(image.Rectangle{Max: size})
				for i := range size.X * size.Y {
					gray.SetGray16(i%size.X, i/size.X, color.Gray16{Y: uint16(977 * i)})
				}
				picture, err := NewImage(gray)
				require.NoError(t, err)
				for _, opt := range []Options{{}, {FOVX: 60, ForceProjection: true, NumTokens: 80}} {
					r, err := m.Infer(t.Context(), picture, opt)
					if err != nil {
						require.True(t, errors.Is(err, ErrInput) || errors.Is(err, ErrCamera), "%v: %v", size, err)
						require.True(t, opt.NumTokens == 0, "%v: %v", size, err)
						continue
					}
					require.Len(t, r.Points, 3*size.X*size.Y)
					require.Len(t, r.Mask, size.X*size.Y)
					for i, valid := range r.Mask {
						z := r.Depth[i]
						require.Equal(t, valid, !math.IsInf(float64(z), 1))
						require.Equal(t, z, r.Points[3*i+2])
						require.False(t, cfg.Version > 1 && z <= 0)
					}
				}
			}
		})
	}
}

// TestPixelRange: what the network gives is what its parts promise.
func TestPixelRange(t *testing.T) {
	m := newModel(t, small3())
	raw, err := m.Forward(t.Context(), testImage(40, 60), Options{})
	require.NoError(t, err)
	require.Positive(t, raw.MetricScale)
	for i, p := range raw.Mask {
		require.True(t, p >= 0 && p <= 1)
		n := raw.Normals[3*i : 3*i+3]
		require.InDelta(t, 1, math.Sqrt(float64(n[0]*n[0]+n[1]*n[1]+n[2]*n[2])), 1e-5)
		require.Positive(t, raw.Points[3*i+2])
	}
	r, err := m.Infer(t.Context(), testImage(40, 60), Options{FOVX: 70})
	require.NoError(t, err)
	for i, valid := range r.Mask {
		require.Equal(t, valid, r.Normals[3*i] != 0)
	}
}

// TestMetricScale: the scale multiplies points and depth, and nothing else.
func TestMetricScale(t *testing.T) {
	for _, cfg := range []Config{small2(), small3()} {
		with := newModel(t, cfg)
		plain := cfg
		plain.Pyramid.ScaleDims = nil
		tensors := make(map[string]weights.Tensor)
		for name := range Spec(plain) {
			tensors[name], _ = randomSet(cfg).Get(name)
		}
		without, err := New(fixture.Backend(t), plain, weights.NewSet(tensors))
		require.NoError(t, err)
		defer without.Close()
		for _, opt := range []Options{{KeepInvalid: true}, {ForceProjection: true, FOVX: 50, KeepInvalid: true}} {
			a, err := with.Infer(t.Context(), testImage(40, 60), opt)
			require.NoError(t, err)
			b, err := without.Infer(t.Context(), testImage(40, 60), opt)
			require.NoError(t, err)
			require.Zero(t, b.MetricScale)
			require.NotEqual(t, float32(1), a.MetricScale)
			require.Equal(t, b.Intrinsics, a.Intrinsics)
			require.Equal(t, b.FocalShift, a.FocalShift)
			for i, z := range b.Depth {
				require.InEpsilon(t, z*a.MetricScale, a.Depth[i], 1e-5)
			}
		}
	}
}

// TestFewerHeads: mask, normals, scale and refiner may be missing.
func TestFewerHeads(t *testing.T) {
	cfg := small3()
	cfg.Pyramid.Mask, cfg.Pyramid.Normal, cfg.Pyramid.ScaleDims, cfg.Refiner = nil, nil, nil, nil
	m := newModel(t, cfg)
	r, err := m.Infer(t.Context(), testImage(40, 60), Options{})
	require.NoError(t, err)
	require.Nil(t, r.Mask)
	require.Nil(t, r.Normals)
	require.Zero(t, r.MetricScale)
	for _, z := range r.Depth {
		require.Zero(t, z-z, "nothing is hidden")
	}
	_, err = m.Infer(t.Context(), testImage(40, 60), Options{RefineRounds: 1})
	require.ErrorIs(t, err, ErrInput)
}

// TestRefineRounds: rounds change the depth along the line of sight alone.
func TestRefineRounds(t *testing.T) {
	m := newModel(t, small3())
	forward := func(rounds int) *Raw {
		raw, err := m.Forward(t.Context(), testImage(40, 60), Options{RefineRounds: rounds})
		require.NoError(t, err)
		return raw
	}
	none, one, three := forward(-1), forward(1), forward(3)
	require.Equal(t, three, forward(0), "three is the released number, and twice the same gives the same")
	require.NotEqual(t, one.Points, three.Points)
	for i := 0; i < len(none.Points); i += 3 {
		for axis := range 2 {
			require.InDelta(t, none.Points[i+axis]/none.Points[i+2], three.Points[i+axis]/three.Points[i+2], 1e-5)
		}
	}
	require.Equal(t, none.Mask, three.Mask)
	for _, rounds := range []int{101, math.MaxInt} {
		_, err := m.Forward(t.Context(), testImage(40, 60), Options{RefineRounds: rounds})
		require.ErrorIs(t, err, ErrInput)
	}
}

// TestRefineRefuses: a depth beyond all bins is an error, not a wrong bin.
func TestRefineRefuses(t *testing.T) {
	r := &refiner{cfg: *small3().Refiner}
	for _, z := range []float32{float32(math.NaN()), inf, -inf, 1e9} {
		_, err := r.bins([]float32{0, z})
		require.ErrorIs(t, err, ErrCamera)
	}
	bins, err := r.bins([]float32{0.5 / 64, 1.5 / 64, -1, 2.49 / 64})
	require.NoError(t, err)
	require.Equal(t, []int32{64, 66, 0, 66}, bins, "halves round to even")
}

// TestCancelPyramid ends the context at every point where it is looked at.
func TestCancelPyramid(t *testing.T) {
	m := newModel(t, small3())
	for looks := range int32(1000) {
		ctx := &countdown{Context: t.Context()}
		ctx.left.Store(looks)
		_, err := m.Infer(ctx, testImage(40, 60), Options{})
		if err == nil {
			require.Greater(t, looks, int32(40))
			return
		}
		require.True(t, errors.Is(err, context.Canceled), "%v", err)
	}
	t.Fatal("the context is looked at for ever")
}

// inPrecision stores the weights in another precision; in float32 it keeps what the other leaves of them.
func inPrecision(set *weights.Set, half bool) *weights.Set {
	out := make(map[string]weights.Tensor)
	for _, name := range set.Names() {
		t, _ := set.Get(name)
		var data []byte
		for i := 0; i < len(t.Data); i += 4 {
			bits := binary.LittleEndian.Uint32(t.Data[i:]) &^ 0xffff // bfloat16 is the upper half of float32
			if half {
				data = binary.LittleEndian.AppendUint16(data, uint16(bits>>16))
			} else {
				data = binary.LittleEndian.AppendUint32(data, bits)
			}
		}
		if t.Data = data; half {
			t.DType = dtypes.BFloat16
		}
		out[name] = t
	}
	return weights.NewSet(out)
}

// TestArithmeticIsFloat32: weights in half precision give what the same values give in float32. Attention in half
// precision does not: with the keys and values rounded, as the last part shows, the difference is thousands of times larger.
func TestArithmeticIsFloat32(t *testing.T) {
	for name, cfg := range versions() {
		t.Run(name, func(t *testing.T) {
			set := randomSet(cfg)
			var points [2][]float32
			for i := range points {
				m, err := New(fixture.Backend(t), cfg, inPrecision(set, i == 1))
				require.NoError(t, err)
				defer m.Close()
				raw, err := m.Forward(t.Context(), testImage(40, 60), Options{RefineRounds: min(0, 1-cfg.Version)})
				require.NoError(t, err)
				points[i] = raw.Points
			}
			require.Less(t, worst(points[0], points[1]), 1e-6)
		})
	}
	attend := func(half bool) []float32 {
		program := nn.NewProgram(fixture.Backend(t), "attend", func(_ nn.Params, in []*Node) []*Node {
			k, v := in[0], in[0]
			if half {
				k = ConvertDType(ConvertDType(k, dtypes.BFloat16), dtypes.Float32)
				v = k
			}
			return []*Node{nn.Attend(MulScalar(in[0], 4), k, v, nil)}
		})
		defer program.Close()
		x := testImage(60, 40).Pixels[:60*40]
		out, err := program.Call1(nil, tensors.FromFlatDataAndDimensions(x, 1, 2, 60, 20))
		require.NoError(t, err)
		defer nn.Free(out)
		values, err := tensors.CopyFlatData[float32](out)
		require.NoError(t, err)
		return values
	}
	require.Greater(t, worst(attend(false), attend(true)), 1e-3)
}

// worst is the largest difference.
func worst(a, b []float32) float64 {
	largest := 0.0
	for i := range a {
		largest = max(largest, math.Abs(float64(a[i]-b[i])))
	}
	return largest
}

// TestEnlargeInterpolated compares with interpolating first and convolving afterwards.
func TestEnlargeInterpolated(t *testing.T) {
	set := make(weights.Spec)
	conv(set, "1", 5, 3, 3)
	w, err := randomTensors(set).Upload(fixture.Backend(t))
	require.NoError(t, err)
	defer nn.Weights(w).Free()
	for _, kind := range []Resampler{Bilinear, Nearest} {
		for _, size := range [][2]int{{1, 1}, {1, 4}, {5, 7}} {
			program := nn.NewProgram(fixture.Backend(t), "enlarge", func(p nn.Params, in []*Node) []*Node {
				large := nn.ResizeBilinear(in[0], 2*size[0], 2*size[1])
				if kind == Nearest {
					rows := BroadcastToDims(ExpandAxes(in[0], 2, 4), 1, size[0], 2, size[1], 2, 3)
					large = Reshape(rows, 1, 2*size[0], 2*size[1], 3)
				}
				return []*Node{nn.Conv2D(p.In("1"), large), enlarge(p, kind, in[0])}
			})
			out, err := program.Call(w, tensors.FromFlatDataAndDimensions(testImage(size[0], size[1]).Pixels, 1, size[0], size[1], 3))
			require.NoError(t, err)
			want, err := tensors.CopyFlatData[float32](out[0])
			require.NoError(t, err)
			got, err := tensors.CopyFlatData[float32](out[1])
			require.NoError(t, err)
			require.InDeltaSlice(t, want, got, 1e-6, "%s %v", kind, size)
			nn.Free(out...)
			program.Close()
		}
	}
}

// TestStackVariants: stacks of other shapes, with norms and without input convolutions, run.
func TestStackVariants(t *testing.T) {
	for i, change := range []func(c *PyramidConfig){
		func(c *PyramidConfig) { c.Neck.InNorm, c.Neck.HiddenNorm = NormLayer, NormGroup },
		func(c *PyramidConfig) { c.Points.In = []int{0, 0, 0} },
		func(c *PyramidConfig) {
			c.Neck.Out, c.Points.In = []int{6, 6, 6}, []int{6, 6, 6}
			c.Mask, c.Normal = nil, nil
		},
		func(c *PyramidConfig) { c.Points.Out = []int{2, 0, 3} },
		func(c *PyramidConfig) { c.Points.Resamplers = []Resampler{Nearest, Bilinear}; c.Points.HiddenRatio = 2 },
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			cfg := small2()
			change(&cfg.Pyramid)
			raw, err := newModel(t, cfg).Forward(t.Context(), testImage(30, 50), Options{})
			require.NoError(t, err)
			require.Len(t, raw.Points, 3*30*50)
		})
	}
}

func TestPatchGrid(t *testing.T) {
	for _, c := range []struct{ height, width, tokens, rows, cols int }{
		{518, 518, 3600, 60, 60}, {300, 400, 3600, 52, 69}, {720, 1280, 3600, 45, 80}, {48, 70, 30, 5, 7}, {66, 44, 9, 4, 2},
		{40, 3000, 3600, 7, 520}, {3000, 40, 1200, 300, 4}, {1, 1, 1, 1, 1},
	} {
		rows, cols, err := patchGrid(c.height, c.width, c.tokens)
		require.NoError(t, err)
		require.Equal(t, []int{c.rows, c.cols}, []int{rows, cols})
	}
	_, _, err := patchGrid(4, 60, 1)
	require.ErrorIs(t, err, ErrInput)
}
