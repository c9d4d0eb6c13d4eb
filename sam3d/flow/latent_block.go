// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flow

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/sparse"
)

// Graph functions of Latent, in calling order. N are the rows of the voxels, M those of their parents.

// enter embeds time and projects the state.
//
//	in  sinusoid of t [1, 256]; sinusoid of d likewise, if p has d_embedder; x [N, channels]
//	out time embedding [1, D]; h [N, io]
func (cfg LatentConfig) enter(p nn.Params, in []*Node) []*Node {
	time := nn.FeedForward(p.In("t_embedder.mlp"), "0", "2", nn.SiLU, in[0]) // [1, D]
	if p.Has("d_embedder.mlp.0.weight") {
		time = Add(time, nn.FeedForward(p.In("d_embedder.mlp"), "0", "2", nn.SiLU, in[1]))
	}
	return []*Node{time, nn.Linear(p.In("input_layer"), in[len(in)-1])}
}

// residualIn is a residual block before the transformer.
//
//	in  h [N, io]; time; rows and neighbours
//	out [N, io]
func residualIn(p nn.Params, nodes []*Node) []*Node {
	in := sparse.Read(nodes)
	return []*Node{residual(p, in.Node(), in.Node(), in.Rows(), in.Neighbors())}
}

// residualOut is a residual block after the transformer, on the features and those of the block that mirrors it.
//
//	in  h, skip [N, io]; time; rows and neighbours
//	out [N, io]
func residualOut(p nn.Params, nodes []*Node) []*Node {
	in := sparse.Read(nodes)
	x := Concatenate([]*Node{in.Node(), in.Node()}, 1) // [N, 2*io]
	return []*Node{residual(p, x, in.Node(), in.Rows(), in.Neighbors())}
}

// pool goes from voxels to their parents.
//
//	in  h [N, io]; rows; pooling
//	out [M, io]
func pool(_ nn.Params, nodes []*Node) []*Node {
	in := sparse.Read(nodes)
	return []*Node{sparse.Downsample(in.Node(), in.Rows(), in.Pooling())}
}

// down is the residual block on the parents, followed by their position embedding.
//
//	in  h [M, io]; time; rows, neighbours and positions of the parents
//	out skip [M, D], without the position embedding; h [M, D]
func (cfg LatentConfig) down(p nn.Params, nodes []*Node) []*Node {
	in := sparse.Read(nodes)
	skip := residual(p, in.Node(), in.Node(), in.Rows(), in.Neighbors())
	position := nn.GridEmbedding(in.Node(), cfg.Resolution/2, cfg.Width)
	return []*Node{skip, Add(skip, ConvertDType(position, skip.DType()))}
}

// finiteTokens is whether all condition tokens are finite.
func finiteTokens(_ nn.Params, in []*Node) []*Node { return []*Node{LogicalAll(IsFinite(in[0]))} }

// project turns condition tokens into the keys and values of one block.
//
//	in  tokens [B, S, cond]
//	out k, v [B, H, S, K]
func (cfg LatentConfig) project(p nn.Params, in []*Node) []*Node {
	k, v := crossContext(p.In("cross_attn"), in[0], cfg.Heads)
	return []*Node{k, v}
}

// constant returns what the cross attention of one block adds without a condition, [D].
func (cfg LatentConfig) constant(p nn.Params, _ []*Node) []*Node {
	return []*Node{crossConstant(p.In("cross_attn"))}
}

// conditionalBlock is one transformer block.
//
//	in  h [M, D]; time; rows of the parents; k, v [B, H, S, K]
//	out [M, D]
func (cfg LatentConfig) conditionalBlock(p nn.Params, nodes []*Node) []*Node {
	in := sparse.Read(nodes)
	x, time, rows, k, v := in.Node(), in.Node(), in.Rows(), in.Node(), in.Node()
	return []*Node{sparse.ModulatedCrossBlock(p, x, time, rows, cfg.Heads, func(x *Node) *Node {
		return sparse.NormedCross(p, x, rows, k, v)
	})}
}

