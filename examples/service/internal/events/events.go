// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package events keeps what happened to each job in memory, so that any number of readers can follow it, each at its own
// pace and from where it stopped before.
package events

import (
	"context"
	"sync"
)

// Event is one thing that happened to a job. Every event tells all there is to know about the job then, so a reader
// that missed some is not wrong afterwards.
type Event struct {
	ID      uint64  `json:"id" doc:"Grows with each event of the job, also over restarts of the service"`
	State   string  `json:"state" enum:"queued,running,done,failed,cancelled"`
	Stage   string  `json:"stage,omitempty" doc:"Part of the work that runs"`
	Step    int     `json:"step,omitempty" doc:"Finished steps of the stage"`
	Of      int     `json:"of,omitempty" doc:"Steps of the stage"`
	Percent float64 `json:"percent" minimum:"0" maximum:"100" doc:"Of the whole work"`
	Final   bool    `json:"final,omitempty" doc:"No other event follows"`
}

// Hub holds the events of all jobs. The zero value is ready to use.
type Hub struct {
	mu   sync.Mutex
	logs map[string]*log
}

type log struct {
	events  []Event
	changed chan struct{} // closed at the next event
}

// eventsPerStart is how many events one start of a job can have: more than any number of steps leads to.
const eventsPerStart = 1 << 20

// Publish appends an event to a job's log. starts is how often the job was started: it keeps IDs growing when the
// program was restarted meanwhile and earlier events are gone.
func (h *Hub) Publish(job string, starts uint64, e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.log(job)
	e.ID = starts*eventsPerStart + 1
	if n := len(l.events); n > 0 {
		e.ID = max(e.ID, l.events[n-1].ID+1)
	}
	l.events = append(l.events, e)
	close(l.changed)
	l.changed = make(chan struct{})
}

func (h *Hub) log(job string) *log {
	if h.logs == nil {
		h.logs = make(map[string]*log)
	}
	l := h.logs[job]
	if l == nil {
		l = &log{changed: make(chan struct{})}
		h.logs[job] = l
	}
	return l
}

// Last returns a job's latest event.
func (h *Hub) Last(job string) (Event, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.logs[job]
	if l == nil || len(l.events) == 0 {
		return Event{}, false
	}
	return l.events[len(l.events)-1], true
}

// Next returns the events of a job after the one of ID after, and waits for one if there are none. It returns no events
// and no error once nothing will follow: after the final event, or if the job is not known. The error is ctx.Err().
func (h *Hub) Next(ctx context.Context, job string, after uint64) ([]Event, error) {
	for {
		h.mu.Lock()
		l := h.logs[job]
		if l == nil {
			h.mu.Unlock()
			return nil, nil
		}
		start := len(l.events)
		for start > 0 && l.events[start-1].ID > after {
			start--
		}
		news, changed := append([]Event(nil), l.events[start:]...), l.changed
		over := len(l.events) > 0 && l.events[len(l.events)-1].Final
		h.mu.Unlock()
		if len(news) > 0 || over {
			return news, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Forget drops the events of a job. Readers that wait for more are told that there are none.
func (h *Hub) Forget(job string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.logs[job]; l != nil {
		delete(h.logs, job)
		close(l.changed)
	}
}
