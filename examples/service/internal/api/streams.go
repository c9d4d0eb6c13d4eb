// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/gomlx3d/image3d/examples/service/internal/engine"
	"github.com/gomlx3d/image3d/examples/service/internal/events"
	"github.com/gomlx3d/image3d/examples/service/internal/store"
)

const (
	heartbeat    = 15 * time.Second // a comment that keeps proxies from closing a quiet stream
	streamWrite  = 30 * time.Second // for one piece of a stream to leave
	downloadTime = 30 * time.Minute
)

type eventsInput struct {
	ID   string `path:"id" maxLength:"64"`
	Last uint64 `header:"Last-Event-ID" doc:"The stream goes on after this event"`
}

func (s *Server) streams(api huma.API) {
	schema := api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[events.Event](), true, "Event")
	huma.Register(api, huma.Operation{OperationID: "job-events", Method: http.MethodGet, Path: "/v1/jobs/{id}/events",
		Summary: "What happens to a job, as server-sent events",
		Description: "Events are named progress, and state where the job's state changed. Each tells everything, so that a reader " +
			"that missed some needs none of them. The stream ends after the final event; a reader that has that one gets 204.",
		Responses: map[string]*huma.Response{"200": {Description: "Events, as JSON in their data", Content: map[string]*huma.MediaType{
			"text/event-stream": {Schema: schema}}}, "204": {Description: "No event follows"}},
		Errors: []int{404}}, s.follow)
}

func (s *Server) follow(ctx context.Context, in *eventsInput) (*huma.StreamResponse, error) {
	if _, err := s.own(ctx, in.ID); err != nil {
		return nil, err
	}
	if last, ok := s.Hub.Last(in.ID); ok && last.Final && last.ID <= in.Last {
		return &huma.StreamResponse{Body: func(c huma.Context) { c.SetStatus(http.StatusNoContent) }}, nil
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		c.SetHeader("Content-Type", "text/event-stream")
		c.SetHeader("Cache-Control", "no-store")
		c.SetHeader("X-Accel-Buffering", "no")
		_, w := humago.Unwrap(c)
		s.stream(c.Context(), w, in.ID, in.Last)
	}}, nil
}

// stream writes events until there are no more, the client has gone or the service ends.
func (s *Server) stream(ctx context.Context, w http.ResponseWriter, id string, after uint64) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ended, cancel)()
	control := http.NewResponseController(w)
	state := ""
	for {
		waiting, stop := context.WithTimeout(ctx, heartbeat)
		news, err := s.Hub.Next(waiting, id, after)
		stop()
		var text strings.Builder
		switch {
		case ctx.Err() != nil || err == nil && len(news) == 0:
			return
		case errors.Is(err, context.DeadlineExceeded):
			text.WriteString(": still here\n\n")
		}
		for _, e := range news {
			name := "progress"
			if e.State != state {
				name, state = "state", e.State
			}
			data, _ := json.Marshal(e) // numbers and strings only
			fmt.Fprintf(&text, "id: %d\nevent: %s\ndata: %s\n\n", e.ID, name, data)
			after = e.ID
		}
		_ = control.SetWriteDeadline(time.Now().Add(streamWrite))
		if _, err := w.Write([]byte(text.String())); err != nil {
			return
		}
		if err := control.Flush(); err != nil {
			return
		}
	}
}

// files are the results that clients may fetch.
var files = []struct{ name, media, about string }{
	{engine.ResultPLY, "application/octet-stream", "The Gaussians as PLY, z up"},
	{engine.ResultGLB, "model/gltf-binary", "The mesh as binary glTF, y up"},
	{engine.ResultOBJ, "model/obj", "The mesh as OBJ with vertex colours, z up"},
	{engine.ResultSTL, "model/stl", "The mesh as STL, z up"},
	{engine.ResultJSON, "application/json", "Pose, camera, sizes, warnings and the hashes of the files"},
	{engine.LightPLY, "application/octet-stream", "The lighter Gaussians as PLY"},
	{engine.PosedPLY, "application/octet-stream", "The Gaussians where the camera sees them"},
	{engine.PosedGLB, "model/gltf-binary", "The mesh where the camera sees it"},
	{engine.PointsPLY, "application/octet-stream", "The point map as a coloured point cloud"},
	{engine.PhotoJPEG, "image/jpeg", "The photograph, upright"},
}

func (s *Server) results(api huma.API) {
	for _, file := range files {
		huma.Register(api, huma.Operation{OperationID: "get-" + strings.ReplaceAll(file.name, ".", "-"), Method: http.MethodGet,
			Path: "/v1/jobs/{id}/" + file.name, Summary: file.about, Errors: []int{404, 409},
			Responses: map[string]*huma.Response{"200": {Description: file.about, Content: map[string]*huma.MediaType{
				file.media: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}}}},
			func(ctx context.Context, in *jobInput) (*huma.StreamResponse, error) {
				return s.result(ctx, in.ID, file.name, file.media)
			})
	}
}

func (s *Server) result(ctx context.Context, id, name, media string) (*huma.StreamResponse, error) {
	job, err := s.own(ctx, id)
	if err != nil {
		return nil, err
	}
	if job.State != store.Done {
		return nil, huma.Error409Conflict("the job is " + string(job.State) + ": it has no result")
	}
	for _, file := range job.Summary.Files {
		if file.Name != name {
			continue
		}
		return &huma.StreamResponse{Body: func(c huma.Context) {
			r, w := humago.Unwrap(c)
			h := w.Header()
			h.Set("Content-Type", media)
			h.Set("ETag", `"`+file.SHA256+`"`)
			h.Set("Cache-Control", "private, max-age=3600")
			h.Set("Content-Disposition", `attachment; filename="`+name+`"`)
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(downloadTime))
			http.ServeFile(w, r, filepath.Join(s.Store.Folder(id), name))
		}}, nil
	}
	return nil, huma.Error404NotFound("the job made no " + name)
}
