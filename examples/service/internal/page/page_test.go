// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package page

import (
	"compress/gzip"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func get(method, path string, header http.Header) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, path, nil)
	request.Header = header
	answer := httptest.NewRecorder()
	Handler().ServeHTTP(answer, request)
	return answer
}

func TestFiles(t *testing.T) {
	for name, kind := range map[string]string{"/": "text/html", "/app.js": "javascript", "/find.js": "javascript", "/style.css": "text/css", "/icon.svg": "image/svg"} {
		answer := get(http.MethodGet, name, http.Header{})
		require.Equal(t, http.StatusOK, answer.Code, name)
		require.Contains(t, answer.Header().Get("Content-Type"), kind)
		require.Contains(t, answer.Header().Get("Content-Security-Policy"), "default-src 'self'")
	}
	answer := get(http.MethodGet, "/viewer.js", http.Header{"Accept-Encoding": {"br, gzip"}})
	require.Equal(t, "gzip", answer.Header().Get("Content-Encoding"))
	program, err := gzip.NewReader(answer.Body)
	require.NoError(t, err)
	text, err := io.ReadAll(program)
	require.NoError(t, err)
	require.Contains(t, string(text), "Viewer")
	require.Equal(t, http.StatusNotAcceptable, get(http.MethodGet, "/viewer.js", http.Header{}).Code)
	require.Equal(t, http.StatusNotFound, get(http.MethodGet, "/none", http.Header{}).Code)
	require.Equal(t, http.StatusNotFound, get(http.MethodGet, "/../page.go", http.Header{}).Code)
	require.Equal(t, http.StatusMethodNotAllowed, get(http.MethodPost, "/", http.Header{}).Code)
}

// The page must ask no other host for anything.
func TestNoOtherHosts(t *testing.T) {
	address := regexp.MustCompile(`https?://[^\s"'<>)]+`)
	require.NoError(t, fs.WalkDir(static, "static", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) == ".gz" || name == "static/licences.txt" {
			return err
		}
		data, err := static.ReadFile(name)
		for _, found := range address.FindAllString(string(data), -1) {
			require.Equal(t, "http://www.w3.org/2000/svg", found, name)
		}
		return err
	}))
}
