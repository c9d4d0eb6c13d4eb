// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"context"
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/weights"
)

const (
	pointDim     = 3    // values of a voxel
	voxelEpsilon = 1e-6 // of the layer norms

	gatheredBytes = 32 << 20 // about how much of the neighbours' features is gathered at a time
)

// spec lists the refiner's tensors.
func (c *RefinerConfig) spec() weights.Spec {
	spec := make(weights.Spec)
	last := len(c.Channels) - 1
	blocks := func(prefix string, n, channels int) {
		for i := range n {
			name := fmt.Sprintf("%s.%d.", prefix, i)
			vectors(spec, name+"norm1", channels)
			for _, conv := range []string{"conv1", "conv2"} {
				spec[name+conv+".weight"] = weights.Param{Shape: []int{channels, 3, 3, 3, channels}}
				spec[name+conv+".bias"] = weights.Param{Shape: []int{channels}}
			}
		}
	}
	linear(spec, "input_proj", c.Channels[0], pointDim)
	linear(spec, "out_proj", 1, c.Channels[0])
	linear(spec, "encoder_fuse", c.Channels[last], c.FeatureDim)
	linear(spec, "fuse_proj.0", c.Channels[last], 2*c.Channels[last])
	linear(spec, "fuse_proj.2", c.Channels[last], c.Channels[last])
	for level, channels := range c.Channels {
		blocks(fmt.Sprintf("down_stages.%d", level), c.DownBlocks[level], channels)
		if level == last {
			break
		}
		linear(spec, fmt.Sprintf("downsample_blocks.%d.linear", level), c.Channels[level+1], channels)
		up := last - 1 - level
		blocks(fmt.Sprintf("up_stages.%d", up), c.UpBlocks[up], channels)
		linear(spec, fmt.Sprintf("upsample_blocks.%d.linear", up), channels, c.Channels[level+1])
	}
	blocks("bottleneck_stage", c.BottleneckBlocks, c.Channels[last])
	return spec
}

// refiner is the sparse U-Net of MoGe-3 (Sparse3DUNet of mlx_vlm/models/moge3/refiner.py).
type refiner struct {
	cfg     RefinerConfig
	weights nn.Weights // owned by the stem

	entering, block, pooling, fusing, spreading, leaving *nn.Program
}

func newRefiner(backend compute.Backend, cfg RefinerConfig) *refiner {
	program := func(name string, build func(p nn.Params, in []*Node) *Node) *nn.Program {
		return nn.NewProgram(backend, "moge.refiner."+name, func(p nn.Params, in []*Node) []*Node { return []*Node{build(p, in)} })
	}
	return &refiner{
		cfg:       cfg,
		entering:  program("input", func(p nn.Params, in []*Node) *Node { return nn.Linear(p, in[0]) }),
		block:     program("block", func(p nn.Params, in []*Node) *Node { return voxelBlock(p, in[0], in[1]) }),
		pooling:   program("pool", func(p nn.Params, in []*Node) *Node { return nn.Linear(p, poolVoxels(in[0], in[1], in[2])) }),
		fusing:    program("fuse", func(p nn.Params, in []*Node) *Node { return fuse(p, in[0], in[1], in[2]) }),
		spreading: program("spread", func(p nn.Params, in []*Node) *Node { return spread(p, in[0], in[1], in[2]) }),
		leaving:   program("output", func(p nn.Params, in []*Node) *Node { return nn.Linear(p, in[0]) }),
	}
}

func (r *refiner) close() {
	for _, p := range []*nn.Program{r.entering, r.block, r.pooling, r.fusing, r.spreading, r.leaving} {
		p.Close()
	}
}

// unet is one evaluation of the network on its way. It keeps what it made until free.
type unet struct {
	*refiner
	ctx  context.Context
	near *tensors.Tensor // neighbours of the present level
	made []*tensors.Tensor
	err  error
}

// stage is a level on its way up: the voxels, their neighbours and features, and what joins them to the next level.
type stage struct {
	near, features, parent *tensors.Tensor
}

// delta returns the network's correction of the depth of each voxel of a map.
//
//	values   [M, 3] of each voxel
//	bins     [M] of a map of 2^n rows and cols, n levels being below the first
//	features [1, Y, X, C] of the encoder on the grid of the last level, on the device
//	out      [M]
func (r *refiner) delta(ctx context.Context, values []float32, voxels *voxels, features *tensors.Tensor) ([]float32, error) {
	u := &unet{refiner: r, ctx: ctx}
	defer u.free()
	x := u.call(r.entering, r.weights.In("input_proj"), u.own(tensors.FromFlatDataAndDimensions(values, len(values)/pointDim, pointDim)))
	var skipped []stage
	for level := range r.cfg.Channels {
		near := u.own(tensors.FromFlatDataAndDimensions(voxels.neighbours(), voxels.padded, numTaps))
		x = u.blocks(r.weights.In("down_stages.%d", level), r.cfg.DownBlocks[level], x, near)
		if level == len(r.cfg.Channels)-1 {
			cells := u.own(tensors.FromFlatDataAndDimensions(voxels.cells(), voxels.padded))
			x = u.call(r.fusing, r.weights.Only("encoder_fuse", "fuse_proj"), x, features, cells)
			x = u.blocks(r.weights.In("bottleneck_stage"), r.cfg.BottleneckBlocks, x, near)
			break
		}
		next := voxels.pool()
		skipped = append(skipped, stage{near, x, u.own(tensors.FromFlatDataAndDimensions(next.parent, len(next.parent)))})
		x = u.call(r.pooling, r.weights.In("downsample_blocks.%d.linear", level), x,
			u.own(tensors.FromFlatDataAndDimensions(next.children, next.padded, numChildren)),
			u.own(tensors.FromFlatDataAndDimensions(next.share, next.padded)))
		voxels = next.voxels
	}
	for up := range skipped {
		to := skipped[len(skipped)-1-up]
		x = u.call(r.spreading, r.weights.In("upsample_blocks.%d.linear", up), x, to.parent, to.features)
		x = u.blocks(r.weights.In("up_stages.%d", up), r.cfg.UpBlocks[up], x, to.near)
	}
	x = u.call(r.leaving, r.weights.In("out_proj"), x)
	if u.err != nil {
		return nil, u.err
	}
	return tensors.CopyFlatData[float32](x)
}

