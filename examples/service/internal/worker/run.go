// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/gomlx3d/image3d/examples/service/internal/events"
	"github.com/gomlx3d/image3d/examples/service/internal/store"
	"github.com/gomlx3d/image3d/sam3d"
)

// Run runs jobs until ctx ends. The job that runs then goes back into the queue of the next Run, unless it ends within
// grace. One Run may be active at a time.
func (q *Queue) Run(ctx context.Context, maker Maker, grace time.Duration) {
	for ctx.Err() == nil {
		job, ok, err := q.next()
		if ok {
			q.run(ctx, maker, job, grace)
			continue
		}
		var again <-chan time.Time
		if err != nil { // the disk is full, say
			again = time.After(q.retry)
		}
		select {
		case <-q.arrived:
		case <-again:
		case <-ctx.Done():
		}
	}
}

// next starts the next job, if there is one. A job that cannot start stays where it is.
func (q *Queue) next() (job store.Job, ok bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	order := q.line.order()
	if len(order) == 0 {
		return job, false, nil
	}
	if job, err = q.store.Start(order[0].ID); err != nil {
		q.log.Error("job cannot start", "job", order[0].ID, "error", err)
		return job, false, err
	}
	q.line.remove(job.ID)
	q.line.started(job)
	q.running = job.ID
	q.stop = func(error) {}
	q.metrics.Running.Set(1)
	q.changed()
	if job.Starts == 1 {
		q.metrics.Wait.Observe(job.Started.Sub(job.Created).Seconds())
	}
	q.hub.Publish(job.ID, job.Starts, events.Event{State: string(store.Running)})
	q.log.Info("job started", "job", job.ID, "request", job.RequestID, "client", job.Client, "served", job.Served, "starts", job.Starts)
	return job, true, nil
}

// run makes one job and stores how it ended.
func (q *Queue) run(ctx context.Context, maker Maker, job store.Job, grace time.Duration) {
	jobCtx, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	jobCtx, cancel := context.WithTimeoutCause(jobCtx, q.limits.Time, errTime)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-timer.C:
			stop(errShutdown)
		case <-jobCtx.Done():
		}
	})()
	q.mu.Lock()
	q.stop = stop
	q.mu.Unlock()
	if current, err := q.store.Get(job.ID); err == nil && current.Cancel { // between start and here
		stop(errCancelled)
	}

	began := time.Now()
	watch := newWatch(job, func(e events.Event) { q.hub.Publish(job.ID, job.Starts, e) })
	summary, err := guarded(func() (store.Summary, error) {
		return maker.Make(jobCtx, job, q.store.Folder(job.ID), watch.event)
	})
	if err != nil && jobCtx.Err() != nil {
		err = errors.Join(context.Cause(jobCtx), err)
	}
	q.finish(job, summary, watch.seconds, time.Since(began), err)
}

// guarded turns a panic into an error, so that one job does not end the service.
func guarded(make func() (store.Summary, error)) (summary store.Summary, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("worker: panic: %v\n%s", p, debug.Stack())
		}
	}()
	return make()
}

// finish stores how a job ended.
func (q *Queue) finish(job store.Job, summary store.Summary, seconds map[string]float64, took time.Duration, cause error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running, q.stop = "", nil
	q.metrics.Running.Set(0)
	ended, err := q.store.Update(job.ID, func(j *store.Job) error {
		j.Seconds, j.Finished = seconds, time.Now().UTC()
		switch {
		case j.Cancel:
			j.State = store.Cancelled // even if the result came first: its client does not want it
		case cause == nil:
			j.State, j.Summary = store.Done, &summary
		case errors.Is(cause, errShutdown):
			j.State, j.Attempts, j.Seconds, j.Finished = store.Queued, j.Attempts-1, nil, time.Time{}
		default:
			j.State, j.Failure = store.Failed, failure(cause, j.RequestID, q.limits.Time)
		}
		return nil
	})
	if err != nil { // it counts as cut off, and the next start of the service settles it
		q.log.Error("end of a job not stored", "job", job.ID, "error", err)
		q.hub.Forget(job.ID)
		return
	}
	if !ended.State.Final() {
		q.line.begun = append(q.line.begun, ended)
		q.changed()
		q.hub.Publish(job.ID, job.Starts, events.Event{State: string(store.Queued)})
		q.log.Info("job goes back into the queue", "job", job.ID)
		return
	}
	if ended.State == store.Failed {
		q.log.Error("job failed", "job", job.ID, "request", job.RequestID, "error", cause)
	}
	if ended.State == store.Done {
		for stage, s := range seconds {
			q.metrics.Stages.WithLabelValues(stage).Observe(s)
		}
		if q.duration == 0 {
			q.duration = took
		}
		q.duration += (took - q.duration) / 4
	}
	q.ended(ended)
}

// failures are the errors that say something to the client.
var failures = []struct {
	err           error
	code, message string
}{
	{sam3d.ErrNoVoxels, "no_object", "the model sees no object there: check the mask, or try another seed"},
	{sam3d.ErrNotFinite, "not_finite", "the model gave no finite numbers for this picture: try another seed"},
	{sam3d.ErrEmptyMask, "empty_mask", "the mask is empty"},
	{sam3d.ErrMaskTooSmall, "mask_too_small", "the mask is too small"},
	{sam3d.ErrRequest, "bad_request", "the request cannot be run"},
	{syscall.ENOSPC, "no_space", "the service's disk is full: try again later"},
}

// failure returns what the client is told. What it cannot know or change stays in the log.
func failure(err error, request string, limit time.Duration) *store.Failure {
	if errors.Is(err, errTime) {
		return &store.Failure{Code: "time_limit", Message: fmt.Sprintf("the job took longer than %s", limit)}
	}
	for _, f := range failures {
		if errors.Is(err, f.err) {
			return &store.Failure{Code: f.code, Message: f.message}
		}
	}
	return &store.Failure{Code: "internal", Message: "the service failed; its log tells more under request " + request}
}
