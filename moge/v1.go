// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"context"
	"fmt"
	"math"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/dinov2"
	"github.com/gomlx3d/image3d/internal/imageio"
	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/weights"
)

// V1 is the released MoGe-1, moge-vitl.
func V1() Config {
	return Config{
		Version: 1, Backbone: dinov2.ViTL14(), Layers: []int{20, 21, 22, 23},
		Remap: RemapExp, MaskThreshold: 0.5, MinTokens: 1275, MaxTokens: 2551,
		Trunk: TrunkConfig{
			ProjectDim: 512, UpsampleDims: [3]int{256, 128, 64}, HiddenRatio: 2, ResBlocks: 2, LastChannels: 32, LastKernel: 1,
		},
	}
}

// TrunkConfig is the head of MoGe-1: one trunk of three doublings of the size, then a branch for the points and one for
// the mask.
type TrunkConfig struct {
	ProjectDim   int    // channels of the projected features (512)
	UpsampleDims [3]int // channels after each doubling of the size (256, 128, 64)
	HiddenRatio  int    // hidden channels of a residual block over its channels (2)
	ResBlocks    int    // residual blocks after each doubling (2)

	LastResBlocks int // residual blocks of each output branch (0)
	LastChannels  int // channels of an output branch before its last convolution (32)
	LastKernel    int // side of the last convolution's kernel, odd (1)
}

func (c TrunkConfig) validate() error {
	if err := checkBounds(
		bound{"ProjectDim", c.ProjectDim, 1, maxChannels},
		bound{"UpsampleDims[0]", c.UpsampleDims[0], 1, maxChannels},
		bound{"UpsampleDims[1]", c.UpsampleDims[1], 1, maxChannels},
		bound{"UpsampleDims[2]", c.UpsampleDims[2], 1, maxChannels},
		bound{"HiddenRatio", c.HiddenRatio, 1, normGroup},
		bound{"ResBlocks", c.ResBlocks, 0, maxBlocks},
		bound{"LastResBlocks", c.LastResBlocks, 0, maxBlocks},
		bound{"LastChannels", c.LastChannels, 1, maxChannels},
		bound{"LastKernel", c.LastKernel, 1, 15},
	); err != nil {
		return err
	}
	if c.LastKernel%2 == 0 {
		return fmt.Errorf("%w: LastKernel %d is even", ErrConfig, c.LastKernel)
	}
	widths := map[int]int{} // number of residual blocks by channels
	for _, width := range c.UpsampleDims {
		widths[width] += c.ResBlocks
	}
	widths[c.LastChannels] += c.LastResBlocks
	for width, blocks := range widths {
		if hidden := width * c.HiddenRatio; blocks > 0 && (hidden < normGroup || hidden%(hidden/normGroup) != 0) {
			return fmt.Errorf("%w: %d hidden channels do not divide into groups of about %d", ErrConfig, hidden, normGroup)
		}
	}
	return nil
}

// trunk is the network of MoGe-1 (moge/model/v1.py).
type trunk struct {
	*stem
	stages [][]nn.Weights // of each doubling: upsample, then the residual blocks
	output nn.Weights     // of the branches
	strip  int            // pixels that the output branches work on at a time

	upsampling, residual, branching *nn.Program
}

func newTrunk(s *stem) *trunk {
	t := &trunk{stem: s, strip: stripPixels}
	t.upsampling = s.program("upsample", func(p nn.Params, in []*Node) *Node { return upsample(p, in[0], in[1], in[2]) })
	t.residual = s.program("residual", func(p nn.Params, in []*Node) *Node { return trunkResidual(p, in[0]) })
	t.branching = s.program("output", func(p nn.Params, in []*Node) *Node {
		rows, cols := tapNodes{in[1], in[2], in[3]}, tapNodes{in[4], in[5], in[6]}
		return output(p, s.cfg.Trunk, in[0], rows, cols, in[7], in[8])
	})
	return t
}

