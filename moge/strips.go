// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"context"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/internal/imageio"
	"github.com/gomlx3d/image3d/internal/nn"
)

// stripPixels is about how many pixels the output branches work on at a time. At the working size the features of a
// whole picture would take more memory than all weights of the head.
const stripPixels = 1 << 16

// halo is the number of rows that a strip needs on each side. With residual blocks, whose norms look at the whole
// picture, or with a second convolution that pads by itself, there can be one strip only, which needs none.
func (c TrunkConfig) halo() int {
	if c.LastResBlocks > 0 || c.LastKernel > 1 {
		return 0
	}
	return 1
}

// taps are the two source pixels of each sample along an axis and the share of the second, for linear interpolation
// between pixel centres with clamped borders (PyTorch's interpolate with align_corners false).
type taps struct {
	first, second []int32
	share         []float32
}

func newTaps(in, out int) taps {
	t := taps{make([]int32, out), make([]int32, out), make([]float32, out)}
	scale := float32(in) / float32(out)
	for i := range out {
		source := max((float32(i)+0.5)*scale-0.5, 0)
		first := min(int(source), in-1)
		t.first[i], t.second[i] = int32(first), int32(min(first+1, in-1))
		t.share[i] = source - float32(first)
	}
	return t
}

// rows returns the taps of the samples lo to hi-1, where samples beyond the ends repeat the outermost.
func (t taps) rows(lo, hi int) taps {
	return taps{clamped(t.first, lo, hi), clamped(t.second, lo, hi), clamped(t.share, lo, hi)}
}

// clamped returns the elements lo to hi-1, where those beyond the ends repeat the outermost.
func clamped[T any](all []T, lo, hi int) []T {
	out := make([]T, 0, hi-lo)
	for i := lo; i < hi; i++ {
		out = append(out, all[min(max(i, 0), len(all)-1)])
	}
	return out
}

// evaluate enlarges the features to the working size and evaluates the output branches, in strips of rows of equal
// height, so that one compiled program serves all. The last strip may overlap the one before.
//
//	x   [1, 8 rows, 8 cols, C] on the device
//	out [4, height, width]
func (t *trunk) evaluate(ctx context.Context, size working, x *tensors.Tensor) (out imageio.Planes, err error) {
	halo := t.cfg.Trunk.halo()
	count := 1
	if halo > 0 {
		count = min(size.height, (size.height*size.width+t.strip-1)/t.strip)
	}
	height := (size.height + count - 1) / count
	rows, cols := newTaps(8*size.rows, size.height), newTaps(8*size.cols, size.width)
	u, v := size.coordinates(size.height, size.width)
	out = imageio.NewPlanes(4, size.height, size.width)
	for start := 0; start < size.height; start += height {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		lo := min(start, size.height-height)
		part := rows.rows(lo-halo, lo+height+halo)
		strip, err := t.branching.Call1(t.output, x, part.first, part.second, part.share, cols.first, cols.second, cols.share,
			u, clamped(v, lo-halo, lo+height+halo))
		if err != nil {
			return out, err
		}
		err = fill(out, strip, lo, height)
		nn.Free(strip)
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// fill copies a strip [C, height, width] into rows lo and on.
func fill(out imageio.Planes, strip *tensors.Tensor, lo, height int) error {
	return tensors.ConstFlatData(strip, func(flat []float32) {
		n := height * out.W
		for c := range out.C {
			copy(out.Data[(c*out.H+lo)*out.W:][:n], flat[c*n:])
		}
	})
}
