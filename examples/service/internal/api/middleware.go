// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gomlx3d/image3d/examples/service/internal/worker"
)

type contextKey int

const (
	clientKey contextKey = iota
	requestKey
)

func clientOf(ctx context.Context) string  { s, _ := ctx.Value(clientKey).(string); return s }
func requestOf(ctx context.Context) string { s, _ := ctx.Value(requestKey).(string); return s }

// problem answers with an error as huma does (RFC 9457).
func problem(w http.ResponseWriter, status int, detail string) {
	answerProblem(w, &huma.ErrorModel{Status: status, Title: http.StatusText(status), Detail: detail})
}

func answerProblem(w http.ResponseWriter, p *huma.ErrorModel) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

// recorder remembers what was answered.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(p)
	r.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

var requestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// observed gives every request an ID, logs and measures it, and turns a panic into an answer.
func (s *Server) observed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		id := r.Header.Get("X-Request-Id")
		if !requestID.MatchString(id) {
			id = rand.Text()
		}
		w.Header().Set("X-Request-Id", id)
		record := &recorder{ResponseWriter: w}
		r = r.WithContext(context.WithValue(r.Context(), requestKey, id))
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				s.Log.Error("panic", "request", id, "panic", p, "stack", string(debug.Stack()))
				if record.status == 0 {
					problem(record, http.StatusInternalServerError, "the service failed; its log tells more under request "+id)
				}
			}
			if record.status == 0 {
				record.status = http.StatusOK // nothing was written
			}
			took := time.Since(began)
			route := r.Pattern // what the mux chose, so that paths with IDs do not make a series each
			if route == "" {
				route = "none"
			}
			if r.Method == http.MethodPost && record.status >= http.StatusBadRequest {
				s.Metrics.Refused.WithLabelValues(strconv.Itoa(record.status)).Inc()
			}
			s.Metrics.Requests.WithLabelValues(route, strconv.Itoa(record.status)).Observe(took.Seconds())
			s.Log.LogAttrs(r.Context(), slog.LevelInfo, "request", slog.String("request", id), slog.String("method", r.Method),
				slog.String("path", r.URL.Path), slog.Int("status", record.status), slog.Int64("bytes", record.bytes),
				slog.Float64("ms", float64(took.Microseconds())/1000), slog.String("address", r.RemoteAddr))
		}()
		next.ServeHTTP(record, r)
	})
}

// local refuses requests that a web page elsewhere makes a browser send: another host name that leads to this address,
// and forms of other sites.
func (s *Server) local(next http.Handler) http.Handler {
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		problem(w, http.StatusForbidden, "requests from pages of other sites are refused")
	}))
	protected := origin.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if s.Keys.Empty() && !Loopback(host) && !slices.Contains(s.Hosts, host) {
			problem(w, http.StatusMisdirectedRequest, "this service answers under the names of the local machine only")
			return
		}
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Frame-Options", "DENY")
		protected.ServeHTTP(w, r)
	})
}

// Loopback reports whether a host is a name or an address of the machine itself.
func Loopback(host string) bool {
	if n := len(host); n > 2 && host[0] == '[' && host[n-1] == ']' {
		host = host[1 : n-1]
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// private lets clients with a key in, and takes the time limit of an ordinary answer.
func (s *Server) private(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client, ok := s.Keys.client(r)
		if !ok {
			w.Header().Set("WWW-Authenticate", "Bearer")
			problem(w, http.StatusUnauthorized, "an API key is needed")
			return
		}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute)) // a test's recorder has none
		known := r.WithContext(context.WithValue(r.Context(), clientKey, client))
		next.ServeHTTP(w, known)
		r.Pattern = known.Pattern // of the inner mux, for the metrics
	})
}

// patience is how long an answer may take that waits for the segmenter.
const patience = 10 * time.Minute

// segmenting lets requests through if there is a segmenter, and gives it time.
func (s *Server) segmenting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.Finder == nil {
			w.Header().Set("Connection", "close") // an upload is not read
			answerProblem(w, noSegmenter())
			return
		}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(patience))
		next.ServeHTTP(w, r)
	})
}

// uploads takes in the form of a submission, within the limits, before anything looks at it. First it asks whether there
// is room for the client.
func (s *Server) uploads(next http.Handler, room func(client string) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := s.parse(w, r, room)
		if r.MultipartForm != nil {
			defer r.MultipartForm.RemoveAll()
		}
		if err != nil {
			s.refuse(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// statusError is an error with the status of its answer.
type statusError struct {
	status int
	detail string
}

func (e *statusError) Error() string { return e.detail }

func (s *Server) parse(w http.ResponseWriter, r *http.Request, room func(client string) error) error {
	if s.closing.Load() {
		return &statusError{http.StatusServiceUnavailable, "the service is shutting down"}
	}
	if r.ContentLength > s.MaxUpload {
		return &statusError{http.StatusRequestEntityTooLarge, s.tooLarge()}
	}
	if r.Header.Get("Idempotency-Key") == "" { // with one the job may be here already
		if err := room(clientOf(r.Context())); err != nil {
			return err
		}
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		return &worker.FullError{RetryAfter: time.Second}
	}
	deadline := time.Now().Add(s.UploadTime)
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(deadline)
	_ = control.SetWriteDeadline(deadline.Add(patience))
	r.Body = http.MaxBytesReader(w, r.Body, s.MaxUpload)
	err := r.ParseMultipartForm(1 << 20) // net/http lifts the deadline at the body's end: what comes after the form is read too
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return &statusError{http.StatusRequestEntityTooLarge, s.tooLarge()}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &statusError{http.StatusRequestTimeout, "the upload took too long"}
	case errors.Is(err, http.ErrNotMultipart):
		return &statusError{http.StatusUnsupportedMediaType, "the body is no multipart form"}
	case err != nil:
		return &statusError{http.StatusBadRequest, "the form cannot be read"}
	}
	return nil
}

func (s *Server) tooLarge() string {
	return "an upload may have " + strconv.FormatInt(s.MaxUpload, 10) + " bytes"
}

// refuse answers a submission that is not taken.
func (s *Server) refuse(w http.ResponseWriter, err error) {
	status, detail := http.StatusInternalServerError, "the service failed"
	var full *worker.FullError
	var known *statusError
	switch {
	case errors.As(err, &full):
		status, detail = http.StatusTooManyRequests, full.Error()
		w.Header().Set("Retry-After", retryAfter(full))
	case errors.As(err, &known):
		status, detail = known.status, known.detail
	}
	w.Header().Set("Connection", "close") // the rest of the upload is not read
	problem(w, status, detail)
}

func retryAfter(full *worker.FullError) string {
	return strconv.Itoa(int(math.Ceil(full.RetryAfter.Seconds())))
}
