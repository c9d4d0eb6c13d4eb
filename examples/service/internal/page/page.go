// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package page is the service's page, embedded. It asks no other host for anything.
package page

import (
	"embed"
	"io/fs"
	"net/http"
	"strings"
)

//go:embed static
var static embed.FS

// policy lets the page load and reach this service alone. The viewer's workers are blobs and its WebAssembly is data.
const policy = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self' blob:; img-src 'self' blob: data:; " +
	"connect-src 'self' blob: data:; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"

// Handler serves the page at / and its files beside it. Files that are stored compressed are sent as they are to clients
// that can read them, which every browser can.
func Handler() http.Handler {
	files, err := fs.Sub(static, "static")
	if err != nil {
		panic(err) // the folder is embedded above
	}
	server := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Cache-Control", "no-cache")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		name := strings.TrimPrefix(r.URL.Path, "/")
		if _, err := fs.Stat(files, name+".gz"); err == nil && strings.HasSuffix(name, ".js") {
			if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
				http.Error(w, "this file is sent compressed with gzip only", http.StatusNotAcceptable)
				return
			}
			h.Set("Content-Type", "text/javascript; charset=utf-8")
			h.Set("Content-Encoding", "gzip")
			http.ServeFileFS(w, r, files, name+".gz")
			return
		}
		server.ServeHTTP(w, r)
	})
}
