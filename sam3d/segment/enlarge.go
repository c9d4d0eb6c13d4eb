// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"image"

	"github.com/gomlx3d/image3d/internal/imageio"
)

// enlargedRows is how many rows of an enlarged mask a goroutine makes at a time.
const enlargedRows = 32

// tap is what a cell of an enlarged axis is made of: two cells of the small one, and the share of the second.
type tap struct {
	first, second int
	share         float32
}

// taps returns the taps of a bilinear resize from in to out cells, whose centres lie half a cell from the borders.
func taps(in, out int) []tap {
	list := make([]tap, out)
	for i := range list {
		at := max((float64(i)+0.5)*float64(in)/float64(out)-0.5, 0)
		first := int(at)
		list[i] = tap{first, min(first+1, in-1), float32(at - float64(first))}
	}
	return list
}

// enlarge resizes a map to a picture's size, first along its rows, of which there are fewer before, and calls use for
// every row of the result, several at once. The row is only lent.
//
//	values [rows, cols]
func enlarge(values []float32, rows, cols, height, width int, use func(y int, row []float32)) {
	across, down := taps(cols, width), taps(rows, height)
	wide := make([]float32, rows*width)
	imageio.ForRows(rows, enlargedRows, func(lo, hi int) {
		for y := lo; y < hi; y++ {
			in, out := values[y*cols:(y+1)*cols], wide[y*width:(y+1)*width]
			for x, t := range across {
				a := in[t.first]
				out[x] = a + t.share*(in[t.second]-a)
			}
		}
	})
	imageio.ForRows(height, enlargedRows, func(lo, hi int) {
		row := make([]float32, width)
		for y := lo; y < hi; y++ {
			t := down[y]
			above, below := wide[t.first*width:(t.first+1)*width], wide[t.second*width:(t.second+1)*width]
			below = below[:len(above)]
			row = row[:len(above)]
			for x, a := range above {
				row[x] = a + t.share*(below[x]-a)
			}
			use(y, row)
		}
	})
}

// enlargedMask resizes a square of logits to a picture's size and cuts it at zero: 255 above and 0 elsewhere.
func enlargedMask(logits []float32, side, width, height int) *image.Gray {
	out := image.NewGray(image.Rect(0, 0, width, height))
	enlarge(logits, side, side, height, width, func(y int, row []float32) {
		pix := out.Pix[y*width : (y+1)*width][:len(row)]
		for x, v := range row {
			inside := uint8(0)
			if v > 0 {
				inside = 255
			}
			pix[x] = inside
		}
	})
	return out
}
