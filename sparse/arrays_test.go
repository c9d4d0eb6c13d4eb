// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sparse

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
)

// A panic of the backend in the middle of some arrays is an error that leaves none of them.
func TestUploadPanics(t *testing.T) {
	device := fixture.NewDevice(fixture.Backend(t))
	c, err := New([]Voxel{{0, 1, 1, 1}, {0, 1, 1, 2}, {0, 3, 1, 1}}, 8)
	require.NoError(t, err)
	windows, err := c.Windows(4, 0)
	require.NoError(t, err)
	broken := errors.New("broken")
	for at := 1; at <= 4; at++ {
		device.Fail(func(call int, _ string) error {
			if call == at {
				panic(broken)
			}
			return nil
		})
		arrays, err := windows[0].Upload(device)
		require.ErrorIs(t, err, broken)
		require.Nil(t, arrays)
		require.Zero(t, device.Count(), "array %d", at)
	}
}
