// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package worker

import (
	"cmp"
	"slices"

	"github.com/gomlx3d/image3d/examples/service/internal/store"
)

// line orders waiting jobs: the client that was served longest ago comes next, and of its jobs the oldest. So a client
// with many jobs delays others by one job a round. Jobs that an earlier run of the service began come before all others.
type line struct {
	begun   []store.Job
	waiting map[string][]store.Job // by client, oldest first
	served  map[string]uint64      // by client: number of its latest start
}

func newLine() *line {
	return &line{waiting: make(map[string][]store.Job), served: make(map[string]uint64)}
}

// push adds a new job at its client's end.
func (l *line) push(job store.Job) {
	l.waiting[job.Client] = append(l.waiting[job.Client], job)
}

// started notes a start.
func (l *line) started(job store.Job) {
	l.served[job.Client] = max(l.served[job.Client], job.Served)
}

// len returns how many jobs wait, in all and of one client.
func (l *line) len(client string) (all, own int) {
	all = len(l.begun)
	for _, jobs := range l.waiting {
		all += len(jobs)
	}
	own = len(l.waiting[client])
	for _, job := range l.begun {
		if job.Client == client {
			own++
		}
	}
	return all, own
}

// order returns the jobs in the order in which they would run if no other came.
func (l *line) order() []store.Job {
	order := slices.Clone(l.begun)
	clients := make([]string, 0, len(l.waiting))
	for client := range l.waiting {
		clients = append(clients, client)
	}
	slices.SortFunc(clients, func(a, b string) int {
		return cmp.Or(cmp.Compare(l.served[a], l.served[b]), cmp.Compare(l.waiting[a][0].Seq, l.waiting[b][0].Seq))
	})
	for round := 0; ; round++ {
		before := len(order)
		for _, client := range clients {
			if jobs := l.waiting[client]; round < len(jobs) {
				order = append(order, jobs[round])
			}
		}
		if len(order) == before {
			return order
		}
	}
}

// position returns how many jobs start before that one, or -1 if it does not wait.
func (l *line) position(id string) int {
	return slices.IndexFunc(l.order(), func(job store.Job) bool { return job.ID == id })
}

// remove takes a job out of the line and reports whether it was there.
func (l *line) remove(id string) bool {
	same := func(job store.Job) bool { return job.ID == id }
	if i := slices.IndexFunc(l.begun, same); i >= 0 {
		l.begun = slices.Delete(l.begun, i, i+1)
		return true
	}
	for client, jobs := range l.waiting {
		i := slices.IndexFunc(jobs, same)
		if i < 0 {
			continue
		}
		if jobs = slices.Delete(jobs, i, i+1); len(jobs) == 0 {
			delete(l.waiting, client)
		} else {
			l.waiting[client] = jobs
		}
		return true
	}
	return false
}
