// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/sam3d"
)

// TestEvents checks the order of stages and steps, and that the clock goes forward.
func TestEvents(t *testing.T) {
	r := request(t)
	r.Steps, r.LatentSteps, r.Outputs = 3, 2, sam3d.Gaussians|sam3d.Gaussians4|sam3d.Mesh
	var events []sam3d.Event
	r.Progress = func(e sam3d.Event) { events = append(events, e) }
	result, err := pipeline(t).Generate(context.Background(), r)
	require.NoError(t, err)
	stages := []sam3d.Stage{sam3d.StageDepth, sam3d.StageInput, sam3d.StageCondition, sam3d.StageStructure, sam3d.StageVoxels,
		sam3d.StageLatent, sam3d.StageGaussians, sam3d.StageGaussians4, sam3d.StageMesh}
	var want []string
	for _, stage := range stages {
		of := map[sam3d.Stage]int{sam3d.StageStructure: 3, sam3d.StageLatent: 2}[stage]
		for step := range max(of, 1) + 1 {
			want = append(want, fmt.Sprintf("%s %d/%d", stage, step, max(of, 1)))
		}
	}
	var have []string
	var elapsed time.Duration
	for _, e := range events {
		have = append(have, fmt.Sprintf("%s %d/%d", e.Stage, e.Step, e.Of))
		require.GreaterOrEqual(t, e.Elapsed, elapsed)
		elapsed = e.Elapsed
	}
	require.Equal(t, want, have)
	require.Len(t, result.Timings, len(stages))
	for i, timing := range result.Timings {
		require.Equal(t, stages[i], timing.Stage)
	}
	require.GreaterOrEqual(t, result.Took, elapsed)
}

// TestCancelAtEveryEvent cancels at each event of a whole run in turn: nothing happens afterwards but the return, and
// nothing is left on the device.
func TestCancelAtEveryEvent(t *testing.T) {
	skipIfShort(t)
	d, name := openDevice(t)
	p, r := openOn(t, name, sam3d.Options{}), everything(t)
	r.Steps, r.LatentSteps = 2, 2
	events := 0
	r.Progress = func(sam3d.Event) { events++ }
	want, err := p.Generate(context.Background(), r)
	require.NoError(t, err)
	kept := d.Shapes()
	for at := range events {
		ctx, cancel := context.WithCancel(context.Background())
		seen := 0
		r.Progress = func(e sam3d.Event) {
			if seen++; seen == at+1 {
				cancel()
			}
		}
		result, err := p.Generate(ctx, r)
		require.ErrorIs(t, err, context.Canceled, "event %d", at)
		require.Nil(t, result)
		require.Equal(t, at+1, seen, "events after the cancellation")
		require.Empty(t, d.More(kept), "event %d", at)
	}
	r.Progress = nil
	again, err := p.Generate(context.Background(), r)
	require.NoError(t, err)
	require.Equal(t, withoutTimes(want), withoutTimes(again), "cancelled runs changed something")
}

func TestCancelBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r := request(t)
	r.Progress = func(e sam3d.Event) { t.Errorf("event %+v", e) }
	_, err := pipeline(t).Generate(ctx, r)
	require.ErrorIs(t, err, context.Canceled)
	ctx, cancel = context.WithTimeout(context.Background(), -1)
	defer cancel()
	_, err = pipeline(t).Generate(ctx, r)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = sam3d.Open(ctx, model(t), sam3d.Options{Backend: backendName()})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// occupied starts a Generate that stops at its first event on the device until release is called.
func occupied(t *testing.T, p *sam3d.Pipeline) (release func() error) {
	t.Helper()
	inside, goOn, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	r := request(t)
	once := sync.OnceFunc(func() { close(inside); <-goOn })
	r.Progress = func(e sam3d.Event) {
		if e.Stage == sam3d.StageDepth {
			once()
		}
	}
	go func() {
		_, err := p.Generate(context.Background(), r)
		done <- err
	}()
	<-inside
	return func() error { close(goOn); return <-done }
}

func TestCancelWhileWaiting(t *testing.T) {
	p := pipeline(t)
	release := occupied(t, p)
	ctx, cancel := context.WithCancel(context.Background())
	r := request(t)
	r.NoDepth = true // prepares its input without the device
	prepared := make(chan struct{})
	r.Progress = func(e sam3d.Event) {
		require.Equal(t, sam3d.StageInput, e.Stage)
		if e.Step == e.Of {
			close(prepared)
		}
	}
	done := make(chan error, 1)
	go func() {
		_, err := p.Generate(ctx, r)
		done <- err
	}()
	<-prepared
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	require.NoError(t, release())
}

