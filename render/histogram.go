// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"image"
	"math"
	"slices"
)

// bin is what a histogram knows of similar colours. Its weight is the square root of how many pixels there are, so that
// small parts get colours next to large plain ones.
type bin struct {
	mean   rgb
	weight float64
}

func binIndex(r, g, b int) int {
	const drop = 8 - binBits
	return r>>drop<<(2*binBits) | g>>drop<<binBits | b>>drop
}

// binCenter returns the colour in the middle of a bin.
func binCenter(i int) rgb {
	at := func(shift int) float32 { return (float32(i>>shift&(1<<binBits-1)) + 0.5) * binSize }
	return rgb{at(2 * binBits), at(binBits), at(0)}
}

// histogram counts colours.
type histogram struct {
	sums        [][4]uint64 // [bins] red, green, blue, and the number of pixels
	transparent bool        // there are pixels without colour
}

func newHistogram() *histogram { return &histogram{sums: make([][4]uint64, bins)} }

func (h *histogram) add(frame *image.RGBA) {
	for y := range frame.Rect.Dy() {
		row := frame.Pix[y*frame.Stride:][:4*frame.Rect.Dx()]
		for i := 0; i < len(row); i += 4 {
			r, g, b, ok := opaqueColor(row[i : i+4])
			if !ok {
				h.transparent = true
				continue
			}
			s := &h.sums[binIndex(int(r), int(g), int(b))]
			s[0] += uint64(r)
			s[1] += uint64(g)
			s[2] += uint64(b)
			s[3]++
		}
	}
}

// filled returns the bins with pixels.
func (h *histogram) filled() []bin {
	var out []bin
	for _, s := range h.sums {
		if n := float64(s[3]); n > 0 {
			mean := rgb{float32(float64(s[0]) / n), float32(float64(s[1]) / n), float32(float64(s[2]) / n)}
			out = append(out, bin{mean, math.Sqrt(n)})
		}
	}
	return out
}

// opaqueColor returns the colour of a pixel without its alpha; ok is false if it is mostly transparent.
func opaqueColor(p []uint8) (r, g, b uint8, ok bool) {
	a := int(p[3])
	if a == 255 {
		return p[0], p[1], p[2], true
	}
	if a < 128 {
		return 0, 0, 0, false
	}
	whole := func(c uint8) uint8 { return uint8(min(255, (int(c)*255+a/2)/a)) }
	return whole(p[0]), whole(p[1]), whole(p[2]), true
}

// group is a part of the histogram.
type group struct {
	bins  []bin
	mean  rgb
	axis  int     // along which colours differ most
	error float64 // weighted sum of squares of these differences
}

func newGroup(bins []bin) group {
	g := group{bins: bins}
	var sum, square [3]float64
	weight := 0.0
	for _, b := range bins {
		weight += b.weight
		for k, x := range b.mean {
			sum[k] += b.weight * float64(x)
			square[k] += b.weight * float64(x) * float64(x)
		}
	}
	for k := range sum {
		g.mean[k] = float32(sum[k] / weight)
		if e := square[k] - sum[k]*sum[k]/weight; e > g.error {
			g.axis, g.error = k, e
		}
	}
	return g
}

// split divides a group of two bins or more at its mean.
func (g group) split() (low, high group) {
	slices.SortStableFunc(g.bins, func(a, b bin) int { return cmp.Compare(a.mean[g.axis], b.mean[g.axis]) })
	at, _ := slices.BinarySearchFunc(g.bins, g.mean[g.axis], func(b bin, x float32) int { return cmp.Compare(b.mean[g.axis], x) })
	at = min(max(at, 1), len(g.bins)-1)
	return newGroup(g.bins[:at]), newGroup(g.bins[at:])
}

// medianCut returns the mean colours of at most n groups of bins. It divides the group with the largest error first,
// at its mean (after Heckbert 1982).
func medianCut(filled []bin, n int) []rgb {
	if len(filled) == 0 {
		return nil
	}
	groups := []group{newGroup(slices.Clone(filled))}
	for len(groups) < n {
		worst, most := -1, 0.0
		for i, g := range groups {
			if g.error > most && len(g.bins) > 1 {
				worst, most = i, g.error
			}
		}
		if worst < 0 {
			break
		}
		low, high := groups[worst].split()
		groups[worst] = low
		groups = append(groups, high)
	}
	means := make([]rgb, len(groups))
	for i, g := range groups {
		means[i] = g.mean
	}
	return means
}
