// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"math"

	"github.com/gomlx3d/image3d/internal/imageio"
)

// points turns the network's first three values of each pixel into points.
//
//	values [3 or more, H, W]
//	out    [H, W, 3]
func (r Remap) points(values imageio.Planes) []float32 {
	out := make([]float32, 3*values.H*values.W)
	exp := func(x float32) float32 { return float32(math.Exp(float64(x))) }
	sinh := func(x float32) float32 { return float32(math.Sinh(float64(x))) }
	imageio.ForRows(values.H, rowsPerTask, func(lo, hi int) {
		for y := lo; y < hi; y++ {
			as, bs, cs := values.Row(0, y), values.Row(1, y), values.Row(2, y)
			for x := range as {
				a, b, c := as[x], bs[x], cs[x]
				switch r {
				case RemapExp:
					c = exp(c)
					a, b = a*c, b*c
				case RemapSinh:
					a, b, c = sinh(a), sinh(b), sinh(c)
				case RemapSinhExp:
					a, b, c = sinh(a), sinh(b), exp(c)
				}
				copy(out[3*(y*values.W+x):], []float32{a, b, c})
			}
		}
	})
	return out
}

// probabilities turns the values of a mask into shares of certainty, in place.
func probabilities(values []float32) []float32 {
	for i, x := range values {
		values[i] = float32(1 / (1 + math.Exp(-float64(x))))
	}
	return values
}

// unitVectors turns planes into vectors of length 1.
//
//	values [3, H, W]
//	out    [H, W, 3]
func unitVectors(values imageio.Planes) []float32 {
	out := make([]float32, len(values.Data))
	imageio.ForRows(values.H, rowsPerTask, func(lo, hi int) {
		for y := lo; y < hi; y++ {
			xs, ys, zs := values.Row(0, y), values.Row(1, y), values.Row(2, y)
			for i := range xs {
				x, y64, z := float64(xs[i]), float64(ys[i]), float64(zs[i])
				scale := 1 / max(math.Sqrt(x*x+y64*y64+z*z), 1e-12)
				copy(out[3*(y*values.W+i):], []float32{float32(x * scale), float32(y64 * scale), float32(z * scale)})
			}
		}
	})
	return out
}
