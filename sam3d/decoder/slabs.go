// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package decoder

import (
	"context"
	"fmt"
	"maps"
	"math"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/sparse"
)

// slabSteps is how far the two convolutions of an upsampling block reach, in voxels.
const slabSteps = 2

// slabber runs the last upsampling block of the mesh decoder and the output layer for some voxels at a time, as their
// children are eight times as many rows. The norm between the two convolutions is over all rows; therefore the first is
// computed twice, once for the statistics of each slab, which are merged, and once to be normed by them.
type slabber struct {
	subdivider
	moments, finish *nn.Program
	activation      *nn.Program
}

// slabWeights are what the programs of a slabber take.
type slabWeights struct{ activation, moments, finish nn.Weights }

func newSlabber(backend compute.Backend, groups int) *slabber {
	s := &slabber{subdivider: subdivider{backend: backend, groups: groups}}
	s.activation = nn.NewProgram(backend, "decoder.mesh.slab.activation", s.activationGraph)
	s.moments = nn.NewProgram(backend, "decoder.mesh.slab.moments", momentsGraph)
	s.finish = nn.NewProgram(backend, "decoder.mesh.slab.finish", finishGraph)
	return s
}

func (s *slabber) Close() {
	s.activation.Close()
	s.moments.Close()
	s.finish.Close()
}

// newSlabWeights sorts the weights of the last block and of the output layer.
func newSlabWeights(block, exit nn.Weights) slabWeights {
	finish := block.Only("out_layers", "skip_connection")
	maps.Copy(finish, exit)
	return slabWeights{activation: block.Only("act_layers"), moments: block.Only("out_layers.0"), finish: finish}
}

// run computes the outputs for the children of all voxels, limit voxels at a time. It returns ctx.Err() within one of
// its programs of being cancelled.
//
//	coords of x, not of its children
//	x      [N, in], stays the caller's
//	out    [8*voxels, width], without padding
func (s *slabber) run(ctx context.Context, w slabWeights, coords *sparse.Coords, x *tensors.Tensor, limit, width int) ([]float32, error) {
	slabs, err := coords.Slabs(limit, slabSteps)
	if err != nil {
		return nil, fmt.Errorf("decoder: mesh: %w", err)
	}
	rows, err := coords.Upload(s.backend)
	if err != nil {
		return nil, fmt.Errorf("decoder: mesh: %w", err)
	}
	defer rows.Free()
	a, err := s.activation.Call1(w.activation, sparse.Args(x, rows)...)
	if err != nil {
		return nil, err
	}
	defer nn.Free(a)
	items := make([][]moments, coords.Batches())
	for _, slab := range slabs {
		m, err := s.measure(ctx, w, slab, a)
		if err != nil {
			return nil, err
		}
		items[slab.Item] = append(items[slab.Item], m)
	}
	out := make([]float32, 8*len(coords.Voxels)*width)
	for _, slab := range slabs {
		mean, scale := merge(items[slab.Item], s.groups)
		y, err := s.call(ctx, s.finish, w.finish, slab, a, x, mean, scale)
		if err != nil {
			return nil, err
		}
		err = tensors.ConstFlatData(y[0], func(flat []float32) {
			copy(out[8*slab.First*width:], flat[:8*slab.Owned*width])
		})
		nn.Free(y...)
		if err != nil {
			return nil, fmt.Errorf("decoder: read outputs: %w", err)
		}
	}
	return out, nil
}

// call runs a program on some inputs and the arrays of a slab.
func (s *slabber) call(ctx context.Context, program *nn.Program, w nn.Weights, slab *sparse.Slab, in ...any) ([]*tensors.Tensor, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	arrays, err := slab.Upload(s.backend)
	if err != nil {
		return nil, fmt.Errorf("decoder: mesh: %w", err)
	}
	defer arrays.Free()
	return program.Call(w, sparse.Args(append(in, arrays)...)...)
}

// moments are the statistics of a slab's rows, by channel.
type moments struct {
	rows    int
	mean    []float32
	squares []float32 // sums of squared deviations from the mean
}

