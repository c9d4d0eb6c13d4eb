// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package decoder

import (
	"fmt"
	"math"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/tensors"
)

// Released settings of the steps from logits to voxels.
const (
	PruneRadius      = 1      // of Prune
	MaxVoxels        = 42_000 // of Downsample
	DownsampleFactor = 2      // of Downsample
)

// Coordinates returns the occupied voxels of logits [B, C, X, Y, Z] float32, those above 0, as rows (batch, x, y, z) in
// the order of the array: ascending, if C is 1. A NaN is empty. It fails with ErrNoVoxels if all are empty.
func Coordinates(logits *tensors.Tensor) ([][4]int32, error) {
	if logits == nil || !logits.Ok() || logits.DType() != dtypes.Float32 || logits.Rank() != 5 {
		return nil, fmt.Errorf("%w: occupancy is not a float32 array of five axes", ErrInput)
	}
	dims := logits.Shape().Dimensions
	var coords [][4]int32
	err := tensors.ConstFlatData(logits, func(flat []float32) {
		for i, v := range flat {
			if !(v > 0) {
				continue
			}
			z, rest := i%dims[4], i/dims[4]
			y, rest := rest%dims[3], rest/dims[3]
			x, rest := rest%dims[2], rest/dims[2]
			coords = append(coords, [4]int32{int32(rest / dims[1]), int32(x), int32(y), int32(z)})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("decoder: read occupancy: %w", err)
	}
	if len(coords) == 0 {
		return nil, fmt.Errorf("%w among %d", ErrNoVoxels, logits.Size())
	}
	return coords, nil
}

// box returns the smallest and the largest coordinate along each axis.
func box(coords [][4]int32) (lo, hi [3]int32) {
	lo, hi = [3]int32(coords[0][1:]), [3]int32(coords[0][1:])
	for _, c := range coords {
		for axis := range 3 {
			lo[axis], hi[axis] = min(lo[axis], c[axis+1]), max(hi[axis], c[axis+1])
		}
	}
	return lo, hi
}

// Prune removes the voxels inside the object: those whose (2 radius + 1)³ surroundings are all occupied. Beyond the
// bounding box of all voxels is empty. The order is kept, and all batch items count as one object, as in the original
// (prune_sparse_structure). A radius of 0 removes none. It fails with ErrInput if the bounding box has more than 2^27
// cells.
func Prune(coords [][4]int32, radius int) ([][4]int32, error) {
	if radius < 0 {
		return nil, fmt.Errorf("%w: prune radius %d is negative", ErrInput, radius)
	}
	if radius == 0 || len(coords) == 0 {
		return coords, nil
	}
	lo, hi := box(coords)
	var size [3]int
	cells := 1
	for axis := range size {
		size[axis] = int(hi[axis]) - int(lo[axis]) + 1
		if size[axis] > maxCells/cells {
			return nil, fmt.Errorf("%w: voxels span %v to %v, too far to prune", ErrInput, lo, hi)
		}
		cells *= size[axis]
	}
	cell := func(c [4]int32) int {
		return (int(c[1]-lo[0])*size[1]+int(c[2]-lo[1]))*size[2] + int(c[3]-lo[2])
	}
	inside := make([]bool, cells)
	for _, c := range coords {
		inside[cell(c)] = true
	}
	for axis, stride := 2, 1; axis >= 0; axis-- {
		erode(inside, size[axis], stride, radius)
		stride *= size[axis]
	}
	return slices.Collect(func(yield func([4]int32) bool) {
		for _, c := range coords {
			if !inside[cell(c)] && !yield(c) {
				return
			}
		}
	}), nil
}

// erode clears, along one axis of length size, the cells that are within radius of a clear one or of the end.
func erode(grid []bool, size, stride, radius int) {
	for start := range grid {
		if start/stride%size != 0 {
			continue // not the first of a line
		}
		run := 0 // length of the run of set cells that ends before i
		for i := range size + 1 {
			if i < size && grid[start+i*stride] {
				run++
				continue
			}
			// The run covers i-run to i-1: only its middle stays.
			for k := range min(run, radius) {
				grid[start+(i-run+k)*stride] = false
				grid[start+(i-1-k)*stride] = false
			}
			run = 0
		}
	}
}

// Downsample shrinks the object by factor about its centre if it has more than limit voxels, and returns the new voxels
// in ascending order and the factor, or the same voxels and 1 (downsample_sparse_structure of the original). Rounding
// follows the original to the last cell: float32, halves to even, an axis of one cell moves one down.
//
// If there are more than limit voxels even so, limit of them are kept, spread evenly over the order: rows i*n/limit.
// The original keeps a random subset.
func Downsample(coords [][4]int32, limit, factor int) ([][4]int32, int, error) {
	if limit < 1 || factor < 1 {
		return nil, 0, fmt.Errorf("%w: downsample to %d voxels by %d, must be positive", ErrInput, limit, factor)
	}
	if len(coords) <= limit {
		return coords, 1, nil
	}
	lo, hi := box(coords)
	var axes [3]shrink
	for axis := range axes {
		axes[axis] = newShrink(float32(lo[axis]), float32(hi[axis]), float32(factor))
	}
	out := make([][4]int32, len(coords))
	for i, c := range coords {
		out[i] = [4]int32{c[0], axes[0].at(c[1]), axes[1].at(c[2]), axes[2].at(c[3])}
	}
	slices.SortFunc(out, func(a, b [4]int32) int { return slices.Compare(a[:], b[:]) })
	out = slices.Compact(out)
	if n := len(out); n > limit {
		for i := range limit {
			out[i] = out[i*n/limit]
		}
		out = out[:limit]
	}
	return out, factor, nil
}

// shrink maps the cells lo to hi of one axis to fewer, with the same centre. Its operations and their order are those of
// the original, in float32; the conversions keep the compiler from fusing them.
type shrink struct {
	lo, span, target1, start float32
	lower, upper             float32
}

func newShrink(lo, hi, factor float32) shrink {
	size := float32(hi-lo) + 1
	target := size / factor
	start := lo + float32((size-target)/2)
	end := float32(start+target) - 1
	return shrink{
		lo: lo, span: hi - lo, target1: target - 1, start: start,
		lower: float32(math.Trunc(float64(start))), upper: float32(math.Trunc(float64(end))),
	}
}

func (s shrink) at(c int32) int32 {
	y := float32(float32(float32(float32(c)-s.lo)/s.span)*s.target1) + s.start
	y = float32(math.RoundToEven(float64(y)))
	if math.IsNaN(float64(y)) { // 0/0: an axis of one cell
		y = s.lower
	}
	return int32(min(max(y, s.lower), s.upper)) // the upper bound wins where they cross
}
