// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"encoding/json"
	"image"
	"image/png"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/examples/internal/segmenter/tiny"
	"github.com/gomlx3d/image3d/examples/service/internal/finder"
	"github.com/gomlx3d/image3d/examples/service/internal/worker"
)

// startFinder is a service with a small segmenter.
func startFinder(t *testing.T, kind tiny.Kind) *fixture {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, tiny.Write(folder, kind))
	find := finder.New(2, time.Hour)
	require.NoError(t, find.Open(t.Context(), folder, "", "go"))
	t.Cleanup(find.Close)
	return start(t, func(s *Server, _ *worker.Limits) { s.Finder, s.MaxPixels = find, 5000 })
}

// picture is a PNG file of 40 x 30 pixels.
func picture(seed int) string {
	img := image.NewGray(image.Rect(0, 0, 40, 30))
	for i := range img.Pix {
		img.Pix[i] = uint8((i + seed) * i >> 5)
	}
	var data bytes.Buffer
	_ = png.Encode(&data, img)
	return data.String()
}

func (f *fixture) encode(photo string, header http.Header) (*http.Response, finder.Encoding) {
	f.t.Helper()
	body, h := form("image", "@"+photo)
	for name, values := range header {
		h[name] = values
	}
	answer, data := f.do(http.MethodPost, "/v1/encodings", body, h)
	var e finder.Encoding
	if answer.StatusCode == http.StatusCreated {
		require.NoError(f.t, json.Unmarshal(data, &e))
	}
	return answer, e
}

func (f *fixture) post(path, body string) (*http.Response, []byte) {
	f.t.Helper()
	return f.do(http.MethodPost, path, strings.NewReader(body), http.Header{"Content-Type": {"application/json"}})
}

// problem is what the tests read of one.
type testProblem struct{ Type, Detail string }

func TestSegmenter(t *testing.T) {
	f := startFinder(t, tiny.Sure)
	_, data := f.do(http.MethodGet, "/v1/about", nil, nil)
	require.Contains(t, string(data), `"segmenter":{"ready":true,"clicks":true,"words":true}`)
	answer, e := f.encode(picture(0), nil)
	require.Equal(t, http.StatusCreated, answer.StatusCode)
	self := answer.Header.Get("Location")
	require.Equal(t, "/v1/encodings/"+e.ID, self)
	require.Equal(t, []int{40, 30}, []int{e.Width, e.Height})
	require.True(t, e.Expires.After(time.Now()))
	_, again := f.encode(picture(0), nil)
	require.Equal(t, e.ID, again.ID)

	answer, data = f.post(self+"/clicks", `{"positive":[{"x":20,"y":15}]}`)
	require.Equal(t, http.StatusOK, answer.StatusCode, string(data))
	require.Equal(t, "image/png", answer.Header.Get("Content-Type"))
	require.NotEmpty(t, answer.Header.Get("Score"))
	mask, err := png.Decode(bytes.NewReader(data))
	require.NoError(t, err)
	require.Equal(t, image.Rect(0, 0, 40, 30), mask.Bounds())
	answer, data = f.post(self+"/clicks", `{"positive":[{"x":20,"y":15}],"negative":[{"x":0,"y":0}],"box":{"x0":0,"y0":0,"x1":30,"y1":30},"mask":"`+answer.Header.Get("Mask-Id")+`"}`)
	require.Equal(t, http.StatusOK, answer.StatusCode, string(data))

	answer, data = f.post(self+"/words", `{"text":"a cat"}`)
	require.Equal(t, http.StatusOK, answer.StatusCode, string(data))
	var words struct {
		Found     int
		Instances []Instance
	}
	require.NoError(t, json.Unmarshal(data, &words))
	require.Equal(t, tiny.Queries, words.Found)
	require.Len(t, words.Instances, tiny.Queries)
	for _, instance := range words.Instances {
		mask, err := png.Decode(bytes.NewReader(instance.Mask))
		require.NoError(t, err)
		require.Equal(t, image.Rect(0, 0, 40, 30), mask.Bounds())
		require.Greater(t, instance.Score, float32(0.5))
	}
	_, data = f.do(http.MethodGet, "/metrics", nil, nil)
	require.Contains(t, string(data), `route="POST /v1/encodings/{id}/clicks"`)

	answer, _ = f.do(http.MethodDelete, self, nil, http.Header{"Authorization": {"Bearer " + keyB}})
	require.Equal(t, http.StatusNotFound, answer.StatusCode, "another client's")
	answer, _ = f.do(http.MethodDelete, self, nil, nil)
	require.Equal(t, http.StatusNoContent, answer.StatusCode)
	answer, _ = f.post(self+"/clicks", `{"positive":[{"x":20,"y":15}]}`)
	require.Equal(t, http.StatusNotFound, answer.StatusCode)
}

