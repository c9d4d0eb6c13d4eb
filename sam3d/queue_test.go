// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// TestQueueIsFair lets many wait for the device: they get it in the order in which they came, but for those that gave up.
func TestQueueIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pipeline{turn: make(chan struct{}, 1), closing: make(chan struct{})}
		var served, want, gaveUp []int // one at a time, as the device allows
		const waiting = 50
		cancels := make([]context.CancelFunc, waiting)
		for i := range waiting {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			cancels[i] = cancel
			go func() {
				if err := p.begin(ctx); err != nil {
					gaveUp = append(gaveUp, i) // each alone, see below
					return
				}
				served = append(served, i)
				p.end()
			}()
			synctest.Wait() // until it waits
		}
		for i := range waiting {
			if i%7 == 3 {
				cancels[i]()
				synctest.Wait()
			} else {
				want = append(want, i)
			}
		}
		require.Empty(t, served)
		p.end()
		synctest.Wait()
		require.Equal(t, want, served)
		require.Len(t, gaveUp, waiting-len(want))
	})
}

// TestCloseEndsTheQueue: whoever waits is told, and Close returns when the device is free.
func TestCloseEndsTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pipeline{turn: make(chan struct{}, 1), closing: make(chan struct{})}
		errs := make(chan error, 8)
		for range cap(errs) {
			go func() { errs <- p.begin(t.Context()) }()
		}
		synctest.Wait()
		closed := false
		go func() {
			require.NoError(t, p.Close())
			closed = true
		}()
		synctest.Wait()
		require.Len(t, errs, cap(errs))
		require.False(t, closed, "the device is still in use")
		p.end()
		synctest.Wait()
		require.True(t, closed)
		for range cap(errs) {
			require.ErrorIs(t, <-errs, ErrClosed)
		}
		require.ErrorIs(t, p.begin(t.Context()), ErrClosed)
	})
}
