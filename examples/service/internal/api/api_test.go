// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/examples/service/internal/events"
	"github.com/gomlx3d/image3d/examples/service/internal/metrics"
	"github.com/gomlx3d/image3d/examples/service/internal/store"
	"github.com/gomlx3d/image3d/examples/service/internal/worker"
	"github.com/gomlx3d/image3d/sam3d"
)

const (
	keyA = "key-of-client-a-0001"
	keyB = "key-of-client-b-0002"
)

// maker makes a file of each job's seed, one step for each token it gets.
type maker struct{ steps chan struct{} }

func (m maker) Make(ctx context.Context, job store.Job, folder string, progress func(sam3d.Event)) (store.Summary, error) {
	progress(sam3d.Event{Stage: sam3d.StageStructure, Of: 2})
	for step := range 2 {
		select {
		case <-m.steps:
		case <-ctx.Done():
			return store.Summary{}, ctx.Err()
		}
		progress(sam3d.Event{Stage: sam3d.StageStructure, Step: step + 1, Of: 2})
	}
	data := fmt.Appendf(nil, "solid of seed %d", job.Options.Seed)
	err := os.WriteFile(filepath.Join(folder, "result.stl"), data, 0o600)
	return store.Summary{Files: []store.File{{Name: "result.stl", Bytes: int64(len(data)), SHA256: "hash"}}}, err
}

// fixture is a service with a fake model.
type fixture struct {
	t      *testing.T
	server *Server
	url    string
	steps  chan struct{}
	log    *bytes.Buffer
}

func start(t *testing.T, change func(*Server, *worker.Limits)) *fixture {
	t.Helper()
	jobs, err := store.Open(t.TempDir())
	require.NoError(t, err)
	f := &fixture{t: t, steps: make(chan struct{}, 100), log: &bytes.Buffer{}}
	keys, err := ReadKeys(strings.NewReader("# clients\na " + keyA + "\n\nb " + keyB + "\n"))
	require.NoError(t, err)
	f.server = &Server{Store: jobs, Hub: &events.Hub{}, Metrics: metrics.New(), Log: slog.New(slog.NewJSONHandler(io.Discard, nil)),
		Keys: keys, MaxUpload: 1 << 16, UploadTime: time.Minute, Ready: func() bool { return true }, Page: http.NotFoundHandler(),
		Check: func(store.Job, string) error { return nil }}
	limits := worker.Limits{Queue: 100, Client: 50, Time: time.Hour, Attempts: 3, Keep: time.Hour}
	if change != nil {
		change(f.server, &limits)
	}
	f.server.Queue, err = worker.New(jobs, f.server.Hub, f.server.Metrics, f.server.Log, limits)
	require.NoError(t, err)
	web := httptest.NewServer(f.server.Handler())
	f.url = web.URL
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { f.server.Queue.Run(ctx, maker{f.steps}, 0); close(ended) }()
	t.Cleanup(func() {
		f.server.Shutdown()
		web.Close()
		cancel()
		<-ended
		require.NoError(t, jobs.Close())
	})
	return f
}

// do sends a request of client a, unless header says otherwise, and returns the answer with its body.
func (f *fixture) do(method, path string, body io.Reader, header http.Header) (*http.Response, []byte) {
	f.t.Helper()
	request, err := http.NewRequest(method, f.url+path, body)
	require.NoError(f.t, err)
	request.Header.Set("Authorization", "Bearer "+keyA)
	for name, values := range header {
		request.Header[name] = values
		if name == "Host" {
			request.Host = values[0]
		}
	}
	answer, err := http.DefaultClient.Do(request)
	require.NoError(f.t, err)
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	require.NoError(f.t, err)
	return answer, data
}

// form is a multipart form; a value that starts with @ is a file of the rest.
func form(fields ...string) (io.Reader, http.Header) {
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for i := 0; i < len(fields); i += 2 {
		if content, ok := strings.CutPrefix(fields[i+1], "@"); ok {
			part, _ := w.CreateFormFile(fields[i], "some name.png")
			_, _ = part.Write([]byte(content))
			continue
		}
		_ = w.WriteField(fields[i], fields[i+1])
	}
	_ = w.Close()
	return &body, http.Header{"Content-Type": {w.FormDataContentType()}}
}

func (f *fixture) submit(header http.Header, fields ...string) (*http.Response, Job) {
	f.t.Helper()
	body, h := form(fields...)
	for name, values := range header {
		h[name] = values
	}
	answer, data := f.do(http.MethodPost, "/v1/jobs", body, h)
	var job Job
	if answer.StatusCode == http.StatusAccepted {
		require.NoError(f.t, json.Unmarshal(data, &job))
	}
	return answer, job
}

// stream reads a job's events to the end.
func (f *fixture) stream(id, last string) (status int, seen []events.Event, names []string) {
	f.t.Helper()
	header := http.Header{}
	if last != "" {
		header.Set("Last-Event-ID", last)
	}
	answer, data := f.do(http.MethodGet, "/v1/jobs/"+id+"/events", nil, header)
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			names = append(names, name)
		}
		if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var e events.Event
			require.NoError(f.t, json.Unmarshal([]byte(text), &e))
			seen = append(seen, e)
		}
	}
	return answer.StatusCode, seen, names
}

