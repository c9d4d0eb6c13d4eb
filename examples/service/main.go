// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Command service is an HTTP service that makes Gaussians, a mesh and a pose of photographs and masks, with a page to do
// so in a browser.
//
//	go run ./examples/service
//	go run ./examples/service -model checkpoints -backend xla:cpu -keys keys.txt -listen :8080
//	go run ./examples/service -model checkpoints -backend xla:cpu -segmenter sam3.pt
//
// Without flags it runs a small embedded model with random weights and answers the local machine alone. Jobs survive a
// crash or a restart. With -segmenter objects are also found by words and by clicks. /openapi.json describes the
// interface. `make page` builds the viewer that the page embeds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/gomlx3d/image3d/examples/service/internal/api"
	"github.com/gomlx3d/image3d/examples/service/internal/engine"
	"github.com/gomlx3d/image3d/examples/service/internal/events"
	"github.com/gomlx3d/image3d/examples/service/internal/finder"
	"github.com/gomlx3d/image3d/examples/service/internal/metrics"
	"github.com/gomlx3d/image3d/examples/service/internal/page"
	"github.com/gomlx3d/image3d/examples/service/internal/store"
	"github.com/gomlx3d/image3d/examples/service/internal/worker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program. It returns the exit status: 0, 1 for a failure, 2 for a wrong command line.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err == nil {
		err = serve(ctx, s, stdout, slog.New(slog.NewJSONHandler(stderr, nil)))
	}
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "service:", err)
	if errors.Is(err, errUsage) {
		return 2
	}
	return 1
}

// serve runs the service until ctx ends. It prints its address to stdout once it listens.
func serve(ctx context.Context, s settings, stdout io.Writer, log *slog.Logger) (err error) {
	jobs, err := store.Open(s.data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, jobs.Close()) }()
	hub, numbers := &events.Hub{}, metrics.New()
	queue, err := worker.New(jobs, hub, numbers, log, s.limits)
	if err != nil {
		return err
	}
	model := &engine.Engine{MemoryLimit: int64(s.memory), MaxPixels: s.maxPixels}
	defer func() { err = errors.Join(err, model.Close()) }()
	var find *finder.Finder
	if s.segmenter != "" {
		find = finder.New(s.encodings, s.keepEncodings)
		defer find.Close()
	}
	ready := func() bool { return model.Ready() && (find == nil || find.State().Ready) }
	server := &api.Server{Store: jobs, Queue: queue, Hub: hub, Metrics: numbers, Log: log, Keys: s.keys, Hosts: s.hosts,
		MaxUpload: s.maxUpload, UploadTime: s.uploadTime, MaxPixels: s.maxPixels, Demo: s.model == "", Check: model.Check, Finder: find, Ready: ready, Page: page.Handler()}
	listener, err := net.Listen("tcp", s.listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "http://%s\n", listener.Addr())
	web := &http.Server{Handler: server.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ReadTimeout:    s.uploadTime,    // also of bodies that are refused, which net/http reads some of
		WriteTimeout:   5 * time.Minute, // streams, downloads and submissions have their own
		MaxHeaderBytes: 1 << 16, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	return together(ctx, s, log, web, listener, server, queue, model, find)
}

// together runs the listener, the worker and the sweeper, until ctx ends or one of them fails.
func together(ctx context.Context, s settings, log *slog.Logger, web *http.Server, listener net.Listener,
	server *api.Server, queue *worker.Queue, model *engine.Engine, find *finder.Finder) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var running sync.WaitGroup
	running.Go(func() {
		if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			fail(err)
		}
	})
	running.Go(func() {
		if err := open(ctx, s, log, model); err != nil {
			fail(err)
			return
		}
		queue.Run(ctx, model, s.grace)
	})
	if find != nil {
		running.Go(func() {
			if err := openSegmenter(ctx, s, log, find); err != nil {
				fail(err)
			}
		})
	}
	running.Go(func() { sweep(ctx, log, queue, find) })
	<-ctx.Done()
	log.Info("shutting down")
	server.Shutdown()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.grace+5*time.Second)
	defer cancel()
	err := web.Shutdown(closing)
	if err != nil {
		err = errors.Join(err, web.Close())
	}
	running.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		err = errors.Join(cause, err)
	}
	return err
}

// open loads the model, while the service already takes jobs.
func open(ctx context.Context, s settings, log *slog.Logger, model *engine.Engine) error {
	began := time.Now()
	if s.model == "" {
		log.Warn("no -model given: this is a small embedded model with random weights; what it makes means nothing")
	}
	err := model.Open(ctx, s.model, s.backend)
	if err != nil && ctx.Err() != nil {
		return nil // stopped meanwhile
	}
	if err == nil {
		log.Info("model loaded", "model", s.model, "seconds", time.Since(began).Seconds())
	}
	return err
}

// openSegmenter loads the segmenter.
func openSegmenter(ctx context.Context, s settings, log *slog.Logger, find *finder.Finder) error {
	began := time.Now()
	err := find.Open(ctx, s.segmenter, s.vocabulary, s.backend)
	if err != nil && ctx.Err() != nil {
		return nil // stopped meanwhile
	}
	if err == nil {
		log.Info("segmenter loaded", "segmenter", s.segmenter, "seconds", time.Since(began).Seconds())
	}
	return err
}

// sweep removes old jobs and encodings now and then.
func sweep(ctx context.Context, log *slog.Logger, queue *worker.Queue, find *finder.Finder) {
	ticker := time.NewTicker(time.Minute)
	defer ticker.Stop()
	for {
		if err := queue.Sweep(time.Now()); err != nil {
			log.Error("sweep", "error", err)
		}
		if find != nil {
			find.Sweep(time.Now())
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
