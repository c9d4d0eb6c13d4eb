// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
)

// TestProbe: a device that cannot compile, take data or run is found out when the backend is opened, and the error says
// which one it is.
func TestProbe(t *testing.T) {
	backend := fixture.Backend(t)
	d := fixture.NewDevice(backend)
	require.NoError(t, probe(d))
	noKernel := errors.New("no kernel image for the device")
	for _, broken := range []string{"compile", "upload", "execute"} {
		d.Fail(func(_ int, operation string) error {
			if operation == broken {
				return noKernel
			}
			return nil
		})
		err := probe(d)
		require.ErrorIs(t, err, noKernel, broken)
		require.ErrorContains(t, err, backend.Description())
		require.ErrorContains(t, err, backend.DeviceDescription(0))
		require.Empty(t, d.Shapes(), broken)
	}
}