func TestJobFromStartToEnd(t *testing.T) {
	f := start(t, nil)
	answer, job := f.submit(http.Header{"X-Request-Id": {"my-request.1"}}, "image", "@picture", "mask", "@mask", "seed", "7", "outputs", "mesh, gaussians")
	require.Equal(t, http.StatusAccepted, answer.StatusCode)
	require.Equal(t, "my-request.1", answer.Header.Get("X-Request-Id"))
	self := answer.Header.Get("Location")
	require.Equal(t, "/v1/jobs/"+job.ID, self)
	require.Equal(t, store.Options{Seed: 7, Outputs: []string{"gaussians", "mesh"}}, job.Options)
	answer, _ = f.do(http.MethodGet, self+"/result.stl", nil, nil)
	require.Equal(t, http.StatusConflict, answer.StatusCode)

	f.steps <- struct{}{}
	f.steps <- struct{}{}
	status, seen, names := f.stream(job.ID, "")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, []string{"state", "state", "progress", "progress", "progress", "state"}, names)
	last := seen[len(seen)-1]
	require.True(t, last.Final)
	require.Equal(t, 100.0, last.Percent)
	require.Equal(t, "structure", seen[3].Stage)
	_, rest, _ := f.stream(job.ID, fmt.Sprint(seen[2].ID))
	require.Equal(t, seen[3:], rest)
	status, _, _ = f.stream(job.ID, fmt.Sprint(last.ID))
	require.Equal(t, http.StatusNoContent, status, "so that a browser does not ask again")

	answer, data := f.do(http.MethodGet, self+"/result.stl", nil, nil)
	require.Equal(t, "solid of seed 7", string(data))
	require.Equal(t, "model/stl", answer.Header.Get("Content-Type"))
	answer, _ = f.do(http.MethodGet, self+"/result.stl", nil, http.Header{"If-None-Match": {`"hash"`}})
	require.Equal(t, http.StatusNotModified, answer.StatusCode)
	answer, data = f.do(http.MethodGet, self+"/result.stl", nil, http.Header{"Range": {"bytes=0-4"}})
	require.Equal(t, http.StatusPartialContent, answer.StatusCode)
	require.Equal(t, "solid", string(data))
	answer, _ = f.do(http.MethodGet, self+"/result.glb", nil, nil)
	require.Equal(t, http.StatusNotFound, answer.StatusCode)

	_, data = f.do(http.MethodGet, self, nil, nil)
	require.NoError(t, json.Unmarshal(data, &job))
	require.Equal(t, store.Done, job.State)
	require.Equal(t, self+"/result.stl", job.Links["result.stl"])
	require.Contains(t, job.Seconds, "structure")
	_, data = f.do(http.MethodGet, "/metrics", nil, nil)
	require.Contains(t, string(data), `image3d_jobs_total{state="done"} 1`)
	require.Contains(t, string(data), `image3d_stage_seconds_count{stage="structure"} 1`)
	require.Contains(t, string(data), `route="GET /v1/jobs/{id}/result.stl"`)
	require.Contains(t, string(data), "process_resident_memory_bytes")

	answer, _ = f.do(http.MethodDelete, self, nil, nil)
	require.Equal(t, http.StatusNoContent, answer.StatusCode)
	answer, _ = f.do(http.MethodGet, self, nil, nil)
	require.Equal(t, http.StatusNotFound, answer.StatusCode)
}

func TestCancel(t *testing.T) {
	f := start(t, nil)
	_, running := f.submit(nil, "image", "@1")
	_, waiting := f.submit(nil, "image", "@2")
	for _, job := range []Job{waiting, running} {
		answer, data := f.do(http.MethodDelete, "/v1/jobs/"+job.ID, nil, nil)
		require.Equal(t, http.StatusAccepted, answer.StatusCode, string(data))
		_, seen, _ := f.stream(job.ID, "")
		require.Equal(t, "cancelled", seen[len(seen)-1].State)
	}
	_, data := f.do(http.MethodGet, "/v1/jobs", nil, nil)
	var list struct{ Jobs []Job }
	require.NoError(t, json.Unmarshal(data, &list))
	require.Len(t, list.Jobs, 2)
	require.Equal(t, waiting.ID, list.Jobs[0].ID, "latest first")
}