func (u *unet) free() { nn.Free(u.made...) }

// own has a tensor freed at the end, if not before.
func (u *unet) own(x *tensors.Tensor) *tensors.Tensor {
	u.made = append(u.made, x)
	return x
}

// call evaluates a program of one output, unless something failed before.
func (u *unet) call(program *nn.Program, w nn.Weights, in ...any) *tensors.Tensor {
	if u.err == nil {
		u.err = u.ctx.Err()
	}
	if u.err != nil {
		return nil
	}
	out, err := program.Call1(w, in...)
	u.err = err
	return u.own(out)
}

// blocks evaluates residual blocks one after the other. Their inputs are freed, but for the first's.
func (u *unet) blocks(w nn.Weights, n int, x, near *tensors.Tensor) *tensors.Tensor {
	for i := range n {
		before := x
		if x = u.call(u.block, w.In("%d", i), x, near); i > 0 {
			nn.Free(before)
		}
	}
	return x
}

// Letters: N rows of voxels, C channels. An index N stands for a voxel that is not there, whose features are zero.

// voxelBlock is a residual block of two convolutions.
//
//	p    norm1, conv1, conv2
//	x    [N, C]
//	near [N, 27] int32
//	out  [N, C]
func voxelBlock(p nn.Params, x, near *Node) *Node {
	h := nn.SiLU(nn.LayerNorm(p.In("norm1"), x, voxelEpsilon))
	h = nn.SiLU(convolveVoxels(p.In("conv1"), h, near))
	return Add(x, convolveVoxels(p.In("conv2"), h, near))
}

// convolveVoxels is a 3x3x3 cross-correlation at the voxels (submanifold; Graham et al. 2018, arXiv:1711.10275). Of some
// rows at a time it gathers the features under the kernel side by side and multiplies. All shapes are those of the rows,
// whatever the voxels are.
//
// A third to a half of what is gathered is there. On XLA's CPU plugin, to add up the products of the pairs that there are
// takes 0.5 to 1.4 of the time, by scene, but up to twenty times that to compile, for each number of pairs again.
//
//	p    weight [O, 3, 3, 3, C], bias [O]
//	x    [N, C]
//	near [N, 27] int32
//	out  [N, O]
func convolveVoxels(p nn.Params, x, near *Node) *Node {
	rows, channels := x.Shape().Dimensions[0], x.Shape().Dimensions[1]
	weight := p.As(x, "weight")
	weight = Reshape(weight, weight.Shape().Dimensions[0], numTaps*channels)
	x = withZeroRow(x)
	step := max(1, gatheredBytes/(numTaps*channels*x.DType().Size()))
	var parts []*Node
	for start := 0; start < rows; start += step {
		if n := len(parts); n > 0 { // one part after the other, so that what they gather does not live at once
			x, parts[n-1] = nn.InTurn(x, parts[n-1])
		}
		end := min(start+step, rows)
		taps := Reshape(Slice(near, AxisRange(start, end)), (end-start)*numTaps, 1)
		parts = append(parts, nn.MatMulT(Reshape(Gather(x, taps), end-start, numTaps*channels), weight)) // [n, O]
	}
	return nn.AddLast(Concatenate(parts, 0), p.As(x, "bias"))
}

// withZeroRow adds the row of the voxel that is not there.
func withZeroRow(x *Node) *Node {
	return Concatenate([]*Node{x, Zeros(x.Graph(), shapes.Make(x.DType(), 1, x.Shape().Dimensions[1]))}, 0)
}

// poolVoxels takes the mean of the children.
//
//	x        [N, C]
//	children [M, 8] int32
//	share    [M], one over their number
//	out      [M, C]
func poolVoxels(x, children, share *Node) *Node {
	sum := ReduceSum(Gather(withZeroRow(x), ExpandAxes(children, 2)), 1) // [M, C]
	return Mul(sum, BroadcastToDims(ExpandAxes(share, 1), sum.Shape().Dimensions...))
}

// fuse adds what the encoder saw to the voxels of the last level.
//
//	p        encoder_fuse, fuse_proj.0, fuse_proj.2
//	x        [N, C]
//	features [1, Y, X, E]
//	cells    [N] int32, of the grid of the features
//	out      [N, C]
func fuse(p nn.Params, x, features, cells *Node) *Node {
	dims := features.Shape().Dimensions
	seen := nn.Linear(p.In("encoder_fuse"), Reshape(features, dims[1]*dims[2], dims[3]))
	x = Concatenate([]*Node{x, Gather(seen, ExpandAxes(cells, 1))}, 1) // [N, 2C]
	return nn.FeedForward(p.In("fuse_proj"), "0", "2", nn.SiLU, x)
}

// spread gives the voxels of a level what their parents have, besides their own features.
//
//	x       [M, C']
//	parent  [N] int32
//	skipped [N, C]
//	out     [N, C]
func spread(p nn.Params, x, parent, skipped *Node) *Node {
	return Add(Gather(nn.Linear(p, x), ExpandAxes(parent, 1)), skipped)
}
