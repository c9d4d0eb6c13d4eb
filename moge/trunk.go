// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gomlx3d/image3d/dinov2"
	"github.com/gomlx3d/image3d/internal/nn"
)

// Letters: B batch, T tokens of the encoder, Y rows and X columns of a feature map, C channels. Feature maps are
// channels last. Coordinates of pixel centres come in as vectors u [X] and v [Y], half the diagonal of the picture
// being 1; see spans.

// normalize brings a picture to the statistics that the encoder was trained with.
//
//	p   mean, std [1, 3, 1, 1]
//	x   [B, 3, H, W] 0..1
//	out [B, 3, H, W]
func normalize(p nn.Params, x *Node) *Node { return Div(Sub(x, p.As(x, "mean")), p.As(x, "std")) }

// project adds up a projection of each of the encoder's layers.
//
//	p      0 and on
//	layers [B, T, D] each, after the encoder's final norm
//	u, v   of the grid of patches; only their lengths count
//	out    [B, Y, X, C]
func project(p nn.Params, cfg dinov2.Config, layers []*Node, u, v *Node) *Node {
	var sum *Node
	for i, x := range layers {
		if sum != nil {
			x, sum = nn.InTurn(x, sum) // one product after the other
		}
		weight := p.In("%d", i).As(x, "weight")                        // [C, D, 1, 1]
		y := nn.MatMulT(dinov2.Patches(cfg, x), Squeeze(weight, 2, 3)) // [B, Y*X, C]
		y = nn.AddLast(y, p.In("%d", i).As(y, "bias"))
		if sum != nil {
			y = Add(sum, y)
		}
		sum = y
	}
	dims := sum.Shape().Dimensions
	return Reshape(sum, dims[0], v.Shape().Dimensions[0], u.Shape().Dimensions[0], dims[2]) // [B, Y, X, C]
}

// appendUV appends the pixels' coordinates as two more channels, u then v.
//
//	x   [B, Y, X, C]
//	out [B, Y, X, C+2]
func appendUV(x, u, v *Node) *Node {
	dims := x.Shape().Dimensions
	plane := func(coordinate *Node, rows, cols int) *Node {
		coordinate = ConvertDType(Reshape(coordinate, 1, rows, cols, 1), x.DType())
		return BroadcastToDims(coordinate, dims[0], dims[1], dims[2], 1)
	}
	return Concatenate([]*Node{x, plane(u, 1, dims[2]), plane(v, dims[1], 1)}, -1)
}

// upsample doubles the size of a feature map.
//
//	p   0 (transposed convolution), 1 (convolution)
//	x   [B, Y, X, C]
//	out [B, 2Y, 2X, C']
func upsample(p nn.Params, x, u, v *Node) *Node {
	x = appendUV(x, u, v)                 // [B, Y, X, C+2]
	x = nn.ConvTranspose2x2(p.In("0"), x) // [B, 2Y, 2X, C']
	return nn.Conv2D(p.In("1"), x)
}

// trunkResidual is a residual block of two convolutions, each after a group norm and ReLU: the first norm has one group, the
// second groups of 32 channels.
//
//	p   layers.0, layers.2, layers.3, layers.5
//	x   [B, Y, X, C]
//	out [B, Y, X, C]
func trunkResidual(p nn.Params, x *Node) *Node {
	p = p.In("layers")
	y := relu(nn.GroupNorm(p.In("0"), x, 1, normEpsilon))
	y = nn.Conv2D(p.In("2"), y) // [B, Y, X, hidden]
	hidden := y.Shape().Dimensions[3]
	y = relu(nn.GroupNorm(p.In("3"), y, hidden/normGroup, normEpsilon))
	return Add(x, nn.Conv2D(p.In("5"), y))
}

// branch is one of the output branches.
//
//	p   0 (convolution), 1 and on (residual blocks), last (convolution)
//	x   [B, Y, X, C+2]
//	out [B, Y, X, channels of the branch]
func branch(p nn.Params, cfg TrunkConfig, x *Node) *Node {
	x = nn.Conv2D(p.In("0"), x)
	for i := range cfg.LastResBlocks {
		x = trunkResidual(p.In("%d", 1+i), x)
	}
	return nn.Conv2D(p.In("%d", cfg.LastResBlocks+2), relu(x))
}

// output evaluates the output branches on a strip of rows of the feature map, enlarged to the working size.
//
//	p          0 (points), 1 (mask)
//	x          [1, Y, X, C]
//	rows, cols the pixels of x that the strip's are made of, with the strip's halo of rows above and below
//	u, v       of the strip, with the halo
//	out        [4, rows, cols] without the halo: the point's three values, the mask's
func output(p nn.Params, cfg TrunkConfig, x *Node, rows, cols tapNodes, u, v *Node) *Node {
	x = rows.apply(Squeeze(x, 0))                   // [rows, X, C]
	x = cols.apply(TransposeAllAxes(x, 1, 0, 2))    // [cols, rows, C]
	x = ExpandAxes(TransposeAllAxes(x, 1, 0, 2), 0) // [1, rows, cols, C]
	x = appendUV(x, u, v)                           // [1, rows, cols, C+2]
	points := branch(p.In("0"), cfg, x)
	x, points = nn.InTurn(x, points) // one branch after the other
	mask := branch(p.In("1"), cfg, x)
	x = Concatenate([]*Node{points, mask}, -1) // [1, rows, cols, 4]
	x = SliceAxis(x, 1, AxisRange(cfg.halo(), x.Shape().Dimensions[1]-cfg.halo()))
	return TransposeAllAxes(Squeeze(x, 0), 2, 0, 1) // [4, rows, cols]
}

// tapNodes are the two source pixels of each sample along an axis and the share of the second.
type tapNodes struct{ first, second, share *Node } // [N] int32, [N] int32, [N] float32

// apply interpolates along the first axis.
//
//	x   [Y, ...]
//	out [N, ...]
func (t tapNodes) apply(x *Node) *Node {
	a, b := Gather(x, ExpandAxes(t.first, -1)), Gather(x, ExpandAxes(t.second, -1))
	share := ConvertDType(t.share, x.DType())
	for range x.Rank() - 1 {
		share = ExpandAxes(share, -1)
	}
	return Add(a, Mul(share, Sub(b, a)))
}

func relu(x *Node) *Node { return Max(x, ScalarZero(x.Graph(), x.DType())) }
