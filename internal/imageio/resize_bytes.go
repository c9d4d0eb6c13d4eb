// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package imageio

import (
	"image"
	"math"
)

// ResizeBytes resamples the colours of a picture to w x h with the weights of BilinearAntialias, in whole numbers: along
// the rows first, then along the columns, rounded to bytes after each (torch.nn.functional.interpolate of an array of
// uint8 with antialias). The result is opaque; transparency is ignored. img must come from NRGBA.
func ResizeBytes(img *image.NRGBA, w, h int) (*image.NRGBA, error) {
	in := img.Rect
	for _, size := range [][2]int{{in.Dx(), in.Dy()}, {w, h}, {w, in.Dy()}} {
		if err := checkPixels(size[0], size[1], math.MaxInt32/4); err != nil {
			return nil, err
		}
	}
	horizontal, vertical := newFixedBands(in.Dx(), w), newFixedBands(in.Dy(), h)
	narrow := image.NewNRGBA(image.Rect(0, 0, w, in.Dy()))
	ForRows(in.Dy(), rowsPerTask, func(lo, hi int) {
		for y := lo; y < hi; y++ {
			from, to := row(img, y), row(narrow, y)
			for x := range w {
				horizontal.mix(to[4*x:], from, x, 4)
			}
		}
	})
	out := image.NewNRGBA(image.Rect(0, 0, w, h))
	ForRows(h, rowsPerTask, func(lo, hi int) {
		for y := lo; y < hi; y++ {
			to := row(out, y)
			for x := range w {
				vertical.mix(to[4*x:], narrow.Pix[4*x:], y, narrow.Stride)
			}
		}
	})
	return out, nil
}

// fixedBands are bands whose weights are multiples of 2^-precision.
type fixedBands struct {
	start, offset []int
	weights       []int
	precision     uint
}

func newFixedBands(in, out int) fixedBands {
	b := fixedBands{start: make([]int, out), offset: make([]int, out+1)}
	var exact []float64
	largest := 0.0
	for i := range out {
		lo, weights := stretchedAt(in, out, i, 1, triangle)
		b.start[i], exact = lo, append(exact, weights...)
		b.offset[i+1] = len(exact)
		for _, w := range weights {
			largest = max(largest, w)
		}
	}
	// As many binary digits as keep the largest weight in a signed number of 16 bits.
	for b.precision < 22 && int(0.5+largest*float64(int(2)<<b.precision)) < 1<<15 {
		b.precision++
	}
	b.weights = make([]int, len(exact))
	for i, w := range exact {
		b.weights[i] = int(0.5 + w*float64(int(1)<<b.precision))
	}
	return b
}

// mix writes sample i of three channels and makes it opaque. The pixels lie stride apart.
func (b *fixedBands) mix(to, from []uint8, i, stride int) {
	half := 1 << b.precision >> 1
	red, green, blue := half, half, half
	at := b.start[i] * stride
	for _, weight := range b.weights[b.offset[i]:b.offset[i+1]] {
		pixel := from[at : at+3]
		red += weight * int(pixel[0])
		green += weight * int(pixel[1])
		blue += weight * int(pixel[2])
		at += stride
	}
	to[0], to[1], to[2], to[3] = b.byte(red), b.byte(green), b.byte(blue), 255
}

func (b *fixedBands) byte(sum int) uint8 { return uint8(min(sum>>b.precision, 255)) }
