// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var fullLoad = flag.Bool("load", false, "send 200 jobs in the load test, not 16")

const loadClients = 8

// load is many clients that send jobs to a service, which may end and start again meanwhile.
type load struct {
	t            *testing.T
	data, listen string
	keys         string
	count        int // of jobs
	processes    []*process
	mu           sync.Mutex
	accepted     map[string]int // seed of each job
	took         []time.Duration
}

func clientKey(client int) string { return fmt.Sprintf("load-test-key-of-client-%d", client) }

func newLoad(t *testing.T, count int) *load {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // a port that stays the same over restarts
	require.NoError(t, err)
	l := &load{t: t, data: t.TempDir(), listen: listener.Addr().String(), count: count, accepted: make(map[string]int)}
	require.NoError(t, listener.Close())
	var keys strings.Builder
	for client := range loadClients {
		fmt.Fprintf(&keys, "client-%d %s\n", client, clientKey(client))
	}
	l.keys = filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(l.keys, []byte(keys.String()), 0o600))
	return l
}

// start starts the service, the first time or again.
func (l *load) start() {
	l.processes = append(l.processes, launch(l.t, l.data, "-listen", l.listen, "-keys", l.keys, "-queue", "1000", "-queue-client", "100"))
}

// do sends a request of a client until the service answers, within a minute.
func (l *load) do(client int, method, path, kind string, body []byte, key string) (status int, data []byte, err error) {
	for end := time.Now().Add(time.Minute); ; {
		request, err := http.NewRequest(method, "http://"+l.listen+path, bytes.NewReader(body))
		if err != nil {
			return 0, nil, err
		}
		request.Header.Set("Authorization", "Bearer "+clientKey(client))
		request.Header.Set("Content-Type", kind)
		request.Header.Set("Idempotency-Key", key)
		answer, err := http.DefaultClient.Do(request)
		if err == nil {
			data, err = io.ReadAll(answer.Body)
			_ = answer.Body.Close()
		}
		if err == nil || time.Now().After(end) {
			if err != nil {
				return 0, nil, err
			}
			return answer.StatusCode, data, nil
		}
		time.Sleep(20 * time.Millisecond) // the service is being started again
	}
}

// submitAll sends the jobs, every client its own one after the other. What a crash cuts off is sent again.
func (l *load) submitAll() error {
	var clients sync.WaitGroup
	faults := make(chan error, loadClients)
	for client := range loadClients {
		clients.Go(func() {
			for seed := client; seed < l.count; seed += loadClients {
				body, kind := submission("seed", strconv.Itoa(seed), "steps", "1", "latent_steps", "1", "no_depth", "true", "outputs", "gaussians")
				began := time.Now()
				status, data, err := l.do(client, http.MethodPost, "/v1/jobs", kind, body.Bytes(), "job "+strconv.Itoa(seed))
				var job answerJob
				if err == nil && status != http.StatusAccepted {
					err = fmt.Errorf("%d %s", status, data)
				}
				if err == nil {
					err = json.Unmarshal(data, &job)
				}
				if err != nil {
					faults <- err
					return
				}
				l.mu.Lock()
				l.accepted[job.ID] = seed
				l.took = append(l.took, time.Since(began))
				l.mu.Unlock()
			}
		})
	}
	clients.Wait()
	close(faults)
	return <-faults // nil if there is none
}

// jobs returns the jobs of all clients.
func (l *load) jobs() (all []loadJob) {
	l.t.Helper()
	for client := range loadClients {
		status, data, err := l.do(client, http.MethodGet, "/v1/jobs", "", nil, "")
		require.NoError(l.t, err)
		require.Equal(l.t, http.StatusOK, status)
		var list struct{ Jobs []loadJob }
		require.NoError(l.t, json.Unmarshal(data, &list))
		all = append(all, list.Jobs...)
	}
	return all
}

type loadJob struct {
	answerJob
	Created, Started time.Time
}

// ended returns how many jobs have reached an end.
func ended(jobs []loadJob) (n int) {
	for _, job := range jobs {
		if job.State != "queued" && job.State != "running" {
			n++
		}
	}
	return n
}

