// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"maps"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gomlx3d/image3d/examples/service/internal/store"
	"github.com/gomlx3d/image3d/examples/service/internal/worker"
	"github.com/gomlx3d/image3d/sam3d"
)

type submitForm struct {
	Image       huma.FormFile `form:"image" required:"true" doc:"Photograph: PNG, JPEG, GIF, WebP, TIFF or BMP"`
	Mask        huma.FormFile `form:"mask" required:"false" doc:"Picture of the photograph's size that is bright, or opaque, where the object is. Without one the photograph's own alpha tells."`
	Text        string        `form:"text" required:"false" maxLength:"500" doc:"Words for the object in place of a mask, if the service has a segmenter: the best fit is taken"`
	Threshold   float64       `form:"threshold" required:"false" minimum:"0" exclusiveMaximum:"1" doc:"With text: the score that the object must exceed; 0.5 if left out"`
	Clicks      string        `form:"clicks" required:"false" maxLength:"20000" doc:"Clicks on the object in place of a mask, as JSON like that of /v1/encodings/{id}/clicks without mask"`
	PointMap    huma.FormFile `form:"pointmap" required:"false" doc:"Point map as .npy or .npz [height, width, 3], +X left, +Y up, +Z forward, NaN invalid. Without one the model's depth estimate is used."`
	Seed        uint64        `form:"seed" required:"false" maximum:"9007199254740991" doc:"Of the noise; 42 if left out"`
	Steps       int           `form:"steps" required:"false" minimum:"0" maximum:"1000" doc:"Of the structure; 0 is the model's own number"`
	LatentSteps int           `form:"latent_steps" required:"false" minimum:"0" maximum:"1000" doc:"Of the latents; 0 is the model's own number"`
	Distilled   bool          `form:"distilled" required:"false" doc:"Sample the structure without guidance, for few steps"`
	NoDepth     bool          `form:"no_depth" required:"false" doc:"Work from the picture alone: the pose then has no scale"`
	Outputs     string        `form:"outputs" required:"false" doc:"Of gaussians, gaussians4 and mesh, with commas; gaussians,mesh if left out"`
}

type submitInput struct {
	Key     string `header:"Idempotency-Key" maxLength:"200" doc:"Sent again with the same request it gives the same job"`
	RawBody huma.MultipartFormFiles[submitForm]
}

func (s *Server) submission(api huma.API) {
	huma.Register(api, huma.Operation{OperationID: "submit-job", Method: http.MethodPost, Path: "/v1/jobs",
		Summary: "Send a photograph and the mask of an object, or words or clicks for it", DefaultStatus: http.StatusAccepted,
		Description: "The answer names the job, which then waits for its turn. An answer of 429 says in Retry-After when to try again. " +
			"If nothing fits the words or clicks it is 422, of type " + problemNothing + "; without a segmenter 501, of type " + problemNoSegmenter + ".",
		Errors: []int{400, 401, 408, 413, 415, 422, 429, 501, 503}}, s.submit)
}

func (s *Server) submit(ctx context.Context, in *submitInput) (*jobOutput, error) {
	form := in.RawBody.Data()
	if err := complete(in.RawBody.Form, form); err != nil {
		return nil, err
	}
	job := store.Job{Client: clientOf(ctx), RequestID: requestOf(ctx), Key: in.Key, HasMask: form.Mask.IsSet,
		HasPoints: form.PointMap.IsSet, Options: store.Options{Seed: form.Seed, Steps: form.Steps,
			LatentSteps: form.LatentSteps, Distilled: form.Distilled, NoDepth: form.NoDepth}}
	var err error
	if job.Options.Outputs, err = outputs(form.Outputs); err != nil {
		return nil, err
	}
	if err := s.prompt(&job, in.RawBody.Form, form); err != nil {
		return nil, err
	}
	staged, err := s.Store.Stage()
	if err != nil {
		return nil, s.internal(ctx, err)
	}
	defer os.RemoveAll(staged) // nothing is there any more once the queue has taken it
	size, err := receive(form, &job, staged)
	if err != nil {
		return nil, s.internal(ctx, err)
	}
	if err := s.mark(ctx, &job, staged); err != nil {
		return nil, s.notFound(ctx, err)
	}
	if err := s.check(ctx, job, staged); err != nil {
		return nil, s.unfit(ctx, err)
	}
	added, existed, err := s.Queue.Submit(job, staged)
	if err != nil {
		return nil, s.refusal(ctx, err)
	}
	if !existed {
		s.Metrics.Uploaded.Add(float64(size))
		s.Log.Info("job accepted", "job", added.ID, "request", added.RequestID, "client", added.Client, "bytes", size)
	}
	return &jobOutput{Location: "/v1/jobs/" + added.ID, Status: http.StatusAccepted, Body: s.view(added)}, nil
}

