// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

//go:build ((linux && (amd64 || arm64)) || (darwin && arm64) || (windows && amd64)) && cgo && !noxla

package sam3d

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOldPlugin: a plugin of another version is refused with its path and both versions.
func TestOldPlugin(t *testing.T) {
	require.NoError(t, checkVersion("/plugins/cpu.so", 0, oldestPlugin))
	require.NoError(t, checkVersion("/plugins/cpu.so", 0, oldestPlugin+50))
	for _, version := range [][2]int{{0, oldestPlugin - 1}, {0, 0}, {1, oldestPlugin}} {
		err := checkVersion("/plugins/cpu.so", version[0], version[1])
		require.ErrorContains(t, err, "/plugins/cpu.so has API version")
		require.ErrorContains(t, err, "make plugin")
	}
	require.ErrorContains(t, checkVersion("cpu.so", 0, 54), "0.54, and 0.81 or newer")
}