// waitFor waits until at least n jobs have ended, and returns all.
func (l *load) waitFor(n int) []loadJob {
	l.t.Helper()
	for {
		jobs := l.jobs()
		if ended(jobs) >= n {
			return jobs
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// line is what the tests read of a line of the log.
type line struct {
	Msg, Job, Client, State string
	Starts, Served          int
}

func (l *load) lines() (lines []line) {
	for _, p := range l.processes {
		for text := range strings.Lines(p.text()) {
			var one line
			if json.Unmarshal([]byte(text), &one) == nil { // a crash may cut the last one
				lines = append(lines, one)
			}
		}
	}
	return lines
}

// check checks what must hold after all jobs have ended, with so many crashes.
func (l *load) check(jobs []loadJob, crashes int) {
	l.t.Helper()
	require.Len(l.t, jobs, l.count, "none is lost, none is there twice")
	require.Len(l.t, l.accepted, l.count)
	starts := 0
	for _, job := range jobs {
		require.Contains(l.t, l.accepted, job.ID)
		require.Equal(l.t, "done", job.State)
		starts += job.Starts
	}
	require.LessOrEqual(l.t, starts, l.count+crashes, "only a job that a crash cut off is begun again")
	completed := make(map[string]int)
	for _, one := range l.lines() {
		if one.Msg == "job ended" {
			completed[one.Job]++
			require.Equal(l.t, 1, completed[one.Job], "none runs twice to its end")
		}
	}
	require.GreaterOrEqual(l.t, len(completed), l.count-crashes, "a crash may come between an end and its line")
}

// fair checks that, once all jobs are there, clients that wait take turns.
func (l *load) fair() {
	l.t.Helper()
	lines := l.lines()
	last := 0
	for i, one := range lines {
		if one.Msg == "job accepted" {
			last = i
		}
	}
	left, served := make(map[string]int), make(map[string]int)
	for _, one := range lines[last:] {
		if one.Msg == "job started" && one.Starts == 1 {
			left[one.Client]++
		}
	}
	rounds := 0
	for _, one := range lines[last:] {
		if one.Msg != "job started" || one.Starts != 1 {
			continue
		}
		served[one.Client]++
		left[one.Client]--
		for client, n := range left {
			if n > 0 {
				require.LessOrEqual(l.t, served[one.Client]-served[client], 1, "%s waits while %s is served", client, one.Client)
			}
		}
		rounds = max(rounds, served[one.Client])
	}
	l.t.Logf("clients took turns for %d rounds", rounds)
}

// report prints the figures.
func (l *load) report(name string, jobs []loadJob, took time.Duration) {
	wait := make([]time.Duration, 0, len(jobs))
	for _, job := range jobs {
		wait = append(wait, job.Started.Sub(job.Created))
	}
	slices.Sort(wait)
	slices.Sort(l.took)
	at := func(of []time.Duration, part float64) time.Duration {
		return of[int(part*float64(len(of)-1))].Round(time.Millisecond)
	}
	_, metrics, _ := l.do(0, http.MethodGet, "/metrics", "", nil, "")
	memory := regexp.MustCompile(`(?m)^process_resident_memory_bytes (.*)$`).FindSubmatch(metrics)
	bytes, _ := strconv.ParseFloat(string(memory[1]), 64)
	l.t.Logf("%s: %d jobs of %d clients in %s (%.2f a second); submission p50 %s, p99 %s; wait p50 %s, max %s; resident %.0f MB",
		name, len(jobs), loadClients, took.Round(time.Second), float64(len(jobs))/took.Seconds(), at(l.took, 0.5), at(l.took, 0.99),
		at(wait, 0.5), at(wait, 1), bytes/1e6)
}

// hashes returns the hash of each job's splats by seed.
func (l *load) hashes(jobs []loadJob) map[int]string {
	out := make(map[int]string)
	for _, job := range jobs {
		for _, file := range job.Summary.Files {
			if file.Name == "result.ply" {
				out[l.accepted[job.ID]] = file.SHA256
			}
		}
	}
	return out
}

// Many clients at once: no job is lost or made twice, clients take turns, also over two crashes, and crashes change no
// byte of a result.
func TestLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: runs many jobs")
	}
	count := 16
	if *fullLoad {
		count = 200
	}
	steady := newLoad(t, count)
	steady.start()
	began := time.Now()
	require.NoError(t, steady.submitAll())
	jobs := steady.waitFor(count)
	steady.report("steady", jobs, time.Since(began))
	steady.check(jobs, 0)
	steady.fair()
	expected := steady.hashes(jobs)
	require.Len(t, expected, count)
	steady.processes[0].kill()

	crashing := newLoad(t, count)
	crashing.start()
	began = time.Now()
	submitted := make(chan error, 1)
	go func() { submitted <- crashing.submitAll() }()
	for n := range 2 {
		at := (n+1)*count/4 + rand.IntN(count/4)
		crashing.waitFor(at)
		time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond) // anywhere within a job
		t.Logf("kill -9 after %d jobs", at)
		crashing.processes[n].kill()
		crashing.start()
	}
	require.NoError(t, <-submitted)
	jobs = crashing.waitFor(count)
	crashing.report("killed twice", jobs, time.Since(began))
	crashing.check(jobs, 2)
	crashing.fair()
	require.Equal(t, expected, crashing.hashes(jobs))
}