// The settings of fields that are left out.
const (
	defaultSeed    = 42
	defaultOutputs = "gaussians,mesh"
)

// onlyFieldsOf refuses fields that a form does not have: they are mistakes in writing.
func onlyFieldsOf[Form any](sent *multipart.Form) error {
	known := make(map[string]bool)
	for field := range reflect.TypeFor[Form]().Fields() {
		known[field.Tag.Get("form")] = true
	}
	for _, names := range []iter.Seq[string]{maps.Keys(sent.Value), maps.Keys(sent.File)} {
		for name := range names {
			if !known[name] {
				return huma.Error422UnprocessableEntity("validation failed", &huma.ErrorDetail{Location: "form",
					Message: "there is no such field", Value: name})
			}
		}
	}
	return nil
}

// complete fills in what was left out, and refuses fields that there are not.
func complete(sent *multipart.Form, form *submitForm) error {
	if err := onlyFieldsOf[submitForm](sent); err != nil {
		return err
	}
	if len(sent.Value["seed"]) == 0 {
		form.Seed = defaultSeed
	}
	if len(sent.Value["outputs"]) == 0 {
		form.Outputs = defaultOutputs
	}
	return nil
}

// outputs reads a list of outputs and brings it into one order.
func outputs(list string) ([]string, error) {
	wanted := make(map[string]bool)
	for word := range strings.SplitSeq(list, ",") {
		wanted[strings.TrimSpace(word)] = true
	}
	var out []string
	for _, name := range []string{"gaussians", "gaussians4", "mesh"} {
		if wanted[name] {
			out = append(out, name)
			delete(wanted, name)
		}
	}
	for name := range wanted {
		return nil, huma.Error422UnprocessableEntity("validation failed", &huma.ErrorDetail{Location: "body.outputs",
			Message: "there are gaussians, gaussians4 and mesh", Value: name})
	}
	return out, nil
}

// receive copies the files of a form into a folder and sets the job's digest.
func receive(form *submitForm, job *store.Job, folder string) (size int64, err error) {
	digest := sha256.New()
	options, err := json.Marshal(job.Options)
	if err != nil {
		return 0, err
	}
	digest.Write(options)
	for _, part := range []struct {
		name string
		file huma.FormFile
	}{{store.ImageFile, form.Image}, {store.MaskFile, form.Mask}, {store.PointsFile, form.PointMap}} {
		if !part.file.IsSet {
			continue
		}
		n, err := copyFile(filepath.Join(folder, part.name), part.file, digest)
		if err != nil {
			return size, err
		}
		fmt.Fprintf(digest, "%s %d", part.name, n) // so that no two sets of files run into the same bytes
		size += n
	}
	job.Digest = hex.EncodeToString(digest.Sum(nil))
	return size, nil
}

func copyFile(path string, from huma.FormFile, digest hash.Hash) (int64, error) {
	defer from.Close()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(io.MultiWriter(file, digest), from)
	return n, errors.Join(err, file.Close())
}

// check looks at the files of a submission. Pictures take much memory, so few are looked at at a time.
func (s *Server) check(ctx context.Context, job store.Job, folder string) error {
	select {
	case s.checks <- struct{}{}:
		defer func() { <-s.checks }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.Check(job, folder)
}

// unfit turns what is wrong with the files of a submission into an answer.
func (s *Server) unfit(ctx context.Context, err error) error {
	var internal *os.PathError
	switch {
	case errors.Is(err, sam3d.ErrTooLarge):
		return huma.NewError(http.StatusRequestEntityTooLarge, plain(err))
	case errors.As(err, &internal) || errors.Is(err, context.Canceled):
		return s.internal(ctx, err)
	}
	return huma.Error422UnprocessableEntity(plain(err))
}

// refusal turns an error of the queue into an answer.
func (s *Server) refusal(ctx context.Context, err error) error {
	var full *worker.FullError
	switch {
	case errors.As(err, &full):
		return huma.ErrorWithHeaders(huma.Error429TooManyRequests(full.Error()), http.Header{"Retry-After": {retryAfter(full)}})
	case errors.Is(err, store.ErrKeyReused):
		return huma.Error422UnprocessableEntity("the idempotency key was used for another request")
	}
	return s.internal(ctx, err)
}

// plain is the text of an error about the client's files, without the names of packages.
func plain(err error) string {
	text := err.Error()
	for _, prefix := range []string{"sam3d: ", "input: ", "imageio: ", "segment: invalid input: "} {
		text = strings.ReplaceAll(text, prefix, "")
	}
	return text
}
