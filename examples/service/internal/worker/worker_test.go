// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gomlx3d/image3d/examples/service/internal/events"
	"github.com/gomlx3d/image3d/examples/service/internal/metrics"
	"github.com/gomlx3d/image3d/examples/service/internal/store"
	"github.com/gomlx3d/image3d/sam3d"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a Maker that does what the test says.
type fake func(ctx context.Context, job store.Job, progress func(sam3d.Event)) (store.Summary, error)

func (f fake) Make(ctx context.Context, job store.Job, _ string, progress func(sam3d.Event)) (store.Summary, error) {
	return f(ctx, job, progress)
}

func good(context.Context, store.Job, func(sam3d.Event)) (store.Summary, error) {
	return store.Summary{Voxels: 1}, nil
}

var limits = Limits{Queue: 100, Client: 50, Time: time.Hour, Attempts: 3, Keep: time.Hour}

// service is a queue on a store of its own.
type service struct {
	*Queue
	t      *testing.T
	folder string
}

func newService(t *testing.T, folder string, l Limits) *service {
	t.Helper()
	s, err := store.Open(folder)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	q, err := New(s, &events.Hub{}, metrics.New(), slog.New(slog.NewTextHandler(io.Discard, nil)), l)
	require.NoError(t, err)
	return &service{q, t, folder}
}

// restart is what follows a crash: the same store in a new process.
func (s *service) restart() *service {
	s.t.Helper()
	require.NoError(s.t, s.store.Close())
	return newService(s.t, s.folder, s.limits)
}

func (s *service) submit(client string) store.Job {
	s.t.Helper()
	staged, err := s.store.Stage()
	require.NoError(s.t, err)
	require.NoError(s.t, os.WriteFile(filepath.Join(staged, store.ImageFile), []byte("x"), 0o600))
	job, _, err := s.Submit(store.Job{Client: client}, staged)
	require.NoError(s.t, err)
	return job
}

// run starts the worker; what it returns stops it again and waits.
func (s *service) run(maker Maker, grace time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { s.Run(ctx, maker, grace); close(ended) }()
	return func() { cancel(); <-ended }
}

// final waits for the job's end.
func (s *service) final(id string) store.Job {
	s.t.Helper()
	after := uint64(0)
	for {
		news, err := s.hub.Next(s.t.Context(), id, after)
		require.NoError(s.t, err)
		if len(news) == 0 {
			job, err := s.store.Get(id)
			require.NoError(s.t, err)
			return job
		}
		after = news[len(news)-1].ID
	}
}

// attempts counts the lines of a log that say that a job cannot start.
type attempts struct{ n atomic.Int32 }

// Write implements io.Writer.
func (a *attempts) Write(line []byte) (int, error) {
	if strings.Contains(string(line), "cannot start") {
		a.n.Add(1)
	}
	return len(line), nil
}

// A job that cannot start, as the disk is full, is tried again without anything else happening.
func TestStartsAgain(t *testing.T) {
	s, seen := newService(t, t.TempDir(), limits), &attempts{}
	s.log, s.retry = slog.New(slog.NewTextHandler(seen, nil)), time.Millisecond
	s.submit("a")
	require.NoError(t, s.store.Close()) // nothing can be stored any more
	stop := s.run(fake(good), 0)
	require.Eventually(t, func() bool { return seen.n.Load() > 2 }, time.Minute, time.Millisecond)
	stop()
}

// A waiting job whose cancellation cannot be stored, as the disk is full, goes on waiting.
func TestCancelNotStored(t *testing.T) {
	s := newService(t, t.TempDir(), limits)
	job := s.submit("a")
	require.NoError(t, s.store.Close()) // nothing can be stored any more
	_, err := s.Cancel(job.ID)
	require.Error(t, err)
	_, waits := s.Position(job.ID)
	require.True(t, waits)
}

func TestOutcomes(t *testing.T) {
	for name, c := range map[string]struct {
		make  fake
		state store.State
		code  string
	}{
		"done":       {good, store.Done, ""},
		"no object":  {failing(fmt.Errorf("deep: %w", sam3d.ErrNoVoxels)), store.Failed, "no_object"},
		"not finite": {failing(sam3d.ErrNotFinite), store.Failed, "not_finite"},
		"disk":       {failing(os.ErrPermission), store.Failed, "internal"},
		"full disk":  {failing(&os.PathError{Op: "write", Err: syscall.ENOSPC}), store.Failed, "no_space"},
		"panic": {func(context.Context, store.Job, func(sam3d.Event)) (store.Summary, error) {
			panic("deliberate")
		}, store.Failed, "internal"},
		"time limit": {func(ctx context.Context, _ store.Job, _ func(sam3d.Event)) (store.Summary, error) {
			<-ctx.Done()
			return store.Summary{}, ctx.Err()
		}, store.Failed, "time_limit"},
	} {
		t.Run(name, func(t *testing.T) {
			l := limits
			if c.code == "time_limit" {
				l.Time = time.Millisecond
			}
			s := newService(t, t.TempDir(), l)
			job := s.submit("a")
			defer s.run(c.make, time.Hour)()
			ended := s.final(job.ID)
			require.Equal(t, c.state, ended.State)
			require.False(t, ended.Finished.IsZero())
			if c.code == "" {
				require.Equal(t, 1, ended.Summary.Voxels)
				return
			}
			require.Equal(t, c.code, ended.Failure.Code)
			require.NotContains(t, ended.Failure.Message, "permission", "what happens inside is for the log")
			next := s.submit("a")
			s.final(next.ID)
		})
	}
}

