// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package worker runs jobs one after the other, in fair order among clients, and brings each to its end: also after a
// cancellation, a failure, a shutdown or a crash.
package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/gomlx3d/image3d/examples/service/internal/events"
	"github.com/gomlx3d/image3d/examples/service/internal/metrics"
	"github.com/gomlx3d/image3d/examples/service/internal/store"
	"github.com/gomlx3d/image3d/sam3d"
)

// Maker makes the object of a job: it reads the client's files in a folder and leaves its own there. It must stop soon
// after ctx ends, and the same job must give the same bytes however often it is made.
type Maker interface {
	Make(ctx context.Context, job store.Job, folder string, progress func(sam3d.Event)) (store.Summary, error)
}

// Limits bound what the queue takes.
type Limits struct {
	Queue    int           // waiting jobs of all clients
	Client   int           // waiting jobs of one client
	Time     time.Duration // of one job
	Attempts int           // starts of a job that each ended with a crash of the service
	Keep     time.Duration // how long jobs and results stay after their end
}

// FullError says that the queue takes no job now.
type FullError struct {
	Own        bool          // it is the client's own limit
	RetryAfter time.Duration // when there may be room
}

// Error says whose limit it is.
func (e *FullError) Error() string {
	if e.Own {
		return "you have as many waiting jobs as one client may have"
	}
	return "the queue is full"
}

// Causes of a job's context, to tell why it ended.
var (
	errCancelled = errors.New("worker: cancelled by its client")
	errTime      = errors.New("worker: time limit")
	errShutdown  = errors.New("worker: the service is shutting down")
)

// Queue is safe for concurrent use.
type Queue struct {
	store   *store.Store
	hub     *events.Hub
	metrics *metrics.Set
	log     *slog.Logger
	limits  Limits

	mu       sync.Mutex
	line     *line
	arrived  chan struct{} // holds a token if there may be work
	running  string        // ID of the running job
	stop     context.CancelCauseFunc
	duration time.Duration // running mean of the time that a job takes
	retry    time.Duration // after which a job is tried again that could not start
}