// TestConcurrent runs two and eight objects at once; each is what it is alone.
func TestConcurrent(t *testing.T) {
	p := pipeline(t)
	requests := make([]sam3d.Request, 8)
	alone := make([]*sam3d.Result, len(requests))
	for i := range requests {
		requests[i] = request(t)
		requests[i].Seed, requests[i].NoDepth = uint64(i/2), i%2 == 1
		if i == 3 {
			requests[i].Outputs = sam3d.Mesh
		}
		var err error
		alone[i], err = p.Generate(context.Background(), requests[i])
		require.NoError(t, err)
		withoutTimes(alone[i])
	}
	for _, n := range []int{2, len(requests)} {
		results, errs := make([]*sam3d.Result, n), make([]error, n)
		var group sync.WaitGroup
		for i := range n {
			group.Go(func() { results[i], errs[i] = p.Generate(context.Background(), requests[i]) })
		}
		group.Wait()
		for i := range n {
			require.NoError(t, errs[i])
			require.Equal(t, alone[i], withoutTimes(results[i]), "request %d", i)
		}
	}
}

// TestSeeds checks that a seed, and nothing else, decides the noise, also in another pipeline.
func TestSeeds(t *testing.T) {
	skipIfShort(t)
	r := request(t)
	r.Seed = 7
	first, err := pipeline(t).Generate(context.Background(), r)
	require.NoError(t, err)
	second, err := open(t, model(t)).Generate(context.Background(), r)
	require.NoError(t, err)
	require.Equal(t, withoutTimes(first), withoutTimes(second))
	r.Seed = 8
	other, err := pipeline(t).Generate(context.Background(), r)
	require.NoError(t, err)
	require.NotEqual(t, first.Latents, other.Latents)
	require.NotEqual(t, first.Pose, other.Pose)
}

func TestClose(t *testing.T) {
	p := open(t, model(t))
	release := occupied(t, p)
	ctx := context.Background()
	waiting := make(chan error, 1)
	go func() {
		_, err := p.Generate(ctx, request(t))
		waiting <- err
	}()
	var closers sync.WaitGroup
	for range 3 {
		closers.Go(func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	require.ErrorIs(t, <-waiting, sam3d.ErrClosed) // before or after it queued
	require.NoError(t, release(), "Close waits for a running Generate")
	closers.Wait()
	require.NoError(t, p.Close())
	_, err := p.Generate(ctx, request(t))
	require.ErrorIs(t, err, sam3d.ErrClosed)
	_, err = p.Generate(ctx, sam3d.Request{})
	require.ErrorIs(t, err, sam3d.ErrClosed)
}

// TestProgressPanics lets the callback panic, or end its goroutine, at each event in turn: the pipeline works on.
func TestProgressPanics(t *testing.T) {
	p, r := pipeline(t), request(t)
	cause := errors.New("broken bar")
	for at := 1; ; at++ {
		seen := 0
		r.Progress = func(sam3d.Event) {
			if seen++; seen == at {
				panic(cause)
			}
		}
		_, err := p.Generate(context.Background(), r)
		if seen < at {
			require.NoError(t, err, "no event is left to panic at")
			break
		}
		require.ErrorIs(t, err, sam3d.ErrRequest)
		require.ErrorContains(t, err, cause.Error())
		require.NotErrorIs(t, err, context.Canceled)
		require.Equal(t, at, seen)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Progress = func(e sam3d.Event) {
			if e.Stage == sam3d.StageLatent {
				runtime.Goexit()
			}
		}
		_, _ = p.Generate(context.Background(), r)
		t.Error("the goroutine lives on")
	}()
	<-done
	r.Progress = nil
	_, err := p.Generate(context.Background(), r)
	require.NoError(t, err)
}

// TestNoVoxels: where the model sees no object that is an error of its own, which leaves nothing and ends nothing.
func TestNoVoxels(t *testing.T) {
	skipIfShort(t)
	d, name := openDevice(t)
	folder := model(t)
	// The decoder as it was before it was made to see something everywhere.
	blind, err := os.ReadFile(filepath.Join(fixture.Dir(), "checkpoint_official_tiny", "ss_decoder.ckpt"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "ss_decoder.ckpt"), blind, 0o600))
	p, err := sam3d.Open(t.Context(), folder, sam3d.Options{Backend: name})
	require.NoError(t, err)
	defer p.Close()
	kept := d.Shapes()
	for range 2 {
		result, err := p.Generate(t.Context(), request(t))
		require.ErrorIs(t, err, sam3d.ErrNoVoxels)
		require.Nil(t, result)
		require.Empty(t, d.More(kept))
	}
	require.NoError(t, p.Warmup(t.Context(), request(t), 20), "needs no object")
}
