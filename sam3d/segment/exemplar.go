// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"math"
	"math/bits"
	"slices"

	"github.com/gomlx/gomlx/core/tensors"
)

// minExemplars is the smallest number of places for exemplar points, and for boxes, that programs are compiled for; the
// others are its doubles. Places that are not needed do not count.
const minExemplars = 4

// exemplars are the examples of one prompt. Coordinates are in 0..1 over the picture.
type exemplars struct {
	points []examplePoint
	boxes  []exampleBox
	global bool // whether there is a token for the exemplars as a whole; the original has one even without exemplars
}

type examplePoint struct {
	x, y     float32
	positive bool
}

// exampleBox is a box by its centre and size.
type exampleBox struct {
	x, y, w, h float32
	positive   bool
}

// exemplarInput is what the graph takes of the exemplars of a batch.
type exemplarInput struct {
	points, boxes int // places
	floats        map[string][]float32
	labels        map[string][]int32
	valid         []bool // [B, points+boxes+1]
}

// places is the number of places for n exemplars.
func places(n int) int { return powerAbove(n, minExemplars) }

// powerAbove is the smallest power of two that is neither below n nor below least, which is one.
func powerAbove(n, least int) int { return max(least, 1<<bits.Len(uint(max(n, 1)-1))) }

// newExemplarInput lays the exemplars of a batch out in as many places as the longest list needs.
func (c Config) newExemplarInput(batch []exemplars) *exemplarInput {
	in := &exemplarInput{floats: make(map[string][]float32), labels: make(map[string][]int32)}
	for _, e := range batch {
		in.points, in.boxes = max(in.points, places(len(e.points))), max(in.boxes, places(len(e.boxes)))
	}
	for _, e := range batch {
		for i := range in.points {
			point := examplePoint{}
			if i < len(e.points) {
				point = e.points[i]
			}
			c.putPoint(in, point)
			in.valid = append(in.valid, i < len(e.points))
		}
		for i := range in.boxes {
			box := exampleBox{}
			if i < len(e.boxes) {
				box = e.boxes[i]
			}
			c.putBox(in, box)
			in.valid = append(in.valid, i < len(e.boxes))
		}
		in.valid = append(in.valid, e.global)
	}
	return in
}

func (in *exemplarInput) put(name string, values ...float32) {
	in.floats[name] = append(in.floats[name], values...)
}

func (in *exemplarInput) label(name string, positive bool) {
	label := int32(0)
	if positive {
		label = 1
	}
	in.labels[name] = append(in.labels[name], label)
}

func (c Config) putPoint(in *exemplarInput, p examplePoint) {
	half, grid := c.ModelDim/2, c.grid()
	in.put("point", p.x, p.y)
	in.put("point place", append(sinusoid(float64(p.x), half), sinusoid(float64(p.y), half)...)...)
	in.put("point rows", sampleWeights(p.y, grid)...)
	in.put("point cols", sampleWeights(p.x, grid)...)
	in.label("point", p.positive)
}

func (c Config) putBox(in *exemplarInput, b exampleBox) {
	half, grid := c.ModelDim/2, c.grid()
	in.put("box", b.x, b.y, b.w, b.h)
	in.put("box place", append(append(sinusoid(float64(b.y), half), sinusoid(float64(b.x), half)...), b.h, b.w)...)
	in.put("box rows", poolWeights((b.y-0.5*b.h)*float32(grid), (b.y+0.5*b.h)*float32(grid), grid, c.RoISize)...)
	in.put("box cols", poolWeights((b.x-0.5*b.w)*float32(grid), (b.x+0.5*b.w)*float32(grid), grid, c.RoISize)...)
	in.label("box", b.positive)
}

// tensors returns the inputs in the order in which geometryTokens takes them.
func (in *exemplarInput) tensors(c Config, batch int) []*tensors.Tensor {
	grid, width := c.grid(), c.ModelDim
	floats := func(name string, dims ...int) *tensors.Tensor {
		return tensors.FromFlatDataAndDimensions(in.floats[name], append([]int{batch}, dims...)...)
	}
	return []*tensors.Tensor{
		floats("point", in.points, 2), floats("point place", in.points, width),
		floats("point rows", in.points, grid), floats("point cols", in.points, grid),
		tensors.FromFlatDataAndDimensions(in.labels["point"], batch, in.points),
		floats("box", in.boxes, 4), floats("box place", in.boxes, width+2),
		floats("box rows", in.boxes, c.RoISize, grid), floats("box cols", in.boxes, c.RoISize, grid),
		tensors.FromFlatDataAndDimensions(in.labels["box"], batch, in.boxes),
	}
}

// sampleWeights are the weights of the cells of one axis in a bilinear sample at v in 0..1, with zeros beyond the
// borders (grid_sample of PyTorch with align_corners false).
//
//	out [cells]
func sampleWeights(v float32, cells int) []float32 {
	out := make([]float32, cells)
	at := v*float32(cells) - 0.5
	first := float32(math.Floor(float64(at)))
	for i, weight := range []float32{1 - (at - first), at - first} {
		if cell := first + float32(i); cell >= 0 && cell < float32(cells) {
			out[int(cell)] = weight
		}
	}
	return out
}

// poolWeights are the weights of the cells of one axis in each bin that an interval is pooled to (roi_align of
// torchvision with aligned false and as many samples a bin as it has cells). What it pools is a product of such weights
// of the two axes.
//
//	lo, hi in cells; an interval shorter than one cell is taken for one cell long
//	out    [bins, cells]
func poolWeights(lo, hi float32, cells, bins int) []float32 {
	out := make([]float32, bins*cells)
	size := max(hi-lo, 1) / float32(bins) // of a bin
	// Beyond the map nothing counts, so that samples too dense to matter are not taken.
	samples := min(int(math.Ceil(float64(size))), maxPoolSamples)
	for bin := range bins {
		row := out[bin*cells : (bin+1)*cells]
		for s := range samples {
			at := lo + float32(bin)*size + (float32(s)+0.5)*size/float32(samples)
			if at < -1 || at > float32(cells) {
				continue
			}
			at = max(at, 0)
			first := min(int(at), cells-1)
			second := min(first+1, cells-1)
			part := at - float32(first)
			if first == second {
				part = 0
			}
			row[first] += (1 - part) / float32(samples)
			row[second] += part / float32(samples)
		}
	}
	return out
}

// maxPoolSamples bounds the samples of a bin. No box inside a picture comes near it.
const maxPoolSamples = 1 << 12

// exampleTokens returns which places of a prompt of the given batch count: those of the text, then those of in.
//
//	text [B][L]
//	out  [B, L+points+boxes+1]
func (in *exemplarInput) validWith(text [][]bool) []bool {
	var out []bool
	for i, own := range slices.Collect(slices.Chunk(in.valid, in.points+in.boxes+1)) {
		out = append(append(out, text[i]...), own...)
	}
	return out
}
