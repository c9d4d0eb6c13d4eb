// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/examples/service/internal/store"
	"github.com/gomlx3d/image3d/examples/service/internal/worker"
	"github.com/gomlx3d/image3d/sam3d"
)

func TestIdempotency(t *testing.T) {
	f := start(t, nil)
	key := http.Header{"Idempotency-Key": {"k"}}
	_, first := f.submit(key, "image", "@1")
	_, second := f.submit(key, "image", "@1")
	require.Equal(t, first.ID, second.ID)
	for _, other := range [][]string{{"image", "@2"}, {"image", "@1", "seed", "1"}, {"image", "@1", "mask", "@1"}} {
		answer, _ := f.submit(key, other...)
		require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	}
}

func TestRefusals(t *testing.T) {
	checked := error(nil)
	f := start(t, func(s *Server, _ *worker.Limits) { s.Check = func(store.Job, string) error { return checked } })
	for name, c := range map[string]struct {
		fields []string
		err    error
		status int
		text   string
	}{
		"no image":         {[]string{"seed", "1"}, nil, 422, "image"},
		"image as text":    {[]string{"image", "picture"}, nil, 422, "image"},
		"two images":       {[]string{"image", "@1", "image", "@2"}, nil, 422, "only one"},
		"unknown field":    {[]string{"image", "@1", "step", "3"}, nil, 422, "step"},
		"steps no number":  {[]string{"image", "@1", "steps", "x"}, nil, 422, "steps"},
		"too many steps":   {[]string{"image", "@1", "steps", "1001"}, nil, 422, "1000"},
		"negative steps":   {[]string{"image", "@1", "latent_steps", "-1"}, nil, 422, "latent_steps"},
		"seed too large":   {[]string{"image", "@1", "seed", "18446744073709551615"}, nil, 422, "seed"},
		"negative seed":    {[]string{"image", "@1", "seed", "-1"}, nil, 422, "seed"},
		"unknown output":   {[]string{"image", "@1", "outputs", "mesh,video"}, nil, 422, "video"},
		"no output":        {[]string{"image", "@1", "outputs", ""}, nil, 422, "outputs"},
		"too large":        {[]string{"image", "@" + strings.Repeat("x", 1<<16)}, nil, 413, "bytes"},
		"too many pixels":  {[]string{"image", "@1"}, fmt.Errorf("image: %w", sam3d.ErrTooLarge), 413, "image"},
		"empty mask":       {[]string{"image", "@1"}, fmt.Errorf("x: %w", sam3d.ErrEmptyMask), 422, "mask is empty"},
		"disk":             {[]string{"image", "@1"}, &os.PathError{Op: "open", Path: "/secret", Err: os.ErrPermission}, 500, "log"},
		"unexpected field": {[]string{"image", "@1", "other", "@1"}, nil, 422, "other"},
	} {
		t.Run(name, func(t *testing.T) {
			checked = c.err
			body, header := form(c.fields...)
			answer, data := f.do(http.MethodPost, "/v1/jobs", body, header)
			require.Equal(t, c.status, answer.StatusCode, string(data))
			require.Contains(t, string(data), c.text)
			require.NotContains(t, string(data), "secret")
			require.Equal(t, "application/problem+json", answer.Header.Get("Content-Type"))
		})
	}
	for _, c := range []struct {
		kind, body string
		status     int
	}{{"application/json", "{}", 415}, {"multipart/form-data; boundary=b", "--b\r\nbroken", 400}, {"multipart/form-data", "", 400}} {
		answer, data := f.do(http.MethodPost, "/v1/jobs", strings.NewReader(c.body), http.Header{"Content-Type": {c.kind}})
		require.Equal(t, c.status, answer.StatusCode, string(data))
	}
	body, header := form("image", "@"+strings.Repeat("x", 1<<16)) // without a length
	answer, _ := f.do(http.MethodPost, "/v1/jobs", io.MultiReader(body), header)
	require.Equal(t, http.StatusRequestEntityTooLarge, answer.StatusCode)
	staged, err := os.ReadDir(filepath.Join(filepath.Dir(f.server.Store.Folder("x")), "..", "staging"))
	require.NoError(t, err)
	require.Empty(t, staged, "nothing is left of a refused submission")
}

// What fails in the service is no fault of the client, who learns no path; and folders that somebody removed come again.
func TestFoldersRemoved(t *testing.T) {
	remove := true
	f := start(t, func(s *Server, _ *worker.Limits) {
		s.Check = func(_ store.Job, staged string) error {
			if remove {
				return os.RemoveAll(filepath.Dir(staged))
			}
			return nil
		}
	})
	body, header := form("image", "@1")
	answer, data := f.do(http.MethodPost, "/v1/jobs", body, header)
	require.Equal(t, http.StatusInternalServerError, answer.StatusCode)
	require.NotContains(t, string(data), "staging")
	remove = false
	require.NoError(t, os.RemoveAll(filepath.Dir(f.server.Store.Folder("x"))))
	answer, _ = f.submit(nil, "image", "@1")
	require.Equal(t, http.StatusAccepted, answer.StatusCode)
}

func TestFullQueue(t *testing.T) {
	f := start(t, func(_ *Server, l *worker.Limits) { l.Client = 2 })
	_, running := f.submit(nil, "image", "@0")
	for last, _ := f.server.Hub.Last(running.ID); last.State == "queued"; last, _ = f.server.Hub.Last(running.ID) {
		_, err := f.server.Hub.Next(t.Context(), running.ID, last.ID)
		require.NoError(t, err)
	}
	key := http.Header{"Idempotency-Key": {"k"}}
	f.submit(nil, "image", "@1")
	_, second := f.submit(key, "image", "@2")
	answer, _ := f.submit(nil, "image", "@3")
	require.Equal(t, http.StatusTooManyRequests, answer.StatusCode)
	require.NotEmpty(t, answer.Header.Get("Retry-After"))
	answer, _ = f.submit(http.Header{"Idempotency-Key": {"new"}}, "image", "@3")
	require.Equal(t, http.StatusTooManyRequests, answer.StatusCode)
	require.NotEmpty(t, answer.Header.Get("Retry-After"))
	_, again := f.submit(key, "image", "@2")
	require.Equal(t, second.ID, again.ID, "a repeated submission needs no room")
	answer, _ = f.submit(http.Header{"Authorization": {"Bearer " + keyB}}, "image", "@3")
	require.Equal(t, http.StatusAccepted, answer.StatusCode, "another client has room of its own")
	_, data := f.do(http.MethodGet, "/metrics", nil, nil)
	require.Contains(t, string(data), `image3d_refused_total{status="429"} 2`)
}
