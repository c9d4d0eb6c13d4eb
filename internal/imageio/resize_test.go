// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package imageio

import (
	"image"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func randomPlanes(c, h, w int) Planes {
	rng := rand.New(rand.NewPCG(uint64(h), uint64(w)))
	p := NewPlanes(c, h, w)
	for i := range p.Data {
		p.Data[i] = float32(rng.NormFloat64())
	}
	return p
}

// matrix returns the weights of an axis as a dense [out, in] matrix, from the definition of the filter.
func matrix(in, out int, filter Filter) [][]float64 {
	m := make([][]float64, out)
	s := float64(in) / float64(out)
	for d := range m {
		m[d] = make([]float64, in)
		c := s * (float64(d) + 0.5)
		if filter == Bilinear {
			src := max(c-0.5, 0)
			i := int(src)
			m[d][i] += 1 - (src - float64(i))
			m[d][min(i+1, in-1)] += src - float64(i)
			continue
		}
		var sum float64
		for j := range in {
			x := math.Abs((float64(j)+0.5-c)/max(s, 1)) + 0
			switch {
			case filter == BilinearAntialias && x < 1:
				m[d][j] = 1 - x
			case filter == BicubicAntialias && x < 1:
				m[d][j] = 1.5*x*x*x - 2.5*x*x + 1
			case filter == BicubicAntialias && x < 2:
				m[d][j] = -0.5*x*x*x + 2.5*x*x - 4*x + 2
			}
			sum += m[d][j]
		}
		for j := range m[d] {
			m[d][j] /= sum
		}
	}
	return m
}

func TestResizeAgainstDefinition(t *testing.T) {
	for _, size := range [][4]int{{7, 5, 3, 9}, {1, 1, 4, 3}, {64, 48, 13, 100}, {40, 3, 1, 1}, {9, 70, 70, 9}, {100, 2, 33, 3}} {
		h, w, oh, ow := size[0], size[1], size[2], size[3]
		p := randomPlanes(2, h, w)
		for _, filter := range []Filter{Bilinear, BilinearAntialias, BicubicAntialias} {
			got, err := Resize(p, oh, ow, filter)
			require.NoError(t, err)
			require.Equal(t, []int{2, oh, ow, 2 * oh * ow}, []int{got.C, got.H, got.W, len(got.Data)})
			my, mx := matrix(h, oh, filter), matrix(w, ow, filter)
			for c := range 2 {
				for y := range oh {
					for x := range ow {
						var want float64
						for i, wy := range my[y] {
							for j, wx := range mx[x] {
								want += wy * wx * float64(p.Row(c, i)[j])
							}
						}
						require.InDelta(t, want, got.Row(c, y)[x], 2e-6, "%v filter %d at %d, %d", size, filter, x, y)
					}
				}
			}
		}
	}
}

func TestResizeConstant(t *testing.T) {
	p := NewPlanes(1, 37, 91)
	for i := range p.Data {
		p.Data[i] = 0.25
	}
	for _, filter := range []Filter{Nearest, Bilinear, BilinearAntialias, BicubicAntialias} {
		for _, side := range []int{1, 36, 38, 200} {
			got, err := Resize(p, side, side, filter)
			require.NoError(t, err)
			for _, v := range got.Data {
				require.InDelta(t, 0.25, v, 1e-6)
			}
		}
		same, err := Resize(p, 37, 91, filter)
		require.NoError(t, err)
		require.Same(t, &p.Data[0], &same.Data[0])
	}
}

// Sizes at which float32 arithmetic takes another pixel than exact arithmetic.
func TestNearestIndex(t *testing.T) {
	for size, want := range map[[2]int]int{{70, 518}: 7, {609, 518}: 1, {518, 518}: 0, {37, 518}: 0} {
		differ := 0
		for i, at := range NearestIndex(size[0], size[1]) {
			require.Less(t, at, size[0])
			if at != i*size[0]/size[1] {
				differ++
			}
		}
		require.Equal(t, want, differ, "%v", size)
	}
	require.Equal(t, []int{0, 0, 0}, NearestIndex(1, 3))
	require.Equal(t, []int{0}, NearestIndex(9, 1))
}

func TestResizeKeepsNaNInNearest(t *testing.T) {
	p := Planes{C: 1, H: 1, W: 2, Data: []float32{float32(math.NaN()), float32(math.Inf(1))}}
	got, err := Resize(p, 1, 4, Nearest)
	require.NoError(t, err)
	require.True(t, got.Data[0] != got.Data[0] && got.Data[1] != got.Data[1])
	require.Equal(t, []float32{float32(math.Inf(1)), float32(math.Inf(1))}, got.Data[2:])
}

func TestResizeRefuses(t *testing.T) {
	good := NewPlanes(1, 2, 2)
	for _, p := range []Planes{
		{}, {C: 1, H: 2, W: 2}, {C: 1, H: 2, W: 2, Data: make([]float32, 5)}, {C: -1, H: -2, W: 2, Data: make([]float32, 4)},
		{C: 1 << 32, H: 1 << 32, W: 1},
	} {
		_, err := Resize(p, 3, 3, Bilinear)
		require.Error(t, err)
	}
	for _, size := range [][2]int{{0, 1}, {1, -1}, {1 << 20, 1 << 20}} {
		_, err := Resize(good, size[0], size[1], Bilinear)
		require.Error(t, err)
	}
	_, err := Resize(good, 3, 3, Filter(9))
	require.Error(t, err)
	img := image.NewNRGBA(image.Rect(0, 0, 2, 2))
	_, err = ResizeRGB(img, img.Rect, img.Rect, 3, 3, Nearest)
	require.Error(t, err)
	_, err = ResizeRGB(img, image.Rectangle{}, img.Rect, 3, 3, Bilinear)
	require.ErrorIs(t, err, ErrEmpty)
	_, err = ResizeRGB(img, image.Rect(0, 0, 1<<40, 1<<40), img.Rect, 3, 3, Bilinear)
	require.ErrorIs(t, err, ErrTooLarge)
}

// Resizing through a window equals cutting out, filling up and resizing.
func TestResizeRGBWindow(t *testing.T) {
	img, err := NRGBA(pictures(41, 29)[0])
	require.NoError(t, err)
	for _, test := range []struct{ window, keep image.Rectangle }{
		{image.Rect(0, 0, 41, 29), image.Rect(0, 0, 41, 29)},
		{image.Rect(-6, -12, 35, 29), image.Rect(-6, -12, 35, 29)},
		{image.Rect(3, 4, 60, 61), image.Rect(3, 5, 20, 61)},
		{image.Rect(100, 100, 120, 120), image.Rect(100, 100, 120, 120)},
	} {
		cut := NewPlanes(3, test.window.Dy(), test.window.Dx())
		whole := RGB(img)
		visible := test.window.Intersect(test.keep).Intersect(img.Rect)
		for y := visible.Min.Y; y < visible.Max.Y; y++ {
			for c := range 3 {
				at := visible.Min.X - test.window.Min.X
				copy(cut.Row(c, y-test.window.Min.Y)[at:], whole.Row(c, y)[visible.Min.X:visible.Max.X])
			}
		}
		for _, filter := range []Filter{BilinearAntialias, BicubicAntialias} {
			want, err := Resize(cut, 17, 71, filter)
			require.NoError(t, err)
			got, err := ResizeRGB(img, test.window, test.keep, 17, 71, filter)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	}
}

func BenchmarkResize(b *testing.B) {
	p := randomPlanes(3, 1080, 1920)
	for name, filter := range map[string]Filter{
		"nearest": Nearest, "bilinear": Bilinear, "bilinear antialias": BilinearAntialias, "bicubic antialias": BicubicAntialias,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Resize(p, 518, 924, filter); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNRGBA12MP(b *testing.B) {
	opaque := image.NewRGBA(image.Rect(0, 0, 4000, 3000))
	for i := range opaque.Pix {
		opaque.Pix[i] = 255
	}
	for name, img := range map[string]image.Image{
		"YCbCr": image.NewYCbCr(image.Rect(0, 0, 4000, 3000), image.YCbCrSubsampleRatio420),
		"RGBA":  opaque,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := NRGBA(img); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
