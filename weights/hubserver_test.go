// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/weights"
)

const (
	repository = "owner/model"
	commit     = "0123456789abcdef0123456789abcdef01234567"
)

// hubServer is a model hub on the loopback interface, with one repository.
type hubServer struct {
	*httptest.Server
	files map[string]string // content by name
	token string            // demanded for files, if not empty
	plain bool              // the list of files has names only, as of an old hub

	mu     sync.Mutex
	served map[string]int // requests by path
	infoOf infoAnswer     // replaces the answer about the repository
	fileOf fileAnswer     // replaces the answer with a file
}

type (
	infoAnswer func(w http.ResponseWriter)
	fileAnswer func(w http.ResponseWriter, r *http.Request, name string)
)

// set replaces answers; nil restores the usual one.
func (s *hubServer) set(info infoAnswer, file fileAnswer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.infoOf, s.fileOf = info, file
}

func newHub(t *testing.T, files map[string]string) *hubServer {
	// Nothing of the user's settings may reach the test, and no test the network.
	t.Setenv("HF_TOKEN", "")
	t.Setenv("HF_ENDPOINT", "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	s := &hubServer{files: files, served: make(map[string]int)}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *hubServer) options(t *testing.T) weights.HubOptions {
	return weights.HubOptions{Endpoint: s.URL + "/", CacheDir: t.TempDir()}
}

func (s *hubServer) count(prefix string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for path, times := range s.served {
		if strings.HasPrefix(path, prefix) {
			n += times
		}
	}
	return n
}

// ServeHTTP implements http.Handler.
func (s *hubServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.served[r.URL.Path]++
	infoOf, fileOf := s.infoOf, s.fileOf
	s.mu.Unlock()
	switch name, isFile := strings.CutPrefix(r.URL.Path, "/"+repository+"/resolve/"+commit+"/"); {
	case isFile && s.token != "" && r.Header.Get("Authorization") == "":
		http.Error(w, "Access to model is restricted", http.StatusUnauthorized)
	case isFile && s.token != "" && r.Header.Get("Authorization") != "Bearer "+s.token:
		http.Error(w, "You are not in the authorized list", http.StatusForbidden)
	case isFile && fileOf != nil:
		fileOf(w, r, name)
	case isFile:
		s.serveFile(w, name)
	case r.URL.Path == "/api/models/"+repository+"/revision/main" && infoOf != nil:
		infoOf(w)
	case r.URL.Path == "/api/models/"+repository+"/revision/main",
		r.URL.Path == "/api/models/"+repository+"/revision/"+commit:
		s.serveInfo(w)
	default:
		http.Error(w, `{"error":"Repository not found"}`, http.StatusNotFound)
	}
}

func (s *hubServer) serveFile(w http.ResponseWriter, name string) {
	content, ok := s.files[name]
	if !ok {
		http.NotFound(w, nil)
		return
	}
	w.Header().Set("ETag", `"`+digest(content)+`"`)
	_, _ = w.Write([]byte(content))
}

func (s *hubServer) serveInfo(w http.ResponseWriter) {
	siblings := []any{}
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		file := map[string]any{"rfilename": name}
		if content := s.files[name]; !s.plain && strings.HasSuffix(name, ".yaml") {
			file["blobId"], file["size"] = digest(content)[:40], len(content)
		} else if !s.plain {
			file["blobId"], file["size"] = digest(name)[:40], len(content)
			file["lfs"] = map[string]any{"sha256": digest(content), "size": len(content)}
		}
		siblings = append(siblings, file)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"id": repository, "sha": commit, "siblings": append(siblings, nil)})
}

func digest(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// cacheFiles lists what is in the cache, but for what the hub said about revisions.
func cacheFiles(t *testing.T, dir string) []string {
	var found []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && filepath.Base(filepath.Dir(path)) != "info" {
			found = append(found, path)
		}
		return err
	}))
	return found
}
