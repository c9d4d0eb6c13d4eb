// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package imageio

import (
	"fmt"
	"math"
)

// bands holds, for every sample of an axis, the consecutive pixels it is made of and their weights.
type bands struct {
	in      int
	start   []int     // first pixel of each sample
	offset  []int     // of its weights, and one more
	weights []float32 // of all samples
}

func (b *bands) at(i int) (start int, weights []float32) {
	return b.start[i], b.weights[b.offset[i]:b.offset[i+1]]
}

// span returns the range of pixels that the samples lo..hi-1 are made of.
func (b *bands) span(lo, hi int) (first, last int) {
	first, last = b.in, 0
	for i := lo; i < hi; i++ {
		start, weights := b.at(i)
		first, last = min(first, start), max(last, start+len(weights))
	}
	return first, last
}

func (b *bands) apply(to, from []float32) {
	for i := range to {
		start, weights := b.at(i)
		var sum float32
		for k, v := range from[start:][:len(weights)] {
			sum += weights[k] * v
		}
		to[i] = sum
	}
}

// newBands computes the weights of an axis that goes from in pixels to out samples.
func newBands(in, out int, filter Filter) (bands, error) {
	switch filter {
	case Bilinear:
		return twoPixels(in, out), nil
	case BilinearAntialias:
		return stretched(in, out, 1, triangle), nil
	case BicubicAntialias:
		return stretched(in, out, 2, keys), nil
	}
	return bands{}, fmt.Errorf("imageio: filter %d has no weights", filter)
}

func emptyBands(in, out int) bands {
	return bands{in: in, start: make([]int, 0, out), offset: make([]int, 1, out+1)}
}

// push adds a sample.
func (b *bands) push(start int, weights ...float32) {
	b.start = append(b.start, start)
	b.weights = append(b.weights, weights...)
	b.offset = append(b.offset, len(b.weights))
}

// twoPixels is plain linear interpolation between the centres of neighbouring pixels.
func twoPixels(in, out int) bands {
	b := emptyBands(in, out)
	for i := range out {
		c := max((float64(i)+0.5)*float64(in)/float64(out)-0.5, 0)
		first := min(int(c), in-1)
		if part := float32(c - float64(first)); first+1 < in {
			b.push(first, 1-part, part)
		} else {
			b.push(first, 1)
		}
	}
	return b
}

// stretched weighs pixels with a kernel of the given radius, made wider by the scale when shrinking.
func stretched(in, out int, radius float64, kernel func(float64) float64) bands {
	b := emptyBands(in, out)
	for i := range out {
		lo, weights := stretchedAt(in, out, i, radius, kernel)
		b.push(lo)
		for _, w := range weights {
			b.weights = append(b.weights, float32(w))
		}
		b.offset[i+1] = len(b.weights)
	}
	return b
}

// stretchedAt returns the pixels of one sample of stretched: the first, and the weights of it and those after it. They
// add up to 1, also where the border cuts the kernel off.
func stretchedAt(in, out, i int, radius float64, kernel func(float64) float64) (lo int, weights []float64) {
	scale := float64(in) / float64(out)
	stretch := max(scale, 1)
	support := radius * stretch
	c := scale * (float64(i) + 0.5)
	lo, hi := max(int(c-support+0.5), 0), min(int(c+support+0.5), in)
	sum := 0.0
	for j := lo; j < hi; j++ {
		w := kernel((float64(j) + 0.5 - c) / stretch)
		weights, sum = append(weights, w), sum+w
	}
	for k := range weights {
		weights[k] /= sum
	}
	return lo, weights
}

func triangle(x float64) float64 { return max(0, 1-math.Abs(x)) }

// keys is the cubic convolution kernel with a = -0.5 (Keys 1981).
func keys(x float64) float64 {
	const a = -0.5
	x = math.Abs(x)
	switch {
	case x < 1:
		return ((a+2)*x-(a+3))*x*x + 1
	case x < 2:
		return ((a*x-5*a)*x+8*a)*x - 4*a
	}
	return 0
}