func TestClientsAreApart(t *testing.T) {
	f := start(t, nil)
	_, job := f.submit(nil, "image", "@1")
	for _, path := range []string{"", "/events", "/result.stl", "/result.json"} {
		answer, _ := f.do(http.MethodGet, "/v1/jobs/"+job.ID+path, nil, http.Header{"Authorization": {"Bearer " + keyB}})
		require.Equal(t, http.StatusNotFound, answer.StatusCode, path)
	}
	answer, _ := f.do(http.MethodDelete, "/v1/jobs/"+job.ID, nil, http.Header{"Authorization": {"Bearer " + keyB}})
	require.Equal(t, http.StatusNotFound, answer.StatusCode)
	_, data := f.do(http.MethodGet, "/v1/jobs", nil, http.Header{"Authorization": {"Bearer " + keyB}})
	require.JSONEq(t, `{"jobs":[]}`, string(data))
	answer, _ = f.do(http.MethodGet, "/v1/jobs/"+job.ID, nil, http.Header{"Authorization": nil, "X-Api-Key": {keyA}})
	require.Equal(t, http.StatusOK, answer.StatusCode)
	for _, wrong := range []string{"", "Bearer ", "Bearer " + keyA + "x", "Basic " + keyA, keyA} {
		for _, path := range []string{"/v1/jobs", "/v1/jobs/" + job.ID, "/metrics", "/v1/none"} {
			answer, _ := f.do(http.MethodGet, path, nil, http.Header{"Authorization": {wrong}})
			require.Equal(t, http.StatusUnauthorized, answer.StatusCode, wrong+path)
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/openapi.json"} {
		answer, _ := f.do(http.MethodGet, path, nil, http.Header{"Authorization": nil})
		require.Equal(t, http.StatusOK, answer.StatusCode, path)
	}
}

func TestOtherSites(t *testing.T) {
	f := start(t, func(s *Server, _ *worker.Limits) { s.Keys, s.Hosts = Keys{}, []string{"box.test"} })
	for host, status := range map[string]int{"localhost": 200, "127.0.0.1:80": 200, "[::1]:80": 200, "box.test:80": 200,
		"evil.test": http.StatusMisdirectedRequest, "127.0.0.1.evil.test": http.StatusMisdirectedRequest} {
		answer, _ := f.do(http.MethodGet, "/v1/jobs", nil, http.Header{"Host": {host}})
		require.Equal(t, status, answer.StatusCode, host)
	}
	answer, _ := f.submit(http.Header{"Sec-Fetch-Site": {"cross-site"}}, "image", "@1")
	require.Equal(t, http.StatusForbidden, answer.StatusCode)
	answer, _ = f.submit(http.Header{"Sec-Fetch-Site": {"same-origin"}}, "image", "@1")
	require.Equal(t, http.StatusAccepted, answer.StatusCode)
}

func TestReadiness(t *testing.T) {
	ready := false
	f := start(t, func(s *Server, _ *worker.Limits) { s.Ready = func() bool { return ready } })
	answer, _ := f.do(http.MethodGet, "/readyz", nil, nil)
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	ready = true
	answer, _ = f.do(http.MethodGet, "/readyz", nil, nil)
	require.Equal(t, http.StatusOK, answer.StatusCode)
	_, job := f.submit(nil, "image", "@1")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		request, _ := http.NewRequest(http.MethodGet, f.url+"/v1/jobs/"+job.ID+"/events", nil)
		request.Header.Set("X-API-Key", keyA)
		if answer, err := http.DefaultClient.Do(request); err == nil {
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
		}
	}()
	f.server.Shutdown()
	<-ended // streams do not hold the service up
	answer, _ = f.do(http.MethodGet, "/readyz", nil, nil)
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	answer, _ = f.submit(nil, "image", "@1")
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
}

func TestPanicIsAnswered(t *testing.T) {
	f := start(t, func(s *Server, _ *worker.Limits) { s.Check = func(store.Job, string) error { panic("deliberate") } })
	answer, data := f.submit(http.Header{"X-Request-Id": {"r1"}}, "image", "@1")
	require.Equal(t, http.StatusInternalServerError, answer.StatusCode, data)
	answer, _ = f.do(http.MethodGet, "/healthz", nil, nil)
	require.Equal(t, http.StatusOK, answer.StatusCode)
}

func TestOpenAPI(t *testing.T) {
	f := start(t, nil)
	_, data := f.do(http.MethodGet, "/openapi.json", nil, nil)
	var document struct {
		OpenAPI string
		Paths   map[string]map[string]any
	}
	require.NoError(t, json.Unmarshal(data, &document))
	require.Equal(t, "3.1.0", document.OpenAPI)
	for _, path := range []string{"/v1/jobs", "/v1/jobs/{id}", "/v1/jobs/{id}/events", "/v1/jobs/{id}/result.ply",
		"/v1/jobs/{id}/result.glb", "/v1/jobs/{id}/result.obj", "/v1/jobs/{id}/result.stl", "/v1/jobs/{id}/result.json"} {
		require.Contains(t, document.Paths, path)
	}
}

func TestReadKeys(t *testing.T) {
	for text, message := range map[string]string{
		"":                                "none",
		"# nothing":                       "none",
		"a":                               "line 1",
		"a b c":                           "line 1",
		"\na short":                       "line 2",
		"a " + keyA + "\nb " + keyA:       "same key",
		"a " + strings.Repeat("x", 1<<17): "too long",
	} {
		_, err := ReadKeys(strings.NewReader(text))
		require.ErrorContains(t, err, message)
	}
}
