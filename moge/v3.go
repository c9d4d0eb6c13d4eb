// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/internal/imageio"
)

// V3 is the released MoGe-3 of the MLX port, moge-3-vitl.
func V3() Config {
	c := V2()
	c.Version = 3
	c.Refiner = &RefinerConfig{
		FeatureDim: 1026, Channels: []int{32, 64, 128, 256, 512},
		DownBlocks: []int{1, 1, 1, 1, 1}, UpBlocks: []int{1, 1, 1, 1}, BottleneckBlocks: 1, Resolution: 256,
	}
	return c
}

const (
	defaultRounds = 3
	maxRounds     = 100
)

// RefinerConfig is the sparse U-Net of MoGe-3, which corrects the logarithm of the depth. Its voxels are the pixels of
// the points head's map at bins of that logarithm; each level joins two of them along each axis.
type RefinerConfig struct {
	FeatureDim       int   // channels of the encoder's features with the coordinates (1026)
	Channels         []int // width of a level, the finest first (32, 64, 128, 256, 512); as many levels as the neck has
	DownBlocks       []int // residual blocks of a level on the way down (1)
	UpBlocks         []int // and on the way up, the second coarsest level first (1)
	BottleneckBlocks int   // residual blocks of the coarsest level between (1)
	Resolution       int   // bins to a factor e of the depth (256)
}

func (c Config) validateRefiner() error {
	r, levels := c.Refiner, c.Pyramid.Neck.levels()
	if c.Remap != RemapExp {
		return fmt.Errorf("%w: MoGe-3 with the remap %q", ErrConfig, c.Remap)
	}
	if r == nil {
		return nil
	}
	if len(r.Channels) != levels || len(r.DownBlocks) != levels || len(r.UpBlocks) != levels-1 {
		return fmt.Errorf("%w: the lists of the refiner have %d, %d and %d entries for the %d levels of the neck", ErrConfig,
			len(r.Channels), len(r.DownBlocks), len(r.UpBlocks), levels)
	}
	bounds := []bound{
		{"FeatureDim of the refiner", r.FeatureDim, c.Pyramid.FeatureDim + uvDim, c.Pyramid.FeatureDim + uvDim},
		{"BottleneckBlocks", r.BottleneckBlocks, 0, maxBlocks}, {"Resolution", r.Resolution, 1, 1 << 16},
	}
	for _, channels := range r.Channels {
		bounds = append(bounds, bound{"Channels of the refiner", channels, 1, maxChannels})
	}
	for _, blocks := range slices.Concat(r.DownBlocks, r.UpBlocks) {
		bounds = append(bounds, bound{"blocks of the refiner", blocks, 0, maxBlocks})
	}
	return checkBounds(bounds...)
}

// rounds returns the rounds of refinement that the options ask for.
func (c Config) rounds(opt Options) (int, error) {
	switch {
	case opt.RefineRounds > maxRounds:
		return 0, fmt.Errorf("%w: %d rounds of refinement are more than %d", ErrInput, opt.RefineRounds, maxRounds)
	case c.Refiner == nil && opt.RefineRounds > 0:
		return 0, fmt.Errorf("%w: %d rounds of refinement without a refiner, which only MoGe-3 has", ErrInput, opt.RefineRounds)
	case c.Refiner == nil || opt.RefineRounds < 0:
		return 0, nil
	case opt.RefineRounds == 0:
		return defaultRounds, nil
	}
	return opt.RefineRounds, nil
}

// refine corrects the logarithm of the depth, the third plane of the points head's map, in rounds.
//
//	features [1, rows, cols, C] on the device
//	points   [3, Y, X], x/z, y/z and log z
func (r *refiner) refine(ctx context.Context, features *tensors.Tensor, points imageio.Planes, rounds int) error {
	size := points.H * points.W
	values := make([]float32, pointDim*size)
	logs := points.Data[2*size:]
	for range rounds {
		for i := range size {
			values[3*i], values[3*i+1], values[3*i+2] = points.Data[i], points.Data[size+i], logs[i]
		}
		bins, err := r.bins(logs)
		if err != nil {
			return err
		}
		delta, err := r.delta(ctx, values, newVoxels(points.H, points.W, bins), features)
		if err != nil {
			return err
		}
		for i, d := range delta {
			logs[i] += d
		}
	}
	return nil
}

// maxBin keeps differences of bins within int32.
const maxBin = 1 << 29

// bins returns the bin of each pixel, the nearest pixel's being 0. Halves round to even, in float32.
func (r *refiner) bins(logs []float32) ([]int32, error) {
	bins := make([]int32, len(logs))
	low := int32(maxBin)
	for i, z := range logs {
		bin := math.RoundToEven(float64(z * float32(r.cfg.Resolution)))
		if !(math.Abs(bin) <= maxBin) {
			return nil, fmt.Errorf("%w: the network says e^%g for a depth", ErrCamera, z)
		}
		bins[i] = int32(bin)
		low = min(low, bins[i])
	}
	for i := range bins {
		bins[i] -= low
	}
	return bins, nil
}