func failing(err error) fake {
	return func(context.Context, store.Job, func(sam3d.Event)) (store.Summary, error) {
		return store.Summary{}, err
	}
}

// untilStopped is a job that runs until its context ends, and says when it runs.
func untilStopped(running chan<- string) fake {
	return func(ctx context.Context, job store.Job, progress func(sam3d.Event)) (store.Summary, error) {
		progress(sam3d.Event{Stage: sam3d.StageInput, Of: 1})
		running <- job.ID
		<-ctx.Done()
		return store.Summary{}, ctx.Err()
	}
}

func TestCancel(t *testing.T) {
	s := newService(t, t.TempDir(), limits)
	running := make(chan string, 10)
	defer s.run(untilStopped(running), time.Hour)()
	first, second := s.submit("a"), s.submit("a")
	require.Equal(t, first.ID, <-running)
	position, ok := s.Position(second.ID)
	require.True(t, ok)
	require.Equal(t, 1, position)

	job, err := s.Cancel(second.ID) // waits
	require.NoError(t, err)
	require.Equal(t, store.Cancelled, job.State)
	job, err = s.Cancel(first.ID) // runs
	require.NoError(t, err)
	require.Equal(t, store.Running, job.State)
	require.True(t, job.Cancel)
	require.Equal(t, store.Cancelled, s.final(first.ID).State)
	again, err := s.Cancel(first.ID)
	require.NoError(t, err)
	require.Equal(t, store.Cancelled, again.State)
	_, err = s.Cancel("none")
	require.ErrorIs(t, err, store.ErrNotFound)
}

// A result that comes after its client gave the job up is not shown.
func TestCancelledResult(t *testing.T) {
	s := newService(t, t.TempDir(), limits)
	job := s.submit("a")
	defer s.run(fake(func(context.Context, store.Job, func(sam3d.Event)) (store.Summary, error) {
		_, err := s.Cancel(job.ID)
		return store.Summary{}, err
	}), time.Hour)()
	require.Equal(t, store.Cancelled, s.final(job.ID).State)
}

func TestShutdown(t *testing.T) {
	s := newService(t, t.TempDir(), limits)
	running := make(chan string, 1)
	stop := s.run(untilStopped(running), 0)
	job := s.submit("a")
	<-running
	stop()
	kept, err := s.store.Get(job.ID)
	require.NoError(t, err)
	require.Equal(t, store.Queued, kept.State)
	require.Zero(t, kept.Attempts, "a shutdown is no crash")

	s = s.restart()
	newer := s.submit("b")
	defer s.run(fake(good), 0)()
	ended := s.final(job.ID)
	require.Equal(t, store.Done, ended.State)
	require.EqualValues(t, 2, ended.Starts)
	require.Less(t, ended.Served, s.final(newer.ID).Served, "what was begun comes first")

	// With enough grace the job ends before the service does.
	s = newService(t, t.TempDir(), limits)
	begun, release := make(chan struct{}), make(chan struct{})
	stop = s.run(fake(func(ctx context.Context, _ store.Job, _ func(sam3d.Event)) (store.Summary, error) {
		close(begun)
		<-release
		return store.Summary{}, ctx.Err()
	}), time.Hour)
	job = s.submit("a")
	<-begun
	time.AfterFunc(time.Millisecond, func() { close(release) })
	stop()
	require.Equal(t, store.Done, s.final(job.ID).State)
}

func TestCrashes(t *testing.T) {
	s := newService(t, t.TempDir(), limits)
	job, waiting := s.submit("a"), s.submit("a")
	for n := range limits.Attempts {
		_, err := s.store.Start(job.ID) // and then the process is gone
		require.NoError(t, err)
		s = s.restart()
		now, err := s.store.Get(job.ID)
		require.NoError(t, err)
		if n < limits.Attempts-1 {
			require.Equal(t, store.Queued, now.State)
			ahead, _ := s.Position(waiting.ID)
			require.Equal(t, 1, ahead)
			continue
		}
		require.Equal(t, store.Failed, now.State)
		require.Equal(t, "crashed", now.Failure.Code)
		require.Equal(t, now, s.final(job.ID))
	}
	given := s.submit("b")
	_, err := s.store.Start(given.ID)
	require.NoError(t, err)
	_, err = s.store.Update(given.ID, func(j *store.Job) error { j.Cancel = true; return nil })
	require.NoError(t, err)
	s = s.restart()
	require.Equal(t, store.Cancelled, s.final(given.ID).State, "a job that was given up is not begun again")
	defer s.run(fake(good), 0)()
	require.Equal(t, store.Done, s.final(waiting.ID).State)
}

