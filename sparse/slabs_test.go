// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sparse

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/nn"
)

// TestSlabs: every row is owned once, and all that its slab needs is there.
func TestSlabs(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	c, err := New(cloud(r, 2, 7, 0.3), 7)
	require.NoError(t, err)
	for _, limit := range []int{1, 9, 40, 1000} {
		slabs, err := c.Slabs(limit, 2)
		require.NoError(t, err)
		next := 0
		for _, s := range slabs {
			require.Equal(t, next, s.First)
			require.LessOrEqual(t, s.Owned, limit)
			require.Positive(t, s.Owned)
			require.GreaterOrEqual(t, s.First, c.Starts[s.Item])
			require.LessOrEqual(t, s.First+s.Owned, c.Starts[s.Item+1])
			next += s.Owned
			checkLists(t, s.Coords, s.Neighbors)
			require.Equal(t, slabs[0].Coords.Layout.Rows, s.Coords.Layout.Rows)
			require.Equal(t, slabs[0].Neighbors.Lengths, s.Neighbors.Lengths)
			require.Len(t, s.Row, s.Coords.Layout.Rows)
			rows := s.Row[:s.Coords.Layout.Count]
			for i, row := range rows {
				v := c.Voxels[row]
				require.Equal(t, int32(s.Item), v[0])
				require.Equal(t, v[1:], s.Coords.Voxels[i][1:])
			}
			require.Equal(t, around(c, s), slices.Sorted(slices.Values(rows)))
		}
		require.Equal(t, len(c.Voxels), next)
	}
	for _, bad := range [][2]int{{0, 1}, {-1, 1}, {1, -1}} {
		_, err := c.Slabs(bad[0], bad[1])
		require.ErrorIs(t, err, ErrSize)
	}
}

// around lists the rows within two steps of those that a slab owns.
func around(c *Coords, s *Slab) []int32 {
	rows := make(map[Voxel]int32)
	for i, v := range c.Voxels {
		rows[v] = int32(i)
	}
	in := make(map[int32]bool)
	for row := s.First; row < s.First+s.Owned; row++ {
		in[int32(row)] = true
	}
	for range 2 {
		for _, row := range slices.Collect(maps.Keys(in)) {
			v := c.Voxels[row]
			for tap := range numTaps {
				off := offset(tap)
				if near, ok := rows[Voxel{v[0], v[1] + off[0], v[2] + off[1], v[3] + off[2]}]; ok {
					in[near] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(in))
}

// TestConvOfSlabs: two convolutions of the rows that slabs own are those of the whole.
func TestConvOfSlabs(t *testing.T) {
	const channels = 4
	r := rand.New(rand.NewPCG(33, 34))
	c, err := New(cloud(r, 2, 7, 0.3), 7)
	require.NoError(t, err)
	x, w := dirty(r, c.Layout, channels), convWeights(r, channels, channels)
	twice := func(p nn.Params, x *Node, rows Rows, pairs Pairs) *Node {
		return ConvChildren(p, ConvSubdivided(p, x, rows, pairs), rows, pairs)
	}
	want := tensors.MustCopyFlatData[float32](call(t, w, func(p nn.Params, in *Inputs) *Node {
		return twice(p, in.Node(), in.Rows(), in.Neighbors())
	}, x, uploaded(t, c), uploaded(t, neighbors(t, c))))
	slabs, err := c.Slabs(20, 2)
	require.NoError(t, err)
	for _, s := range slabs {
		got := tensors.MustCopyFlatData[float32](call(t, w, func(p nn.Params, in *Inputs) *Node {
			x, part := in.Node(), in.Slab()
			return twice(p, part.Take(x), part.All, part.Pairs)
		}, x, uploaded(t, s)))
		row := 8 * channels
		assert.InDeltaSlice(t, want[row*s.First:row*(s.First+s.Owned)], got[:row*s.Owned], 1e-3)
	}
}

// TestMoments of rows whose mean is far from 0.
func TestMoments(t *testing.T) {
	const rows, channels = 1000, 3
	r := rand.New(rand.NewPCG(35, 36))
	layout := Layout{Rows: 1024, Count: rows}
	x := random(r, layout.Rows*channels)
	for i := range x {
		x[i] += 100
	}
	c := &Coords{Starts: []int{0, rows}, Layout: layout}
	out := call(t, nil, func(_ nn.Params, in *Inputs) *Node {
		mean, squares := Moments(in.Node(), in.Rows())
		return Concatenate([]*Node{mean, squares}, 0)
	}, tensors.FromFlatDataAndDimensions(x, layout.Rows, channels), uploaded(t, c))
	got := tensors.MustCopyFlatData[float32](out)
	for k := range channels {
		mean, squares := 0.0, 0.0
		for i := range rows {
			mean += float64(x[i*channels+k]) / rows
		}
		for i := range rows {
			off := float64(x[i*channels+k]) - mean
			squares += off * off
		}
		assert.InDelta(t, mean, got[k], 1e-4)
		assert.InEpsilon(t, squares, got[channels+k], 1e-4)
	}
}
