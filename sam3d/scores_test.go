// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import (
	"testing"

	"github.com/gomlx/compute"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/nn"
)

// named is a backend of another name.
type named struct {
	compute.Backend
	name, description string
}

func (n named) Name() string        { return n.name }
func (n named) Description() string { return n.description }

// TestGPUsStoreFewScores bounds what attention stores where the backend cannot do without.
func TestGPUsStoreFewScores(t *testing.T) {
	plain, err := OpenBackend(DefaultBackend)
	require.NoError(t, err)
	for _, test := range []struct {
		backend compute.Backend
		options Options
		want    int64
	}{
		{named{plain, "xla", "xla:rocm - AMD"}, Options{}, nn.UsualScoreBytes},
		{named{plain, "xla", "xla:cuda - NVIDIA"}, Options{}, nn.UsualScoreBytes},
		{named{plain, "xla", "xla:rocm - AMD"}, Options{ScoreBytes: 1 << 30}, 1 << 30},
		{named{plain, "xla", "xla:cpu - x86"}, Options{}, 0},
		{named{plain, "xla", "xla:cpu - x86"}, Options{MemoryLimit: 1 << 40}, 0},
		{plain, Options{}, 0},
		{plain, Options{MemoryLimit: 1 << 40}, nn.UsualScoreBytes},
	} {
		p := &Pipeline{backend: test.backend, models: test.backend}
		p.limitScores(test.options)
		require.Equal(t, test.want, p.scoreBytes, "%s %+v", test.backend.Description(), test.options)
	}
}