func TestFairOrder(t *testing.T) {
	s := newService(t, t.TempDir(), limits)
	var wanted []string
	many := make([]store.Job, 6)
	for i := range many {
		many[i] = s.submit("many")
	}
	few := []store.Job{s.submit("few"), s.submit("few")}
	one := s.submit("one")
	for _, job := range []store.Job{many[0], few[0], one, many[1], few[1], many[2], many[3], many[4], many[5]} {
		wanted = append(wanted, job.ID)
	}
	for i, id := range wanted {
		ahead, ok := s.Position(id)
		require.True(t, ok)
		require.Equal(t, i, ahead)
	}
	var got []string
	stop := s.run(fake(func(_ context.Context, job store.Job, _ func(sam3d.Event)) (store.Summary, error) {
		got = append(got, job.ID)
		return store.Summary{}, nil
	}), time.Hour)
	s.final(wanted[len(wanted)-1])
	stop()
	require.Equal(t, wanted, got)

	late := []store.Job{s.submit("many"), s.submit("one")}
	s = s.restart()
	first, _ := s.Position(late[1].ID)
	require.Zero(t, first, "who was served longest ago is next, also after a restart")
}

func TestFull(t *testing.T) {
	l := limits
	l.Queue, l.Client = 3, 2
	s := newService(t, t.TempDir(), l)
	s.submit("a")
	s.submit("a")
	staged, err := s.store.Stage()
	require.NoError(t, err)
	var full *FullError
	_, _, err = s.Submit(store.Job{Client: "a"}, staged)
	require.ErrorAs(t, err, &full)
	require.True(t, full.Own)
	require.GreaterOrEqual(t, full.RetryAfter, time.Second)
	job, _, err := s.Submit(store.Job{Client: "b", Key: "k"}, staged)
	require.NoError(t, err)
	require.ErrorAs(t, s.Room("c"), &full)
	require.False(t, full.Own)
	same, existed, err := s.Submit(store.Job{Client: "b", Key: "k"}, t.TempDir())
	require.NoError(t, err)
	require.True(t, existed, "what is here already needs no room")
	require.Equal(t, job.ID, same.ID)
	_, _, err = s.Submit(store.Job{Client: "b", Key: "k", Digest: "other"}, t.TempDir())
	require.ErrorIs(t, err, store.ErrKeyReused)
}

func TestSweep(t *testing.T) {
	s := newService(t, t.TempDir(), limits)
	old, waiting := s.submit("a"), s.submit("a")
	_, err := s.Cancel(old.ID)
	require.NoError(t, err)
	require.NoError(t, s.Sweep(time.Now().Add(limits.Keep/2)))
	_, err = s.store.Get(old.ID)
	require.NoError(t, err)
	require.NoError(t, s.Sweep(time.Now().Add(2*limits.Keep)))
	_, err = s.store.Get(old.ID)
	require.ErrorIs(t, err, store.ErrNotFound)
	require.NoDirExists(t, s.store.Folder(old.ID))
	_, err = s.store.Get(waiting.ID)
	require.NoError(t, err, "only jobs that ended are removed")
}

func TestProgress(t *testing.T) {
	var seen []events.Event
	w := newWatch(store.Job{Options: store.Options{Outputs: []string{"mesh"}}}, func(e events.Event) { seen = append(seen, e) })
	for i, stage := range []sam3d.Stage{sam3d.StageDepth, sam3d.StageInput, sam3d.StageCondition, sam3d.StageStructure,
		sam3d.StageVoxels, sam3d.StageLatent, sam3d.StageMesh} {
		for step := range 4 {
			w.event(sam3d.Event{Stage: stage, Step: step, Of: 3, Elapsed: time.Duration(10*i+step) * time.Second})
		}
	}
	for i := 1; i < len(seen); i++ {
		require.GreaterOrEqual(t, seen[i].Percent, seen[i-1].Percent)
	}
	require.Zero(t, seen[0].Percent)
	require.InDelta(t, 99, seen[len(seen)-1].Percent, 0.01)
	require.InDelta(t, 3, w.seconds["mesh"], 1e-9)
	w = newWatch(store.Job{HasPoints: true, Options: store.Options{Outputs: []string{"gaussians"}}}, func(e events.Event) { seen = append(seen, e) })
	w.event(sam3d.Event{Stage: sam3d.StageDepth, Step: 1, Of: 0})
	require.LessOrEqual(t, seen[len(seen)-1].Percent, 99.0)
}