// measure takes the statistics of a slab after the first convolution.
func (s *slabber) measure(ctx context.Context, w slabWeights, slab *sparse.Slab, a *tensors.Tensor) (m moments, err error) {
	out, err := s.call(ctx, s.moments, w.moments, slab, a)
	if err != nil {
		return m, err
	}
	defer nn.Free(out...)
	m.rows = 8 * slab.Owned
	if m.mean, err = tensors.CopyFlatData[float32](out[0]); err == nil {
		m.squares, err = tensors.CopyFlatData[float32](out[1])
	}
	if err != nil {
		return m, fmt.Errorf("decoder: read statistics: %w", err)
	}
	return m, nil
}

// merge returns the mean and the inverse standard deviation that every channel is normed by.
func merge(slabs []moments, groups int) (mean, scale []float32) {
	channels := len(slabs[0].mean)
	size := channels / groupsOf(channels, groups)
	for first := 0; first < channels; first += size {
		count, sum, squares := 0.0, 0.0, 0.0
		for _, m := range slabs {
			count += float64(m.rows * size)
			for c := first; c < first+size; c++ {
				sum += float64(m.rows) * float64(m.mean[c])
			}
		}
		centre := sum / count
		for _, m := range slabs {
			for c := first; c < first+size; c++ {
				off := float64(m.mean[c]) - centre
				squares += float64(m.squares[c]) + float64(m.rows)*off*off
			}
		}
		for range size {
			mean = append(mean, float32(centre))
			scale = append(scale, float32(1/math.Sqrt(squares/count+groupEpsilon)))
		}
	}
	return mean, scale
}

// activationGraph is the norm on the rows of the parents, of all slabs.
//
//	x   [N, in]
//	p   act_layers.0
//	out [N, in]
func (s *slabber) activationGraph(p nn.Params, nodes []*Node) []*Node {
	in := sparse.Read(nodes)
	x, rows := in.Node(), in.Rows()
	return []*Node{s.activate(p.In("act_layers.0"), x, rows)}
}

// momentsGraph is the first convolution of a slab, of which it returns the mean and the sum of squares.
//
//	a   [N, in] of activationGraph
//	p   out_layers.0.conv
//	out [out] each
func momentsGraph(p nn.Params, nodes []*Node) []*Node {
	in := sparse.Read(nodes)
	a, slab := in.Node(), in.Slab()
	h := sparse.ConvSubdivided(p.In("out_layers.0.conv"), slab.Take(a), slab.All, slab.Pairs)
	mean, squares := sparse.Moments(h, slab.Owned.Subdivide())
	return []*Node{mean, squares}
}

// finishGraph is an upsampling block from its first convolution on, and the output layer, for a slab of M rows.
//
//	a, x        [N, in] of activationGraph, and what the block started from
//	mean, scale [out] of all slabs
//	p           out_layers.{0.conv,1,3.conv}, skip_connection.conv (absent if in and out are the same), weight and bias
//	            of the output layer
//	out         [8M, features]
func finishGraph(p nn.Params, nodes []*Node) []*Node {
	in := sparse.Read(nodes)
	a, x, mean, scale, slab := in.Node(), in.Node(), in.Node(), in.Node(), in.Slab()
	h := sparse.ConvSubdivided(p.In("out_layers.0.conv"), slab.Take(a), slab.All, slab.Pairs)
	h = nn.MulLast(nn.AddLast(h, Neg(mean)), scale)
	norm := p.In("out_layers.1")
	h = nn.SiLU(nn.AddLast(nn.MulLast(h, norm.As(h, "weight")), norm.As(h, "bias")))
	h = sparse.ConvChildren(p.In("out_layers.3.conv"), h, slab.All, slab.Pairs)
	x = slab.Take(x)
	if p.Has("skip_connection.conv.weight") {
		x = sparse.Conv1(p.In("skip_connection.conv"), x) // [M, out]
	}
	return []*Node{nn.Linear(p, Add(h, sparse.Subdivide(x)))}
}
