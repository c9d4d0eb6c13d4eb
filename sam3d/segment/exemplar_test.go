// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// bilinearAt is a bilinear sample of a map, with the rule of roi_align for what lies outside.
func bilinearAt(cells []float64, side int, x, y float64) float64 {
	if y < -1 || y > float64(side) || x < -1 || x > float64(side) {
		return 0
	}
	x, y = min(max(x, 0), float64(side-1)), min(max(y, 0), float64(side-1))
	x0, y0 := int(x), int(y)
	x1, y1 := min(x0+1, side-1), min(y0+1, side-1)
	fx, fy := x-float64(x0), y-float64(y0)
	return cells[y0*side+x0]*(1-fy)*(1-fx) + cells[y0*side+x1]*(1-fy)*fx + cells[y1*side+x0]*fy*(1-fx) + cells[y1*side+x1]*fy*fx
}

// TestPoolWeights compares the products of the axes' weights with samples in two dimensions, for boxes that leave the
// map too.
func TestPoolWeights(t *testing.T) {
	const side, bins = 9, 3
	r := rand.New(rand.NewPCG(1, 1))
	cells := make([]float64, side*side)
	for i := range cells {
		cells[i] = r.Float64()
	}
	for range 100 {
		x0, y0 := r.Float64()*14-3, r.Float64()*14-3
		x1, y1 := x0+r.Float64()*r.Float64()*12, y0+r.Float64()*r.Float64()*12
		rows, cols := poolWeights(float32(y0), float32(y1), side, bins), poolWeights(float32(x0), float32(x1), side, bins)
		width, height := max(x1-x0, 1)/bins, max(y1-y0, 1)/bins
		nx, ny := math.Ceil(width), math.Ceil(height)
		for by := range bins {
			for bx := range bins {
				want, got := 0.0, 0.0
				for sy := 0.5; sy < ny; sy++ {
					for sx := 0.5; sx < nx; sx++ {
						want += bilinearAt(cells, side, x0+(float64(bx)+sx/nx)*width, y0+(float64(by)+sy/ny)*height) / (nx * ny)
					}
				}
				for y := range side {
					for x := range side {
						got += float64(rows[by*side+y]) * float64(cols[bx*side+x]) * cells[y*side+x]
					}
				}
				require.InDelta(t, want, got, 1e-4, "box %g,%g to %g,%g", x0, y0, x1, y1)
			}
		}
	}
	huge := poolWeights(-1e30, 1e30, side, bins)
	require.Len(t, huge, bins*side)
}

func TestSampleWeights(t *testing.T) {
	require.Equal(t, []float32{0, 1, 0, 0}, sampleWeights(0.375, 4), "the centre of a cell")
	require.Equal(t, []float32{0, 0.5, 0.5, 0}, sampleWeights(0.5, 4))
	require.Equal(t, []float32{0.5, 0, 0, 0}, sampleWeights(0, 4), "half of it outside")
	require.Equal(t, []float32{0, 0, 0, 0.5}, sampleWeights(1, 4))
	require.Equal(t, []float32{0, 0}, sampleWeights(2, 2))
}

func TestPlaces(t *testing.T) {
	for n, want := range map[int]int{0: 4, 1: 4, 4: 4, 5: 8, 8: 8, 9: 16, 1000: 1024} {
		require.Equal(t, want, places(n), n)
	}
}

func TestTidy(t *testing.T) {
	const side = 8
	picture := []string{
		"########",
		"#.##...#",
		"##.#...#",
		"####...#",
		"########",
		"........",
		".#.....#",
		"......#.",
	}
	mask := Logits{Width: side, Height: side}
	for _, row := range picture {
		for _, c := range row {
			mask.Values = append(mask.Values, map[rune]float32{'#': 1, '.': -1}[c])
		}
	}
	before := slices.Clone(mask.Values)
	count := func(l Logits, value float32) (n int) {
		for _, v := range l.Values {
			if v == value {
				n++
			}
		}
		return n
	}
	require.Equal(t, 2, count(tidy(mask, 8, 0), filled), "two cells that touch at a corner")
	require.Equal(t, 2+9, count(tidy(mask, 9, 0), filled))
	require.Equal(t, 1, count(tidy(mask, 0, 1), -filled))
	require.Equal(t, 3, count(tidy(mask, 0, 2), -filled))
	require.Equal(t, mask, tidy(mask, 0, 0))
	require.Equal(t, before, mask.Values, "the mask itself stays")
	require.Equal(t, maxHole, maxHoleAt(holeSide))
}
