// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadersFollow(t *testing.T) {
	var hub Hub
	const steps = 50
	hub.Publish("a", 0, Event{State: "queued"})
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			var seen []Event
			after := uint64(0)
			for {
				news, err := hub.Next(context.Background(), "a", after)
				if err != nil || len(news) == 0 {
					break
				}
				seen = append(seen, news...)
				after = news[len(news)-1].ID
			}
			if len(seen) != steps+2 || !seen[steps+1].Final {
				t.Errorf("a reader saw %d events", len(seen))
			}
			for i := 1; i < len(seen); i++ {
				if seen[i].ID <= seen[i-1].ID {
					t.Errorf("ID %d after %d", seen[i].ID, seen[i-1].ID)
				}
			}
		})
	}
	for i := range steps {
		hub.Publish("a", 1, Event{State: "running", Step: i})
	}
	hub.Publish("a", 1, Event{State: "done", Final: true})
	wait.Wait()

	last, ok := hub.Last("a")
	require.True(t, ok)
	require.Equal(t, "done", last.State)
	rest, err := hub.Next(context.Background(), "a", last.ID-1)
	require.NoError(t, err)
	require.Len(t, rest, 1)
}

// After a restart of the program the log is gone, but IDs must not start again: readers would take news for old.
func TestIDsGrowOverRestarts(t *testing.T) {
	var before, after Hub
	for range 3000 {
		before.Publish("a", 1, Event{})
	}
	last, _ := before.Last("a")
	after.Publish("a", 2, Event{})
	first, _ := after.Last("a")
	require.Greater(t, first.ID, last.ID)
}

func TestWaitingEnds(t *testing.T) {
	var hub Hub
	news, err := hub.Next(context.Background(), "none", 0)
	require.NoError(t, err)
	require.Empty(t, news)
	hub.Publish("a", 0, Event{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	last, _ := hub.Last("a")
	_, err = hub.Next(ctx, "a", last.ID)
	require.ErrorIs(t, err, context.Canceled)

	ended := make(chan []Event)
	go func() {
		news, _ := hub.Next(context.Background(), "a", last.ID)
		ended <- news
	}()
	hub.Forget("a")
	require.Empty(t, <-ended)
	hub.Forget("a")
}
