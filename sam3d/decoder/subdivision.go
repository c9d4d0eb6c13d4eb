// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package decoder

import (
	"context"
	"fmt"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/sparse"
)

// groupEpsilon is that of the group norms of the upsampling blocks.
const groupEpsilon = 1e-5

// groupsOf returns the number of groups of a norm over channels.
func groupsOf(channels, groups int) int { return min(channels, groups) }

// subdivider runs the upsampling blocks of the mesh decoder: residual blocks on eight children of every voxel. Its two
// programs serve all of them. They are apart because the norms need all rows before they can give one, and so that
// memory of the first is free before the second begins.
type subdivider struct {
	backend      compute.Backend
	groups       int
	enter, leave *nn.Program
}

// subdivision holds the weights of one block.
type subdivision struct{ enter, leave nn.Weights }

func newSubdivider(backend compute.Backend, groups int) *subdivider {
	s := &subdivider{backend: backend, groups: groups}
	s.enter = nn.NewProgram(backend, "decoder.mesh.subdivide.enter", s.enterGraph)
	s.leave = nn.NewProgram(backend, "decoder.mesh.subdivide.leave", s.leaveGraph)
	return s
}

func (s *subdivider) Close() {
	s.enter.Close()
	s.leave.Close()
}

func newSubdivision(w nn.Weights) subdivision {
	return subdivision{
		enter: w.Only("act_layers", "out_layers.0"), leave: w.Only("out_layers.1", "out_layers.3", "skip_connection"),
	}
}

// run applies a block. It returns ctx.Err() within one of its two programs of being cancelled.
//
//	coords of x, not of its children
//	x      [N, in], stays the caller's
//	out    [8N, out], which belongs to the caller
func (s *subdivider) run(ctx context.Context, block subdivision, coords *sparse.Coords, x *tensors.Tensor) (*tensors.Tensor, error) {
	neighbors, err := coords.Neighbors()
	if err != nil {
		return nil, fmt.Errorf("decoder: mesh: %w", err)
	}
	pairs, err := neighbors.Upload(s.backend)
	if err != nil {
		return nil, fmt.Errorf("decoder: mesh: %w", err)
	}
	defer pairs.Free()
	rows, err := coords.Upload(s.backend)
	if err != nil {
		return nil, fmt.Errorf("decoder: mesh: %w", err)
	}
	defer rows.Free()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	h, err := s.enter.Call1(block.enter, sparse.Args(x, rows, pairs)...)
	if err != nil {
		return nil, err
	}
	defer nn.Free(h)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.leave.Call1(block.leave, sparse.Args(h, x, rows, pairs)...)
}

// enterGraph is the first half of a block. The norm is on the rows of the parents, all of whose children look alike.
//
//	x   [N, in]
//	p   act_layers.0, out_layers.0.conv
//	out [8N, out]
func (s *subdivider) enterGraph(p nn.Params, nodes []*Node) []*Node {
	in := sparse.Read(nodes)
	x, rows, pairs := in.Node(), in.Rows(), in.Neighbors()
	x = s.activate(p.In("act_layers.0"), x, rows)
	return []*Node{sparse.ConvSubdivided(p.In("out_layers.0.conv"), x, rows, pairs)}
}

// leaveGraph is the second half, and the sum with what the block started from.
//
//	h   [8N, out] of enterGraph
//	x   [N, in]
//	p   out_layers.1, out_layers.3.conv, skip_connection.conv (absent if in and out are the same)
//	out [8N, out]
func (s *subdivider) leaveGraph(p nn.Params, nodes []*Node) []*Node {
	in := sparse.Read(nodes)
	h, x, rows, pairs := in.Node(), in.Node(), in.Rows(), in.Neighbors()
	h = s.activate(p.In("out_layers.1"), h, rows.Subdivide())
	h = sparse.ConvChildren(p.In("out_layers.3.conv"), h, rows, pairs)
	if p.Has("skip_connection.conv.weight") {
		x = sparse.Conv1(p.In("skip_connection.conv"), x) // [N, out]
	}
	return []*Node{Add(h, sparse.Subdivide(x))}
}

// activate is a group norm and SiLU.
func (s *subdivider) activate(p nn.Params, x *Node, rows sparse.Rows) *Node {
	groups := groupsOf(x.Shape().Dimensions[1], s.groups)
	return nn.SiLU(sparse.GroupNorm(p, x, rows, groups, groupEpsilon))
}
