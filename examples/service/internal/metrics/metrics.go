// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package metrics holds what the service tells Prometheus.
package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Set is the metrics of one service, in a registry of their own. Memory is among the process and Go metrics:
// process_resident_memory_bytes and go_memstats_heap_alloc_bytes.
type Set struct {
	Queued, Running prometheus.Gauge
	Jobs            *prometheus.CounterVec   // by state they ended in
	Failures        *prometheus.CounterVec   // by code
	Stages          *prometheus.HistogramVec // seconds by stage
	Wait            prometheus.Histogram     // seconds from arrival to start
	Refused         *prometheus.CounterVec   // submissions not accepted, by HTTP status
	Uploaded        prometheus.Counter       // bytes
	Requests        *prometheus.HistogramVec // seconds by route and HTTP status

	registry *prometheus.Registry
}

// seconds are bucket bounds from a step of a small model to a large object without a GPU.
var seconds = []float64{0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000}

// New returns metrics that all start at zero.
func New() *Set {
	s := &Set{
		Queued:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "image3d_jobs_queued", Help: "Jobs that wait."}),
		Running:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "image3d_jobs_running", Help: "Jobs that run."}),
		Jobs:     counters("image3d_jobs_total", "Jobs that ended, by their last state.", "state"),
		Failures: counters("image3d_failures_total", "Jobs that failed, by reason.", "code"),
		Stages:   histograms("image3d_stage_seconds", "Time of each stage of a job.", "stage"),
		Wait: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "image3d_wait_seconds",
			Help: "Time from a job's arrival to its first start.", Buckets: seconds}),
		Refused: counters("image3d_refused_total", "Submissions that were not accepted, by HTTP status.", "status"),
		Uploaded: prometheus.NewCounter(prometheus.CounterOpts{Name: "image3d_upload_bytes_total",
			Help: "Bytes of accepted uploads."}),
		Requests: histograms("image3d_request_seconds", "Time of each HTTP request.", "route", "status"),
		registry: prometheus.NewRegistry(),
	}
	s.registry.MustRegister(s.Queued, s.Running, s.Jobs, s.Failures, s.Stages, s.Wait, s.Refused, s.Uploaded, s.Requests,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return s
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func histograms(name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: seconds}, labels)
}

// Handler serves the metrics.
func (s *Set) Handler() http.Handler {
	return promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{})
}
