// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/sam3d"
)

// TestWarmup leaves an object of as many voxels nothing to compile.
func TestWarmup(t *testing.T) {
	p, err := sam3d.Open(t.Context(), model(t), sam3d.Options{Backend: backendName()})
	require.NoError(t, err)
	defer p.Close()
	r := request(t)
	r.Outputs = sam3d.Gaussians | sam3d.Mesh
	want, err := pipeline(t).Generate(t.Context(), r)
	require.NoError(t, err)

	var stages []sam3d.Stage
	warm := r
	var compile time.Duration // as the events tell it
	warm.Progress = func(e sam3d.Event) {
		stages = append(stages, e.Stage)
		if e.Step == e.Of {
			compile += e.Compile
		}
	}
	require.NoError(t, p.Warmup(t.Context(), warm, len(want.Voxels)/3))
	require.Contains(t, stages, sam3d.StageMesh)
	require.NotContains(t, stages, sam3d.StageGaussians4)
	require.Positive(t, compile)
	before := nn.Compilations()
	require.NoError(t, p.Warmup(t.Context(), r, len(want.Voxels)/3))
	require.Equal(t, before, nn.Compilations(), "the same again")
	got, err := p.Generate(t.Context(), r)
	require.NoError(t, err)
	for _, timing := range got.Timings {
		require.LessOrEqual(t, timing.Compile, timing.Took)
	}
	require.Equal(t, withoutTimes(want), withoutTimes(got))
	cold, err := sam3d.Open(t.Context(), model(t), sam3d.Options{Backend: backendName()})
	require.NoError(t, err)
	defer cold.Close()
	warmed := nn.Compilations() - before
	_, err = cold.Generate(t.Context(), r)
	require.NoError(t, err)
	require.Less(t, 2*warmed, nn.Compilations()-before-warmed, "compiled in spite of the warm-up")
}

func TestWarmupRefuses(t *testing.T) {
	p := pipeline(t)
	require.ErrorIs(t, p.Warmup(t.Context(), sam3d.Request{}, -1), sam3d.ErrRequest)
	require.ErrorIs(t, p.Warmup(t.Context(), sam3d.Request{}, 1<<30), sam3d.ErrRequest)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, p.Warmup(ctx, sam3d.Request{}, 100), context.Canceled)
}
