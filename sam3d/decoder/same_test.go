// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package decoder

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/sparse"
)

// TestBucketsAreExactCounts decodes two objects whose voxels fall into one bucket, in arrays of the bucket's rows, of
// exactly as many as there are voxels and of more.
func TestBucketsAreExactCounts(t *testing.T) {
	gaussians, mesh := tinyGaussians(t), tinyMesh(t, true)
	for _, count := range []int{16, 17} {
		bucket, latents := someVoxels(t, count)
		require.Equal(t, 18, bucket.Layout.Rows)
		splats, err := gaussians.Decode(t.Context(), bucket, latents)
		require.NoError(t, err)
		surface, err := mesh.Decode(t.Context(), bucket, latents)
		require.NoError(t, err)
		require.NotEmpty(t, surface.Faces)
		for _, rows := range []int{count + 1, 2 * count} {
			other := *bucket
			other.Layout.Rows = rows
			same, err := gaussians.Decode(t.Context(), &other, latents)
			require.NoError(t, err)
			require.InDeltaSlice(t, splats.Means, same.Means, 1e-5)
			require.InDeltaSlice(t, splats.LogScales, same.LogScales, 1e-5)
			require.InDeltaSlice(t, splats.OpacityLogits, same.OpacityLogits, 1e-5)
			again, err := mesh.Decode(t.Context(), &other, latents)
			require.NoError(t, err)
			require.Equal(t, surface.Faces, again.Faces)
			require.InDeltaSlice(t, surface.Vertices, again.Vertices, 1e-5)
			require.InDeltaSlice(t, surface.Colors, again.Colors, 1e-5)
		}
	}
}

// someVoxels are voxels of one object, with latents.
func someVoxels(t *testing.T, count int) (*sparse.Coords, []float32) {
	t.Helper()
	two, latents := blob(t, 16, 2)
	voxels := append([]sparse.Voxel{}, two.Voxels[:count]...)
	for i := 9; i < count; i++ { // the second object, elsewhere
		voxels[i][0] = 0
		voxels[i][1] += 6
	}
	coords, err := sparse.New(voxels, 16)
	require.NoError(t, err)
	return coords, latents[:4*count]
}