func TestBadPrompts(t *testing.T) {
	f := startFinder(t, tiny.Sure)
	_, e := f.encode(picture(0), nil)
	many := strings.Repeat(`{"x":1,"y":1},`, 129)
	for name, c := range map[string]struct {
		path, body string
		status     int
		text       string
	}{
		"outside":          {"/clicks", `{"positive":[{"x":20,"y":31}]}`, 422, "outside the picture of 40 x 30"},
		"negative place":   {"/clicks", `{"positive":[{"x":-1,"y":3}]}`, 422, "outside the picture"},
		"no click":         {"/clicks", `{}`, 422, "without points"},
		"empty lists":      {"/clicks", `{"positive":[]}`, 422, "without points"},
		"half a point":     {"/clicks", `{"positive":[{"x":1}]}`, 422, "y"},
		"too many":         {"/clicks", `{"positive":[` + many[:len(many)-1] + `]}`, 422, "128"},
		"unknown field":    {"/clicks", `{"points":[]}`, 422, "points"},
		"box inside out":   {"/clicks", `{"box":{"x0":9,"y0":0,"x1":3,"y1":9}}`, 422, "box"},
		"unknown mask":     {"/clicks", `{"positive":[{"x":2,"y":3}],"mask":"77"}`, 422, "no such mask"},
		"no text":          {"/words", `{}`, 422, "text"},
		"empty text":       {"/words", `{"text":""}`, 422, "text"},
		"blank text":       {"/words", `{"text":"  "}`, 422, "no words"},
		"long text":        {"/words", `{"text":"` + strings.Repeat("x", 501) + `"}`, 422, "500"},
		"threshold":        {"/words", `{"text":"cat","threshold":1}`, 422, "threshold"},
		"no JSON":          {"/words", `cat`, 400, ""},
		"another encoding": {"X/words", `{"text":"cat"}`, 404, problemNoEncoding},
		"another's clicks": {"X/clicks", `{"positive":[{"x":2,"y":3}]}`, 404, problemNoEncoding},
		"nothing there":    {"/other", `{}`, 404, ""},
	} {
		t.Run(name, func(t *testing.T) {
			answer, data := f.post("/v1/encodings/"+e.ID+c.path, c.body)
			require.Equal(t, c.status, answer.StatusCode, string(data))
			require.Contains(t, string(data), c.text)
		})
	}
	for text, photo := range map[string]string{"not a picture": "text", "bytes": strings.Repeat("x", 1<<16)} {
		answer, _ := f.encode(photo, nil)
		require.Contains(t, []int{http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge}, answer.StatusCode, text)
	}
	f.server.MaxPixels = 100
	answer, _ := f.encode(picture(1), nil)
	require.Equal(t, http.StatusRequestEntityTooLarge, answer.StatusCode)
	body, header := form("image", "@"+picture(0), "mask", "@1")
	answer, _ = f.do(http.MethodPost, "/v1/encodings", body, header)
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	answer, _ = f.encode(picture(0), http.Header{"Authorization": {"Bearer wrong"}})
	require.Equal(t, http.StatusUnauthorized, answer.StatusCode)
}

