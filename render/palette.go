// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package render

import (
	"context"
	"image"
	"image/color"
	"math"
)

const (
	binBits = 6 // of a channel in the histogram of colours
	bins    = 1 << (3 * binBits)
	binSize = 1 << (8 - binBits)
)

// rgb is a colour, from 0 to 255.
type rgb [3]float32

func (c rgb) distance2(o rgb) float32 {
	r, g, b := c[0]-o[0], c[1]-o[1], c[2]-o[2]
	return r*r + g*g + b*b
}

// palette is a set of up to 256 colours, with the nearest one to every bin of the histogram.
type palette struct {
	colors      color.Palette
	values      []rgb // of opaque colours
	transparent bool  // the entry after them is for pixels without colour
	nearest     []uint8
	spread      float32          // how far dithering moves a colour
	exact       map[uint32]uint8 // colours that have an entry of their own
}

// newPalette makes a palette for all frames. The first entry is the corner of the first frame, which is the background
// if there is one; the others divide the histogram.
func newPalette(ctx context.Context, frames []*image.RGBA) (*palette, error) {
	p := &palette{exact: map[uint32]uint8{}, nearest: make([]uint8, bins)}
	h := newHistogram()
	for _, frame := range frames {
		h.add(frame)
	}
	p.transparent = h.transparent
	filled := h.filled()
	p.values = []rgb{frameCorner(frames[0])}
	p.values = append(p.values, medianCut(filled, 254)...)
	for range 4 {
		if err := p.improve(ctx, filled); err != nil {
			return nil, err
		}
	}
	for i, v := range p.values {
		c := color.RGBA{uint8(v[0] + 0.5), uint8(v[1] + 0.5), uint8(v[2] + 0.5), 255}
		p.colors = append(p.colors, c)
		p.values[i] = rgb{float32(c.R), float32(c.G), float32(c.B)}
		if _, known := p.exact[colorKey(c.R, c.G, c.B)]; !known {
			p.exact[colorKey(c.R, c.G, c.B)] = uint8(i)
		}
	}
	if p.transparent {
		p.colors = append(p.colors, color.RGBA{})
	}
	p.spread = p.spacing(filled)
	err := inChunks(ctx, bins, bins/64, func(start, end int) {
		for i := start; i < end; i++ {
			p.nearest[i] = uint8(p.closest(binCenter(i)))
		}
	})
	return p, err
}

func colorKey(r, g, b uint8) uint32 { return uint32(r)<<16 | uint32(g)<<8 | uint32(b) }

func frameCorner(frame *image.RGBA) rgb {
	r, g, b, _ := opaqueColor(frame.Pix[:4])
	return rgb{float32(r), float32(g), float32(b)}
}

// closest returns the nearest entry to a colour, the first of equally near ones.
func (p *palette) closest(c rgb) int {
	best, least := 0, float32(math.Inf(1))
	for i, v := range p.values {
		if d := v.distance2(c); d < least {
			best, least = i, d
		}
	}
	return best
}

// assign returns the entry nearest to each bin.
func (p *palette) assign(ctx context.Context, filled []bin) ([]int, error) {
	owners := make([]int, len(filled))
	err := inChunks(ctx, len(filled), 1024, func(start, end int) {
		for i := start; i < end; i++ {
			owners[i] = p.closest(filled[i].mean)
		}
	})
	return owners, err
}

// improve moves every entry but the first to the mean of the bins nearest to it.
func (p *palette) improve(ctx context.Context, filled []bin) error {
	owners, err := p.assign(ctx, filled)
	if err != nil {
		return err
	}
	sums := make([][4]float64, len(p.values))
	for i, owner := range owners {
		b := filled[i]
		for k, x := range b.mean {
			sums[owner][k] += b.weight * float64(x)
		}
		sums[owner][3] += b.weight
	}
	for i, s := range sums {
		if i > 0 && s[3] > 0 {
			p.values[i] = rgb{float32(s[0] / s[3]), float32(s[1] / s[3]), float32(s[2] / s[3])}
		}
	}
	return nil
}

// spacing returns about how far entries lie apart: twice the mean distance of colours to their entry, at most 48.
func (p *palette) spacing(filled []bin) float32 {
	sum, weight := 0.0, 0.0
	for _, b := range filled {
		sum += b.weight * math.Sqrt(float64(p.values[p.closest(b.mean)].distance2(b.mean)))
		weight += b.weight
	}
	if weight == 0 {
		return 0
	}
	return float32(min(2*sum/weight, 48))
}

// dither returns a frame in the palette's colours.
func (p *palette) dither(frame *image.RGBA) *image.Paletted {
	size := frame.Rect.Size()
	out := image.NewPaletted(image.Rect(0, 0, size.X, size.Y), p.colors)
	for y := range size.Y {
		row := frame.Pix[y*frame.Stride:][:4*size.X]
		for x := range size.X {
			out.Pix[y*out.Stride+x] = p.index(row[4*x:4*x+4], x, y)
		}
	}
	return out
}

// index returns the entry for a pixel at x, y.
func (p *palette) index(pixel []uint8, x, y int) uint8 {
	r, g, b, ok := opaqueColor(pixel)
	if !ok {
		return uint8(len(p.values))
	}
	if i, ok := p.exact[colorKey(r, g, b)]; ok {
		return i
	}
	shift := p.spread * bayer[y&7][x&7]
	moved := func(c uint8) int { return int(min(max(float32(c)+shift, 0), 255)) }
	return p.nearest[binIndex(moved(r), moved(g), moved(b))]
}

// bayer is the 8x8 threshold matrix of ordered dithering (Bayer 1973), from -1/2 to 1/2.
var bayer = func() (m [8][8]float32) {
	for y := range m {
		for x := range m[y] {
			v := 0
			for bit := range 3 {
				v = v<<2 | (x^y)>>bit&1<<1 | y>>bit&1
			}
			m[y][x] = (float32(v)+0.5)/64 - 0.5
		}
	}
	return m
}()
