// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// place is a voxel's place.
type place [3]int32

func (v *voxels) places() []place {
	var out []place
	for i := range v.rows {
		for j := range v.cols {
			first, end := v.column(i, j)
			for k := first; k < end; k++ {
				out = append(out, place{int32(i), int32(j), v.bins[k]})
			}
		}
	}
	return out
}

// TestVoxels compares neighbours, parents and children with a search among all places, level by level.
func TestVoxels(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range [][2]int{{16, 24}, {7, 5}, {1, 1}, {1, 9}} {
		bins := make([]int32, size[0]*size[1])
		for i := range bins {
			bins[i] = int32(r.IntN(6))
		}
		v := newVoxels(size[0], size[1], bins)
		for range 4 {
			places := v.places()
			row := make(map[place]int32)
			for k, p := range places {
				row[p] = int32(k)
			}
			require.Len(t, row, len(v.bins), "no voxel twice")
			near := v.neighbours()
			cells := v.cells()
			for k, p := range places {
				require.Equal(t, p[0]*int32(v.cols)+p[1], cells[k])
				for tap := range int32(numTaps) {
					want, ok := row[place{p[0] + tap/9 - 1, p[1] + tap/3%3 - 1, p[2] + tap%3 - 1}]
					if !ok {
						want = int32(v.padded)
					}
					require.Equal(t, want, near[numTaps*k+int(tap)], "%v tap %d", p, tap)
				}
			}
			for _, n := range near[numTaps*len(places):] {
				require.Equal(t, int32(v.padded), n, "padding has no neighbours")
			}
			v = checkPool(t, v, places)
		}
	}
}

// checkPool returns the next level.
func checkPool(t *testing.T, v *voxels, places []place) *voxels {
	p := v.pool()
	parents := p.places()
	count := make([]int, p.padded)
	for k, at := range places {
		require.Equal(t, place{at[0] / 2, at[1] / 2, at[2] / 2}, parents[p.parent[k]])
		count[p.parent[k]]++
	}
	for i, children := range count {
		if i >= len(parents) {
			require.Zero(t, children)
			require.Zero(t, p.share[i])
			continue
		}
		require.Equal(t, 1/float32(children), p.share[i])
		for j, child := range p.children[numChildren*i : numChildren*(i+1)] {
			if j >= children {
				require.Equal(t, int32(v.padded), child)
				continue
			}
			require.Equal(t, int32(i), p.parent[child])
		}
	}
	return p.voxels
}

func TestBucket(t *testing.T) {
	for n, want := range map[int]int{1: 1, 16: 16, 17: 18, 33: 36, 1000: 1024, 1025: 1152} {
		require.Equal(t, want, bucket(n))
	}
}