func TestNothingFound(t *testing.T) {
	f := startFinder(t, tiny.Blind)
	_, e := f.encode(picture(0), nil)
	answer, data := f.post("/v1/encodings/"+e.ID+"/words", `{"text":"cat"}`)
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	var p testProblem
	require.NoError(t, json.Unmarshal(data, &p))
	require.Equal(t, problemNothing, p.Type)
	body, header := form("image", "@"+picture(0), "text", "cat")
	answer, data = f.do(http.MethodPost, "/v1/jobs", body, header)
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	require.Contains(t, string(data), problemNothing)
}

// A job may have words or clicks in place of a mask.
func TestJobsFromPrompts(t *testing.T) {
	f := startFinder(t, tiny.Sure)
	key := http.Header{"Idempotency-Key": {"k"}}
	answer, job := f.submit(key, "image", "@"+picture(0), "text", "cat", "threshold", "0.4")
	require.Equal(t, http.StatusAccepted, answer.StatusCode)
	require.Equal(t, "cat", job.Options.Words.Text)
	stored, err := f.server.Store.Get(job.ID)
	require.NoError(t, err)
	require.True(t, stored.HasMask)
	_, again := f.submit(key, "image", "@"+picture(0), "text", "cat", "threshold", "0.4")
	require.Equal(t, job.ID, again.ID)
	answer, _ = f.submit(key, "image", "@"+picture(0), "text", "dog", "threshold", "0.4")
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode, "the key was of another request")
	answer, job = f.submit(nil, "image", "@"+picture(0), "clicks", `{"positive":[{"x":20,"y":15}]}`)
	require.Equal(t, http.StatusAccepted, answer.StatusCode)
	require.Len(t, job.Options.Clicks.Positive, 1)
	for text, fields := range map[string][]string{
		"one of mask, text and clicks": {"text", "cat", "mask", "@1"},
		"mask, text":                   {"text", "cat", "clicks", "{}"},
		"no words":                     {"text", " "},
		"goes with text":               {"threshold", "0.5"},
		"threshold":                    {"text", "cat", "threshold", "2"},
		"JSON of clicks":               {"clicks", `{"mask":"1"}`},
		"is not the JSON":              {"clicks", `[]`},
		"without points":               {"clicks", `{}`},
		"outside the picture":          {"clicks", `{"positive":[{"x":50,"y":15}]}`},
	} {
		body, header := form(append(fields, "image", "@"+picture(0))...)
		answer, data := f.do(http.MethodPost, "/v1/jobs", body, header)
		require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode, text)
		require.Contains(t, string(data), text)
	}
}

// Without a segmenter its part of the interface says so.
func TestWithoutSegmenter(t *testing.T) {
	f := start(t, nil)
	_, data := f.do(http.MethodGet, "/v1/about", nil, nil)
	require.NotContains(t, string(data), "segmenter")
	body, header := form("image", "@"+picture(0))
	for _, c := range []func() (*http.Response, []byte){
		func() (*http.Response, []byte) { return f.do(http.MethodPost, "/v1/encodings", body, header) },
		func() (*http.Response, []byte) { return f.post("/v1/encodings/x/clicks", `{}`) },
		func() (*http.Response, []byte) { return f.post("/v1/encodings/x/words", `{"text":"cat"}`) },
		func() (*http.Response, []byte) { return f.do(http.MethodDelete, "/v1/encodings/x", nil, nil) },
		func() (*http.Response, []byte) {
			body, header := form("image", "@"+picture(0), "text", "cat")
			return f.do(http.MethodPost, "/v1/jobs", body, header)
		},
	} {
		answer, data := c()
		require.Equal(t, http.StatusNotImplemented, answer.StatusCode)
		var p testProblem
		require.NoError(t, json.Unmarshal(data, &p))
		require.Equal(t, problemNoSegmenter, p.Type)
	}
	f.server.Finder = finder.New(1, time.Hour)
	answer, _ := f.encode(picture(0), nil)
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
}