// unconditionalBlock is one transformer block without a condition.
//
//	in  h [M, D]; time; rows of the parents; constant [D]
//	out [M, D]
func (cfg LatentConfig) unconditionalBlock(p nn.Params, nodes []*Node) []*Node {
	in := sparse.Read(nodes)
	x, time, rows, constant := in.Node(), in.Node(), in.Rows(), in.Node()
	return []*Node{sparse.ModulatedCrossBlock(p, x, time, rows, cfg.Heads, func(x *Node) *Node {
		return ConvertDType(ExpandAxes(constant, 0), x.DType())
	})}
}

// The residual block that comes back from the parents is three programs. What treats rows alone, and the projections
// of the first convolution, is done on the parents, which are fewer. And only upGather, which multiplies no matrices and
// compiles fast, has shapes that depend on both grids.

// upProject is its part on the parents.
//
//	in  h, skip [M, D]; rows of the parents
//	p   norm1, conv1.conv.weight, skip_connection
//	out the projections of the first convolution [M*27, io]; shortcut [M, io]
func upProject(p nn.Params, nodes []*Node) []*Node {
	in := sparse.Read(nodes)
	x := Concatenate([]*Node{in.Node(), in.Node()}, 1) // [M, 2*D]
	return []*Node{sparse.ProjectTaps(p.In("conv1.conv"), normSiLU(p, x), in.Rows()), shortcut(p, x)}
}

// upGather goes from the parents to the voxels.
//
//	in  projections [M*27, io]; shortcut [M, io]; pooling; neighbours of the voxels
//	p   conv1.conv.bias
//	out h, shortcut [N, io]
func upGather(p nn.Params, nodes []*Node) []*Node {
	in := sparse.Read(nodes)
	projected, shortcut, pools := in.Node(), in.Node(), in.Pooling()
	return []*Node{sparse.SumTaps(p.In("conv1.conv"), projected, pools, in.Neighbors()), sparse.Upsample(shortcut, pools)}
}

// upConvolve is the rest.
//
//	in  h, shortcut [N, io]; time; rows and neighbours
//	p   emb_layers.1, conv2.conv
//	out [N, io]
func upConvolve(p nn.Params, nodes []*Node) []*Node {
	in := sparse.Read(nodes)
	h, shortcut := in.Node(), in.Node()
	return []*Node{Add(modulatedConv(p, h, in.Node(), in.Rows(), in.Neighbors()), shortcut)}
}

// leave projects features to velocities.
//
//	in  h [N, io]
//	out [N, channels]
func leave(p nn.Params, in []*Node) []*Node {
	return []*Node{nn.Linear(p.In("out_layer"), nn.Standardize(in[0], finalEpsilon))}
}

// residual is SparseResBlock3d of the original at one resolution: two convolutions, with the second normed input
// modulated by time, around a shortcut. Mind that scale comes before shift here, other than in the transformer blocks.
//
//	x    [N, in]
//	time [1, D]
//	p    norm1, conv1.conv, emb_layers.1, conv2.conv, skip_connection (if the widths differ)
//	out  [N, out]
func residual(p nn.Params, x, time *Node, rows sparse.Rows, pairs sparse.Pairs) *Node {
	h := sparse.Conv(p.In("conv1.conv"), normSiLU(p, x), rows, pairs) // [N, out]
	return Add(modulatedConv(p, h, time, rows, pairs), shortcut(p, x))
}

func normSiLU(p nn.Params, x *Node) *Node {
	return nn.SiLU(nn.LayerNorm(p.In("norm1"), x, blockEpsilon))
}

func modulatedConv(p nn.Params, h, time *Node, rows sparse.Rows, pairs sparse.Pairs) *Node {
	m := Split(nn.Linear(p.In("emb_layers.1"), nn.SiLU(time)), 1, 2) // scale, shift
	h = rows.Modulate(nn.Standardize(h, blockEpsilon), m[1], m[0])
	return sparse.Conv(p.In("conv2.conv"), nn.SiLU(h), rows, pairs)
}

func shortcut(p nn.Params, x *Node) *Node {
	if !p.Has("skip_connection.weight") {
		return x
	}
	return nn.Linear(p.In("skip_connection"), x)
}