// New returns the queue of a store's jobs. Those that an earlier run of the service began are next.
func New(s *store.Store, hub *events.Hub, m *metrics.Set, log *slog.Logger, limits Limits) (*Queue, error) {
	q := &Queue{store: s, hub: hub, metrics: m, log: log, limits: limits, line: newLine(), arrived: make(chan struct{}, 1), retry: 10 * time.Second}
	jobs, err := s.All()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(jobs, func(a, b store.Job) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, job := range jobs {
		q.line.started(job)
		if job, err = q.settle(job); err != nil {
			return nil, err
		}
		switch {
		case job.State.Final():
		case job.Starts > 0:
			q.line.begun = append(q.line.begun, job)
		default:
			q.line.push(job)
		}
		q.hub.Publish(job.ID, job.Starts, events.Event{State: string(job.State), Final: job.State.Final(), Percent: percentOf(job.State)})
	}
	q.changed()
	return q, nil
}

func percentOf(s store.State) float64 {
	if s == store.Done {
		return 100
	}
	return 0
}

// settle decides what becomes of a job that was running when the service ended.
func (q *Queue) settle(job store.Job) (store.Job, error) {
	if job.State != store.Running {
		return job, nil
	}
	return q.store.Update(job.ID, func(j *store.Job) error {
		switch {
		case j.Cancel:
			j.State, j.Finished = store.Cancelled, time.Now().UTC()
		case j.Attempts >= q.limits.Attempts:
			j.State, j.Finished = store.Failed, time.Now().UTC()
			j.Failure = &store.Failure{Code: "crashed", Message: fmt.Sprintf("the service ended %d times during this job; it is not tried again", j.Attempts)}
		default:
			j.State = store.Queued
		}
		return nil
	})
}

// changed updates the gauge and wakes the worker. The caller holds the lock, or is alone.
func (q *Queue) changed() {
	all, _ := q.line.len("")
	q.metrics.Queued.Set(float64(all))
	select {
	case q.arrived <- struct{}{}:
	default:
	}
}

// Room returns a *FullError if a job of the client would not be taken now.
func (q *Queue) Room(client string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.room(client)
}

func (q *Queue) room(client string) error {
	all, own := q.line.len(client)
	if own < q.limits.Client && all < q.limits.Queue {
		return nil
	}
	// A place is free when one of the client's jobs starts; every round serves each client once.
	wait := max(q.duration, time.Second).Round(time.Second)
	if own >= q.limits.Client {
		wait *= time.Duration(max(1, len(q.line.waiting)))
	}
	return &FullError{Own: own >= q.limits.Client, RetryAfter: min(wait, 10*time.Minute)}
}

// Submit takes a job whose files are in a staged folder of the store, which is the queue's from then on. A job that came
// before with the same idempotency key is returned as it is, with existed set. The error is a *FullError, wraps
// store.ErrKeyReused, or is the store's.
func (q *Queue) Submit(job store.Job, staged string) (added store.Job, existed bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.room(job.Client); err != nil {
		if before, findErr := q.store.Find(job.Client, job.Key, job.Digest); !errors.Is(findErr, store.ErrNotFound) {
			return before, findErr == nil, findErr
		}
		return store.Job{}, false, err
	}
	added, existed, err = q.store.Add(job, staged)
	if err != nil || existed {
		return added, existed, err
	}
	q.line.push(added)
	q.hub.Publish(added.ID, 0, events.Event{State: string(store.Queued)})
	q.changed()
	return added, false, nil
}

// Position returns how many jobs run or start before a waiting job if no other comes, and false for other jobs.
func (q *Queue) Position(id string) (int, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	ahead := 0
	if q.running != "" {
		ahead = 1
	}
	if i := q.line.position(id); i >= 0 {
		return ahead + i, true
	}
	return 0, false
}

// Cancel gives a job up: a waiting one at once, a running one within a step. It does nothing to a job that has ended.
// The error wraps store.ErrNotFound.
func (q *Queue) Cancel(id string) (store.Job, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := q.line.position(id) >= 0
	job, err := q.store.Update(id, func(j *store.Job) error {
		if j.State.Final() {
			return nil
		}
		j.Cancel = true
		if waiting {
			j.State, j.Finished = store.Cancelled, time.Now().UTC()
		}
		return nil
	})
	if err != nil {
		return job, err
	}
	switch {
	case waiting: // until the end is stored: on a full disk it goes on waiting
		q.line.remove(id)
		q.ended(job)
		q.changed()
	case q.running == id:
		q.stop(errCancelled)
	}
	return job, nil
}

// ended tells everyone of a job's end.
func (q *Queue) ended(job store.Job) {
	last, _ := q.hub.Last(job.ID)
	percent := last.Percent
	if job.State == store.Done {
		percent = 100
	}
	q.hub.Publish(job.ID, job.Starts, events.Event{State: string(job.State), Percent: percent, Final: true})
	q.metrics.Jobs.WithLabelValues(string(job.State)).Inc()
	attrs := []any{"job", job.ID, "request", job.RequestID, "client", job.Client, "state", job.State, "starts", job.Starts}
	if job.Failure != nil {
		q.metrics.Failures.WithLabelValues(job.Failure.Code).Inc()
		attrs = append(attrs, "code", job.Failure.Code)
	}
	q.log.Info("job ended", attrs...)
}

// Sweep removes the jobs that ended longer ago than the retention time.
func (q *Queue) Sweep(now time.Time) error {
	jobs, err := q.store.All()
	if err != nil {
		return err
	}
	for _, job := range jobs {
		if job.State.Final() && now.Sub(job.Finished) > q.limits.Keep {
			err = errors.Join(err, q.Remove(job.ID))
		}
	}
	return err
}

// Remove forgets a job that has ended and removes its files. The error wraps store.ErrNotFound if there is none.
func (q *Queue) Remove(id string) error {
	if err := q.store.Remove(id); err != nil {
		return err
	}
	q.hub.Forget(id)
	q.log.Info("job removed", "job", id)
	return nil
}