func (t *trunk) load(set *weights.Set) error {
	blocks, err := t.upload(set, "head.upsample_blocks.")
	if err != nil {
		return err
	}
	t.stages = nil
	for i := range t.cfg.Trunk.UpsampleDims {
		var parts []nn.Weights
		for block := range 1 + t.cfg.Trunk.ResBlocks {
			parts = append(parts, blocks.In("%d.%d", i, block))
		}
		t.stages = append(t.stages, parts)
	}
	t.output, err = t.upload(set, "head.output_block.")
	return err
}

func (t *trunk) close() {
	for _, p := range []*nn.Program{t.upsampling, t.residual, t.branching} {
		p.Close()
	}
}

func (t *trunk) forward(ctx context.Context, image Image, numTokens, _ int) (*Raw, error) {
	size, err := workingSize(image.Height, image.Width, numTokens)
	if err != nil {
		return nil, err
	}
	picture, err := size.prepare(image)
	if err != nil {
		return nil, fmt.Errorf("moge: %w", err)
	}
	layers, err := t.encode(ctx, picture)
	if err != nil {
		return nil, err
	}
	x, err := t.decode(ctx, size, layers)
	nn.Free(layers...)
	defer func() { nn.Free(x) }()
	if err != nil {
		return nil, err
	}
	values, err := t.evaluate(ctx, size, x)
	if err != nil {
		return nil, err
	}
	values, err = imageio.Resize(values, image.Height, image.Width, imageio.Bilinear)
	if err != nil {
		return nil, fmt.Errorf("moge: %w", err)
	}
	return &Raw{
		Height: image.Height, Width: image.Width,
		Points: t.cfg.Remap.points(values), Mask: values.Data[3*image.Height*image.Width:],
	}, ctx.Err()
}

// decode enlarges the projected layers eight times, on the device. Also with an error the caller frees what it returns.
func (t *trunk) decode(ctx context.Context, size working, layers []*tensors.Tensor) (*tensors.Tensor, error) {
	rows, cols := size.rows, size.cols
	u, v := size.coordinates(rows, cols)
	x, err := t.sum(layers, u, v)
	for _, stage := range t.stages {
		for i, w := range stage {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return x, err
			}
			before := x
			if i == 0 {
				x, err = t.upsampling.Call1(w, before, u, v)
			} else {
				x, err = t.residual.Call1(w, before)
			}
			nn.Free(before)
		}
		rows, cols = 2*rows, 2*cols
		u, v = size.coordinates(rows, cols)
	}
	return x, err
}

// working holds the sizes that MoGe-1 works at.
type working struct {
	height, width int // of the resized picture
	rows, cols    int // of the grid of patches
}

// workingSize scales a picture to an area of numTokens patches. Sizes are cut off, not rounded, and in float64, as in
// the original.
func workingSize(height, width, numTokens int) (working, error) {
	scale := math.Sqrt(float64(numTokens*patch*patch) / (float64(height) * float64(width)))
	w := working{height: int(float64(height) * scale), width: int(float64(width) * scale)}
	w.rows, w.cols = w.height/patch, w.width/patch
	if w.rows < 1 || w.cols < 1 {
		return working{}, fmt.Errorf("%w: a %dx%d picture is too narrow for %d patches", ErrInput, width, height, numTokens)
	}
	return w, nil
}

// prepare resizes a picture twice, as the original does: to the working size, then to whole patches.
//
//	out [3, 14 rows, 14 cols], not clamped
func (w working) prepare(image Image) (imageio.Planes, error) {
	planes, err := imageio.Resize(image.planes(), w.height, w.width, imageio.BicubicAntialias)
	if err != nil {
		return planes, err
	}
	return imageio.Resize(planes, patch*w.rows, patch*w.cols, imageio.BilinearAntialias)
}

// coordinates returns those of the pixel centres of a map of the picture; see spans. The aspect is that of the resized
// picture whatever the map's is.
func (w working) coordinates(rows, cols int) (u, v []float32) {
	return coordinates(rows, cols, float64(w.width)/float64(w.height))
}
