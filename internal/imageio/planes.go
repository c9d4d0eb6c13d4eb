// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package imageio

import (
	"fmt"
	"image"
)

// Planes is an array [C, H, W] of float32: one plane a channel, rows from top to bottom.
type Planes struct {
	C, H, W int
	Data    []float32
}

// NewPlanes returns planes of zeros. The sizes must not be negative.
func NewPlanes(c, h, w int) Planes { return Planes{C: c, H: h, W: w, Data: make([]float32, c*h*w)} }

// Row returns row y of channel c. It shares memory with p.
func (p Planes) Row(c, y int) []float32 {
	i := (c*p.H + y) * p.W
	return p.Data[i : i+p.W]
}

// check reports planes whose sizes and data do not fit.
func (p Planes) check() error {
	if p.C <= 0 || p.H <= 0 || p.W <= 0 || len(p.Data)/p.C/p.H != p.W || len(p.Data) != p.C*p.H*p.W {
		return fmt.Errorf("imageio: planes of %dx%dx%d with %d values", p.C, p.H, p.W, len(p.Data))
	}
	return nil
}

// unit holds v/255 for every byte, divided in float64 and rounded once to float32.
var unit = func() (table [256]float32) {
	for v := range table {
		table[v] = float32(float64(v) / 255)
	}
	return table
}()

// Unit returns v/255, correctly rounded.
func Unit(v uint8) float32 { return unit[v] }

// RGB returns the colours of a picture as [3, H, W] in 0..1. img must come from NRGBA.
func RGB(img *image.NRGBA) Planes {
	out := NewPlanes(3, img.Rect.Dy(), img.Rect.Dx())
	ForRows(out.H, rowsPerTask, func(lo, hi int) {
		for y := lo; y < hi; y++ {
			unitRow(row(img, y), out.Row(0, y), out.Row(1, y), out.Row(2, y))
		}
	})
	return out
}

// unitRow separates the colours of one row of pixels.
func unitRow(pix []uint8, r, g, b []float32) {
	for x := range r {
		p := pix[4*x : 4*x+4]
		r[x], g[x], b[x] = unit[p[0]], unit[p[1]], unit[p[2]]
	}
}
