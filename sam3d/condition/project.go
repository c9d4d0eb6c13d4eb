// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package condition

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gomlx3d/image3d/dinov2"
	"github.com/gomlx3d/image3d/internal/nn"
)

const (
	projectionEpsilon = 1e-5 // of the layer norm before a projection
	prenormEpsilon    = 1e-5 // of the layer norm without parameters
)

// imageTokens takes the tokens of a stage from what the last block of an image network gives.
//
//	p   norm, unless e.Prenorm
//	x   [1, 1+R+N, D]
//	out [1, 1+N, D], or [1, 1+R+N, D] with e.Prenorm
func imageTokens(p nn.Params, e ImageEmbedder, x *Node) *Node {
	if e.Prenorm {
		return nn.Standardize(x, prenormEpsilon)
	}
	return dinov2.FinalNorm(p, e.Backbone, dinov2.WithoutRegisters(e.Backbone, x))
}

// project brings tokens to the common width and adds the embedding of their group.
//
//	p   net (optional), idx_emb [rows, D] or [rows, 1, D] (optional)
//	x   [1, T, C]
//	row scalar int32
//	out [1, T, D]
func project(p nn.Params, x, row *Node) *Node {
	if p.Has("net.1.w1.weight") {
		x = gatedNet(p.In("net"), x)
	}
	if p.Has("idx_emb") {
		table := p.As(x, "idx_emb")
		dims := table.Shape().Dimensions
		table = Reshape(table, dims[0], dims[len(dims)-1]) // [rows, D]
		x = nn.AddLast(x, Reshape(Gather(table, Reshape(row, 1, 1)), -1))
	}
	return x
}

// gatedNet is a layer norm, if the net has one, and a perceptron without biases whose hidden layer is gated (SwiGLU:
// Shazeer, "GLU Variants Improve Transformer", 2020).
//
//	p   0 (optional), 1.w1, 1.w2, 1.w3
//	x   [B, T, C]
//	out [B, T, D]
func gatedNet(p nn.Params, x *Node) *Node {
	if p.Has("0.weight") {
		x = nn.LayerNorm(p.In("0"), x, projectionEpsilon)
	}
	gate := nn.SiLU(nn.Linear(p.In("1.w1"), x))
	return nn.Linear(p.In("1.w2"), Mul(gate, nn.Linear(p.In("1.w3"), x)))
}

// join puts the tokens of all inputs one after the other; with a net, side by side and through the net.
//
//	p   compression_projector (optional)
//	in  [1, T, D] each
//	out [1, sum of T, D], or [1, T, D]
func join(p nn.Params, in []*Node) *Node {
	if p.Has("compression_projector.1.w1.weight") {
		return gatedNet(p.In("compression_projector"), concatenate(in, 2))
	}
	return concatenate(in, 1)
}
