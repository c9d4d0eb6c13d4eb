// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package parallel_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/parallel"
)

func TestFor(t *testing.T) {
	for _, n := range []int{-1, 0, 1, 2, 1000} {
		calls := make([]atomic.Int32, max(n, 0))
		require.NoError(t, parallel.For(t.Context(), n, func(i int) { calls[i].Add(1) }))
		for i := range calls {
			require.EqualValues(t, 1, calls[i].Load(), i)
		}
	}
}

func TestForStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var calls atomic.Int32
	err := parallel.For(ctx, 1<<20, func(int) {
		calls.Add(1)
		cancel()
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Less(t, calls.Load(), int32(1<<20))
}
