// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package decoder

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/sam3d/pose"
)

// C17: an object of more than 42,000 voxels is made at half the size, in the same place of its cube, and its pose makes
// up for it: what the camera sees keeps its size.
func TestC17HalvedGrid(t *testing.T) {
	block := func(from, to [3]int32) (coords [][4]int32) {
		for x := from[0]; x < to[0]; x++ {
			for y := from[1]; y < to[1]; y++ {
				for z := from[2]; z < to[2]; z++ {
					coords = append(coords, [4]int32{0, x, y, z})
				}
			}
		}
		return coords
	}
	full := block([3]int32{4, 10, 14}, [3]int32{60, 54, 50}) // 56 x 44 x 36
	require.Greater(t, len(full), MaxVoxels)
	half, factor, err := Downsample(slices.Clone(full), MaxVoxels, DownsampleFactor)
	require.NoError(t, err)
	require.Equal(t, 2, factor)
	require.Len(t, half, len(full)/8)
	require.True(t, slices.IsSortedFunc(half, func(a, b [4]int32) int { return slices.Compare(a[:], b[:]) }))

	placed := pose.Pose{Rotation: [4]float64{1}, Translation: [3]float64{1, 2, 3}, Scale: 0.5}
	larger := placed.Downsampled(factor)
	require.Equal(t, 1.0, larger.Scale)
	require.Equal(t, placed.Rotation, larger.Rotation)
	require.Equal(t, placed.Translation, larger.Translation)
	// The centre of the block is that of the cube, so that its corners stay where they are.
	lo, hi := box(full)
	newLo, newHi := box(half)
	for axis := range 3 {
		require.Equal(t, 64, int(lo[axis]+hi[axis]+1))
		require.Equal(t, 64, int(newLo[axis]+newHi[axis]+1))
		require.Equal(t, placed.Scale*float64(hi[axis]-lo[axis]+1), larger.Scale*float64(newHi[axis]-newLo[axis]+1))
	}

	// At the limit nothing happens, one more voxel halves.
	_, factor, err = Downsample(full[:MaxVoxels], MaxVoxels, DownsampleFactor)
	require.NoError(t, err)
	require.Equal(t, 1, factor)
	_, factor, err = Downsample(full[:MaxVoxels+1], MaxVoxels, DownsampleFactor)
	require.NoError(t, err)
	require.Equal(t, 2, factor)

	// If there are too many even so, as many as may be are kept.
	few, factor, err := Downsample(full, 1000, DownsampleFactor)
	require.NoError(t, err)
	require.Equal(t, 2, factor)
	require.Len(t, few, 1000)
	require.Len(t, slices.Compact(slices.Clone(few)), 1000)
}
