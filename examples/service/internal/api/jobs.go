// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gomlx3d/image3d/examples/service/internal/events"
	"github.com/gomlx3d/image3d/examples/service/internal/finder"
	"github.com/gomlx3d/image3d/examples/service/internal/store"
)

// Job is what clients see of a job.
type Job struct {
	ID         string             `json:"id"`
	State      store.State        `json:"state" enum:"queued,running,done,failed,cancelled"`
	Cancelling bool               `json:"cancelling,omitempty" doc:"It was cancelled and stops after its current step"`
	Position   *int               `json:"position,omitempty" doc:"Of a queued job: how many jobs come before it"`
	Progress   *events.Event      `json:"progress,omitempty" doc:"The latest event"`
	Options    store.Options      `json:"options"`
	Created    time.Time          `json:"created"`
	Started    *time.Time         `json:"started,omitempty"`
	Finished   *time.Time         `json:"finished,omitempty"`
	Starts     uint64             `json:"starts" doc:"How often it was started: more than once after a restart of the service"`
	Failure    *store.Failure     `json:"failure,omitempty"`
	Summary    *store.Summary     `json:"summary,omitempty"`
	Seconds    map[string]float64 `json:"seconds,omitempty" doc:"Time of each stage"`
	Links      map[string]string  `json:"links" doc:"Paths of the job, its events and its files"`
}

func (s *Server) view(j store.Job) Job {
	self := "/v1/jobs/" + j.ID
	out := Job{ID: j.ID, State: j.State, Cancelling: j.Cancel && !j.State.Final(), Options: j.Options, Created: j.Created,
		Starts: j.Starts, Failure: j.Failure, Summary: j.Summary, Seconds: j.Seconds,
		Links: map[string]string{"self": self, "events": self + "/events"}}
	if last, ok := s.Hub.Last(j.ID); ok {
		out.Progress = &last
	}
	if ahead, ok := s.Queue.Position(j.ID); ok && j.State == store.Queued {
		out.Position = &ahead
	}
	if !j.Started.IsZero() {
		out.Started = &j.Started
	}
	if !j.Finished.IsZero() {
		out.Finished = &j.Finished
	}
	if j.Summary != nil {
		for _, file := range j.Summary.Files {
			out.Links[file.Name] = self + "/" + file.Name
		}
	}
	return out
}

// About is what clients see of the service.
type About struct {
	Version   string        `json:"version"`
	Demo      bool          `json:"demo" doc:"The model has random weights: what it makes means nothing"`
	Ready     bool          `json:"ready" doc:"The model is loaded"`
	MaxUpload int64         `json:"max_upload_bytes"`
	MaxPixels int           `json:"max_pixels"`
	Segmenter *finder.State `json:"segmenter,omitempty" doc:"What finds objects by words and clicks, if the service has it"`
}

type aboutOutput struct{ Body About }

type jobInput struct {
	ID string `path:"id" maxLength:"64"`
}

type jobOutput struct {
	Location string `header:"Location"`
	Status   int
	Body     Job
}

// operations registers everything below /v1.
func (s *Server) operations(api huma.API) {
	huma.Register(api, huma.Operation{OperationID: "about", Method: http.MethodGet, Path: "/v1/about",
		Summary: "The service and its limits"}, func(context.Context, *struct{}) (*aboutOutput, error) {
		about := About{Version: Version, Demo: s.Demo, Ready: s.Ready(), MaxUpload: s.MaxUpload, MaxPixels: s.MaxPixels}
		if s.Finder != nil {
			state := s.Finder.State()
			about.Segmenter = &state
		}
		return &aboutOutput{Body: about}, nil
	})
	s.submission(api)
	s.segmentation(api)
	huma.Register(api, huma.Operation{OperationID: "list-jobs", Method: http.MethodGet, Path: "/v1/jobs",
		Summary: "The client's jobs, latest first"}, s.list)
	huma.Register(api, huma.Operation{OperationID: "get-job", Method: http.MethodGet, Path: "/v1/jobs/{id}",
		Summary: "A job", Errors: []int{404}},
		func(ctx context.Context, in *jobInput) (*jobOutput, error) {
			job, err := s.own(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			return &jobOutput{Status: http.StatusOK, Body: s.view(job)}, nil
		})
	huma.Register(api, huma.Operation{OperationID: "delete-job", Method: http.MethodDelete, Path: "/v1/jobs/{id}",
		Summary: "Cancel a job, or remove one that has ended", DefaultStatus: http.StatusAccepted,
		Description: "A queued job is cancelled at once and a running one after its current step: 202 with the job. " +
			"One that has ended is removed with its files: 204.", Errors: []int{404}}, s.remove)
	s.streams(api)
	s.results(api)
}

// own returns a job of the client. To others it does not exist.
func (s *Server) own(ctx context.Context, id string) (store.Job, error) {
	job, err := s.Store.Get(id)
	if errors.Is(err, store.ErrNotFound) || err == nil && job.Client != clientOf(ctx) {
		return job, huma.Error404NotFound("there is no such job")
	}
	if err != nil {
		return job, s.internal(ctx, err)
	}
	return job, nil
}

// internal logs an error that clients can do nothing about.
func (s *Server) internal(ctx context.Context, err error) error {
	s.Log.Error("request failed", "request", requestOf(ctx), "error", err)
	return huma.Error500InternalServerError("the service failed; its log tells more under request " + requestOf(ctx))
}

type listOutput struct {
	Body struct {
		Jobs []Job `json:"jobs"`
	}
}

func (s *Server) list(ctx context.Context, _ *struct{}) (*listOutput, error) {
	all, err := s.Store.All()
	if err != nil {
		return nil, s.internal(ctx, err)
	}
	client := clientOf(ctx)
	all = slices.DeleteFunc(all, func(j store.Job) bool { return j.Client != client })
	slices.SortFunc(all, func(a, b store.Job) int { return int(b.Seq) - int(a.Seq) })
	out := &listOutput{}
	out.Body.Jobs = []Job{}
	for _, job := range all[:min(len(all), 100)] {
		out.Body.Jobs = append(out.Body.Jobs, s.view(job))
	}
	return out, nil
}

type removeOutput struct {
	Status int
	Body   *Job
}

func (s *Server) remove(ctx context.Context, in *jobInput) (*removeOutput, error) {
	job, err := s.own(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if job.State.Final() {
		if err := s.Queue.Remove(job.ID); err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, s.internal(ctx, err)
		}
		return &removeOutput{Status: http.StatusNoContent}, nil
	}
	if job, err = s.Queue.Cancel(job.ID); err != nil {
		return nil, s.internal(ctx, err)
	}
	view := s.view(job)
	return &removeOutput{Status: http.StatusAccepted, Body: &view}, nil
}
