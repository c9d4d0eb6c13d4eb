// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights_test

import (
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/weights"
)

func TestJoin(t *testing.T) {
	part := func(rows int, data ...byte) weights.Tensor {
		return weights.Tensor{DType: dtypes.Uint8, Shape: []int{rows, 2}, Data: data}
	}
	joined, err := weights.Join(part(1, 1, 2), part(0), part(2, 3, 4, 5, 6))
	require.NoError(t, err)
	set := weights.NewSet(map[string]weights.Tensor{"x": joined})
	got, ok := set.Sub("").Get("x")
	require.True(t, ok)
	require.Equal(t, weights.Tensor{DType: dtypes.Uint8, Shape: []int{3, 2}, Data: []byte{1, 2, 3, 4, 5, 6}}, got)
	require.NoError(t, set.Verify())
	device, err := set.Upload(fixture.Backend(t))
	require.NoError(t, err)
	defer device["x"].FinalizeAll()
	require.Equal(t, []uint8{1, 2, 3, 4, 5, 6}, tensors.MustCopyFlatData[uint8](device["x"]))

	rows, err := got.Rows(1, 3)
	require.NoError(t, err)
	require.Equal(t, part(2, 3, 4, 5, 6), rows)
	for _, bounds := range [][2]int{{-1, 1}, {2, 1}, {0, 4}} {
		_, err := got.Rows(bounds[0], bounds[1])
		require.Error(t, err)
	}
	_, err = joined.Rows(0, 1)
	require.Error(t, err, "not before it is one")

	for name, parts := range map[string][]weights.Tensor{
		"nothing": {}, "scalars": {{DType: dtypes.Uint8, Data: []byte{1}}},
		"precision": {part(1, 1, 2), {DType: dtypes.Int8, Shape: []int{1, 2}, Data: []byte{1, 2}}},
		"width":     {part(1, 1, 2), {DType: dtypes.Uint8, Shape: []int{1, 1}, Data: []byte{1}}},
		"rank":      {part(1, 1, 2), {DType: dtypes.Uint8, Shape: []int{2}, Data: []byte{1, 2}}},
	} {
		_, err := weights.Join(parts...)
		require.Error(t, err, name)
	}
}
