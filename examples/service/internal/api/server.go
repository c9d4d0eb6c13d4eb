// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package api is the HTTP interface of the service.
package api

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/gomlx3d/image3d/examples/service/internal/events"
	"github.com/gomlx3d/image3d/examples/service/internal/finder"
	"github.com/gomlx3d/image3d/examples/service/internal/metrics"
	"github.com/gomlx3d/image3d/examples/service/internal/store"
	"github.com/gomlx3d/image3d/examples/service/internal/worker"
)

// Server is the interface's parts and settings. All fields but Hosts and Finder are needed.
type Server struct {
	Store   *store.Store
	Queue   *worker.Queue
	Hub     *events.Hub
	Metrics *metrics.Set
	Log     *slog.Logger
	Keys    Keys
	Hosts   []string // names the service answers to without keys, besides those of the local machine

	MaxUpload  int64         // bytes of one submission
	UploadTime time.Duration // for one submission to arrive
	MaxPixels  int           // of a picture; told to clients
	Demo       bool          // the model is the embedded one with random weights; told to clients
	// Check looks at the files of a submission, in a folder, before it becomes a job.
	Check func(job store.Job, folder string) error
	// Finder finds objects by words and clicks. It is nil without a segmenter.
	Finder *finder.Finder
	// Ready reports whether the model is loaded.
	Ready func() bool
	// Page serves everything that is not the API.
	Page http.Handler

	closing atomic.Bool
	slots   chan struct{} // submissions being taken in
	checks  chan struct{} // submissions being looked at, which takes memory
	ended   context.Context
	end     context.CancelFunc
}

const (
	uploadSlots = 16
	checkSlots  = 2
)

// Version is that of the API.
const Version = "1.0.0"

// Handler returns the interface as one handler. It is called once.
func (s *Server) Handler() http.Handler {
	s.slots, s.checks = make(chan struct{}, uploadSlots), make(chan struct{}, checkSlots)
	s.ended, s.end = context.WithCancel(context.Background())

	jobs := http.NewServeMux() // what needs a key
	api := humago.New(jobs, configuration())
	s.operations(api)
	mux := http.NewServeMux()
	mux.Handle("POST /v1/jobs", s.private(s.uploads(jobs, s.Queue.Room)))
	mux.Handle("POST /v1/encodings", s.private(s.segmenting(s.uploads(jobs, func(string) error { return nil }))))
	mux.Handle("/v1/encodings/", s.private(s.segmenting(jobs)))
	mux.Handle("/v1/", s.private(jobs))
	mux.Handle("GET /openapi.json", jobs)
	mux.Handle("GET /openapi.yaml", jobs)
	mux.Handle("GET /metrics", s.private(s.Metrics.Handler()))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", s.ready)
	mux.Handle("/", s.Page)
	return s.observed(s.local(mux))
}

// Shutdown makes the interface take no more jobs and ends the event streams, which would go on for ever otherwise.
func (s *Server) Shutdown() {
	s.closing.Store(true)
	s.end()
}

func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	switch {
	case s.closing.Load():
		answer(w, http.StatusServiceUnavailable, "shutting down")
	case !s.Ready():
		answer(w, http.StatusServiceUnavailable, "the model is being loaded")
	default:
		answer(w, http.StatusOK, "ready")
	}
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n"))
}

// configuration is huma's, without its documentation page, which would load a program from another host.
func configuration() huma.Config {
	c := huma.DefaultConfig("image3d", Version)
	c.Info.Description = "One photograph and a mask become Gaussian splats, a mesh and a pose."
	c.DocsPath, c.SchemasPath, c.CreateHooks = "", "", nil
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"bearer": {Type: "http", Scheme: "bearer", Description: "An API key. A service on the local machine may need none."},
		"header": {Type: "apiKey", In: "header", Name: "X-API-Key"},
	}
	c.Security = []map[string][]string{{"bearer": {}}, {"header": {}}, {}}
	return c
}
