// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"errors"
	"mime/multipart"
	"os"
	"path/filepath"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gomlx3d/image3d/examples/service/internal/store"
)

// prompt reads what a submission says of the object in place of a mask.
func (s *Server) prompt(job *store.Job, sent *multipart.Form, form *submitForm) error {
	words, clicks := len(sent.Value["text"]) > 0, len(sent.Value["clicks"]) > 0
	refuse := func(field, message string) error {
		return huma.Error422UnprocessableEntity("validation failed", &huma.ErrorDetail{Location: "body." + field, Message: message})
	}
	switch {
	case !words && !clicks:
		if len(sent.Value["threshold"]) > 0 {
			return refuse("threshold", "it goes with text")
		}
		return nil
	case words && clicks || form.Mask.IsSet:
		return refuse("mask", "there is one of mask, text and clicks")
	case s.Finder == nil:
		return noSegmenter()
	case words && strings.TrimSpace(form.Text) == "":
		return refuse("text", "there are no words")
	case words:
		job.Options.Words = &store.Words{Text: form.Text, Threshold: form.Threshold}
		return nil
	}
	decoder := json.NewDecoder(strings.NewReader(form.Clicks))
	decoder.DisallowUnknownFields()
	job.Options.Clicks = new(store.Clicks)
	if err := decoder.Decode(job.Options.Clicks); err != nil || decoder.More() {
		return refuse("clicks", "this is not the JSON of clicks")
	}
	return nil
}

// mark writes the mask of a submission that has words or clicks in its place.
func (s *Server) mark(ctx context.Context, job *store.Job, folder string) error {
	if job.Options.Words == nil && job.Options.Clicks == nil {
		return nil
	}
	if _, err := s.Store.Find(job.Client, job.Key, job.Digest); !errors.Is(err, store.ErrNotFound) {
		return nil // it is here already, and the files of this one are not needed
	}
	file, err := os.Open(filepath.Join(folder, store.ImageFile))
	if err != nil {
		return err
	}
	defer file.Close()
	digest, read, err := s.photograph(file)
	if err != nil {
		return err
	}
	mask, err := s.Finder.Mask(ctx, job.Client, digest, read, job.Options)
	if err != nil {
		return err
	}
	data, err := encodeMask(mask)
	if err != nil {
		return err
	}
	job.HasMask = true
	return os.WriteFile(filepath.Join(folder, store.MaskFile), data, 0o600)
}
