// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package imageio

import (
	"image"
	"math"
	"sync"
)

// Filter is a way of resampling. All but Nearest place samples at pixel centres (PyTorch's align_corners=False).
type Filter int

// The filters, as torch.nn.functional.interpolate computes them on float32 arrays.
const (
	// Nearest takes pixel floor(i*in/out), with the products in float32.
	Nearest Filter = iota
	// Bilinear takes the two nearest pixels of each axis whatever the scale, so that shrinking skips pixels.
	Bilinear
	// BilinearAntialias weighs with a triangle that grows with the scale when shrinking.
	BilinearAntialias
	// BicubicAntialias weighs with Keys' cubic of a = -0.5, which grows with the scale when shrinking. Values are not
	// clamped and may leave the range of the input.
	BicubicAntialias
)

// Resize resamples every plane to h x w. When the size fits already, the result shares the memory of p.
// NaN spreads to every sample that touches it, weight zero included.
func Resize(p Planes, h, w int, filter Filter) (Planes, error) {
	if err := p.check(); err != nil {
		return Planes{}, err
	}
	if err := checkPixels(w, h, math.MaxInt32/p.C); err != nil {
		return Planes{}, err
	}
	if h == p.H && w == p.W {
		return p, nil
	}
	if filter == Nearest {
		return resizeNearest(p, h, w), nil
	}
	horizontal, err := newBands(p.W, w, filter)
	if err != nil {
		return Planes{}, err
	}
	vertical, err := newBands(p.H, h, filter)
	if err != nil {
		return Planes{}, err
	}
	out := NewPlanes(p.C, h, w)
	separable(out, horizontal, vertical, func(y int, into [][]float32) bool {
		for c := range into {
			copy(into[c], p.Row(c, y))
		}
		return true
	})
	return out, nil
}

// ResizeRGB resamples the part of a picture inside window to [3, h, w] in 0..1. Pixels of the window outside keep, or
// outside the picture, are black. It equals cutting out the window, filling it up and resizing it, without the copies.
// img must come from NRGBA; filter must not be Nearest.
func ResizeRGB(img *image.NRGBA, window, keep image.Rectangle, h, w int, filter Filter) (Planes, error) {
	if err := checkPixels(w, h, math.MaxInt32/3); err != nil {
		return Planes{}, err
	}
	if err := checkPixels(window.Dx(), window.Dy(), math.MaxInt32); err != nil {
		return Planes{}, err
	}
	horizontal, err := newBands(window.Dx(), w, filter)
	if err != nil {
		return Planes{}, err
	}
	vertical, err := newBands(window.Dy(), h, filter)
	if err != nil {
		return Planes{}, err
	}
	keep = keep.Intersect(window).Intersect(img.Rect)
	lo, hi := keep.Min.X-window.Min.X, keep.Max.X-window.Min.X
	out := NewPlanes(3, h, w)
	separable(out, horizontal, vertical, func(y int, into [][]float32) bool {
		y += window.Min.Y
		if keep.Empty() || y < keep.Min.Y || y >= keep.Max.Y {
			return false
		}
		pix := img.Pix[img.PixOffset(keep.Min.X, y):][:4*keep.Dx()]
		unitRow(pix, into[0][lo:hi], into[1][lo:hi], into[2][lo:hi]) // the rest stays zero from the start
		return true
	})
	return out, nil
}

// NearestIndex returns, for each of out samples, which of in pixels filter Nearest takes. The arithmetic is float32, as
// in the original: exact integers differ for some sizes (70 to 518 at seven places).
func NearestIndex(in, out int) []int {
	index := make([]int, out)
	scale := float32(in) / float32(out)
	for i := range index {
		index[i] = i
		if in != out {
			index[i] = min(int(float32(i)*scale), in-1)
		}
	}
	return index
}

func resizeNearest(p Planes, h, w int) Planes {
	out := NewPlanes(p.C, h, w)
	rows, columns := NearestIndex(p.H, h), NearestIndex(p.W, w)
	ForRows(h, rowsPerTask, func(lo, hi int) {
		for c := range p.C {
			for y := lo; y < hi; y++ {
				from, to := p.Row(c, rows[y]), out.Row(c, y)
				for x, i := range columns {
					to[x] = from[i]
				}
			}
		}
	})
	return out
}

// separable fills out with the weighted sums of a source: along the rows first, then along the columns. load writes
// source row y, one slice a channel, and returns false if the row is all zero; it is called from several goroutines,
// each with slices of its own that hold what its previous call left there (zeros at first).
func separable(out Planes, horizontal, vertical bands, load func(y int, into [][]float32) bool) {
	// Each worker resamples the source rows that a few output rows need: the rows between two workers are resampled
	// twice, and in return the intermediate rows stay in the cache.
	const outputRows = 32
	width := out.C * out.W
	type buffers struct {
		source [][]float32 // [C][source width]
		rows   []float32   // [source rows of the task, C, out.W]
	}
	pool := sync.Pool{New: func() any {
		b := &buffers{source: make([][]float32, out.C)}
		for c := range b.source {
			b.source[c] = make([]float32, horizontal.in)
		}
		return b
	}}
	ForRows(out.H, outputRows, func(lo, hi int) {
		b := pool.Get().(*buffers)
		defer pool.Put(b)
		first, last := vertical.span(lo, hi)
		if need := (last - first) * width; cap(b.rows) < need {
			b.rows = make([]float32, need)
		}
		rows := b.rows[:(last-first)*width]
		for y := first; y < last; y++ {
			into := rows[(y-first)*width:][:width]
			if !load(y, b.source) {
				clear(into)
				continue
			}
			for c := range out.C {
				horizontal.apply(into[c*out.W:][:out.W], b.source[c])
			}
		}
		for y := lo; y < hi; y++ {
			start, weights := vertical.at(y)
			for c := range out.C {
				sumRows(out.Row(c, y), rows[(start-first)*width+c*out.W:], width, weights)
			}
		}
	})
}

// sumRows adds up rows that lie stride apart, weighted.
func sumRows(to, rows []float32, stride int, weights []float32) {
	for k, weight := range weights {
		from := rows[k*stride:][:len(to)]
		if k == 0 {
			for x, v := range from {
				to[x] = weight * v
			}
			continue
		}
		for x, v := range from {
			to[x] += weight * v
		}
	}
}
