// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights_test

import (
	"context"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/weights"
)

// small is a repository with files that are needed and files that are not.
var small = map[string]string{
	"README.md": "#", "checkpoints/pipeline.yaml": "version: x\n", "checkpoints/ss_decoder.ckpt": "weights",
	"checkpoints/ss_decoder.safetensors": "the same", "checkpoints/slat_decoder_mesh.pt": "old",
	"checkpoints/slat_decoder_mesh.ckpt": "new", "checkpoints/ss_encoder.ckpt": "unused",
	"checkpoints/slat_encoder.yaml": "unused", "doc/images/config.json": "{}", "LICENSE": "",
}

// smallNames are those that are needed.
var smallNames = []string{"pipeline.yaml", "slat_decoder_mesh.ckpt", "ss_decoder.ckpt"}

func requireSmall(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "checkpoints"))
	require.NoError(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
		content, err := os.ReadFile(filepath.Join(dir, "checkpoints", entry.Name()))
		require.NoError(t, err)
		require.Equal(t, small["checkpoints/"+entry.Name()], string(content))
	}
	require.Equal(t, smallNames, names)
	top, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, top, 1)
}

func TestResolveLocal(t *testing.T) {
	dir := t.TempDir()
	got, err := weights.Resolve(t.Context(), dir, weights.HubOptions{})
	require.NoError(t, err)
	require.Equal(t, dir, got)

	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	_, err = weights.Resolve(t.Context(), file, weights.HubOptions{})
	require.ErrorContains(t, err, "is a file")

	for _, source := range []string{"", "model", filepath.Join(dir, "absent"), "./a/b", "a/b/c", "a/..", "../b", "a/b@",
		"a/b@../c", "a/b@c..d", "~/model", "a b/c", "a/b?c", "http://a/b", ".a/b", "a/b@-x"} {
		_, err := weights.Resolve(t.Context(), source, weights.HubOptions{Endpoint: "http://127.0.0.1:1"})
		require.ErrorIs(t, err, weights.ErrMissing, source)
	}
}

// TestResolveDownloads fetches the tiny official folder, as the official repository lays it out, and opens it.
func TestResolveDownloads(t *testing.T) {
	root := filepath.Join(fixture.Dir(), "checkpoint_official_tiny")
	files := map[string]string{"README.md": "unused", ".gitattributes": "unused"}
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		files["checkpoints/"+filepath.ToSlash(name)] = string(content)
		return err
	}))
	server := newHub(t, files)
	options := server.options(t)
	arrived := make(map[string]int64)
	options.Progress = func(file string, done, total int64) {
		require.EqualValues(t, len(files[file]), total)
		require.GreaterOrEqual(t, done, arrived[file])
		arrived[file] = done
	}
	dir, err := weights.Resolve(t.Context(), repository, options)
	require.NoError(t, err)
	require.NotContains(t, arrived, "README.md")
	require.NotContains(t, arrived, "checkpoints/legacy/slat_decoder_mesh.ckpt")
	for file, done := range arrived {
		require.EqualValues(t, len(files[file]), done, file)
	}
	got, want := openCheckpoint(t, dir), openCheckpoint(t, root)
	for _, name := range componentNames {
		equalSets(t, component(t, want, name), component(t, got, name))
	}
	require.Equal(t, want.YAML, got.YAML)

	// Again: everything is there.
	before := server.count("/" + repository + "/resolve/")
	again, err := weights.Resolve(t.Context(), repository+"@main", options)
	require.NoError(t, err)
	require.Equal(t, dir, again)
	require.Equal(t, before, server.count("/"+repository+"/resolve/"))
}

func TestResolvePicksFiles(t *testing.T) {
	for _, plain := range []bool{false, true} {
		server := newHub(t, small)
		server.plain = plain
		dir, err := weights.Resolve(t.Context(), repository, server.options(t))
		require.NoError(t, err)
		requireSmall(t, dir)
	}
	server := newHub(t, small)
	options := server.options(t)
	options.Want = func(name string) bool { return name == "README.md" }
	dir, err := weights.Resolve(t.Context(), repository, options)
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(dir, "README.md"))
	require.NoDirExists(t, filepath.Join(dir, "checkpoints"))

	options.Want = func(string) bool { return false }
	_, err = weights.Resolve(t.Context(), repository, options)
	require.ErrorIs(t, err, weights.ErrNotFound)
}

func TestResolveEndpointFromEnvironment(t *testing.T) {
	server := newHub(t, small)
	server.token = "secret"
	t.Setenv("HF_ENDPOINT", server.URL+"/")
	t.Setenv("HF_TOKEN", "secret")
	dir, err := weights.Resolve(t.Context(), repository, weights.HubOptions{})
	require.NoError(t, err)
	requireSmall(t, dir)
	require.True(t, strings.HasPrefix(dir, os.Getenv("XDG_CACHE_HOME")), "the default cache")
}

func TestResolveGated(t *testing.T) {
	server := newHub(t, small)
	server.token = "secret"
	for _, c := range []struct{ token, words string }{
		{"", "none was given"}, {"wrong", "status 403"}, {"secret", ""},
	} {
		options := server.options(t)
		options.Token = c.token
		dir, err := weights.Resolve(t.Context(), repository, options)
		if c.words == "" {
			require.NoError(t, err)
			requireSmall(t, dir)
			continue
		}
		require.ErrorIs(t, err, weights.ErrGated)
		for _, words := range []string{c.words, "licence", "HF_TOKEN"} {
			if words != "HF_TOKEN" || c.token == "" {
				require.ErrorContains(t, err, words)
			}
		}
		require.Empty(t, cacheFiles(t, options.CacheDir))
		if c.token != "" {
			require.NotContains(t, err.Error(), c.token+" ")
		}
	}
	server.set(func(w http.ResponseWriter) { http.Error(w, "Invalid credentials", http.StatusUnauthorized) }, nil)
	options := server.options(t)
	options.Token = "expired-token"
	_, err := weights.Resolve(t.Context(), repository, options)
	require.ErrorIs(t, err, weights.ErrGated)
	require.ErrorContains(t, err, "mistyped, expired or revoked")
	require.NotContains(t, err.Error(), options.Token)
}

func TestResolveNotFound(t *testing.T) {
	server := newHub(t, small)
	for _, source := range []string{"owner/other", repository + "@other"} {
		_, err := weights.Resolve(t.Context(), source, server.options(t))
		require.ErrorIs(t, err, weights.ErrNotFound)
		require.ErrorContains(t, err, source)
	}
	server.set(nil, func(w http.ResponseWriter, r *http.Request, _ string) { http.NotFound(w, r) })
	_, err := weights.Resolve(t.Context(), repository, server.options(t))
	require.ErrorIs(t, err, weights.ErrNotFound)
	require.ErrorContains(t, err, "checkpoints/pipeline.yaml of repository")
}

func TestResolveOffline(t *testing.T) {
	server := newHub(t, small)
	options := server.options(t)
	dir, err := weights.Resolve(t.Context(), repository, options)
	require.NoError(t, err)
	server.Close()

	// Twice: the first failure must not spoil the cache.
	for range 2 {
		again, err := weights.Resolve(t.Context(), repository, options)
		require.NoError(t, err)
		require.Equal(t, dir, again)
	}
	require.NoError(t, os.Remove(filepath.Join(dir, "checkpoints", "ss_decoder.ckpt")))
	_, err = weights.Resolve(t.Context(), repository, options)
	require.ErrorIs(t, err, weights.ErrOffline)
	require.ErrorContains(t, err, filepath.Dir(dir))
	require.ErrorContains(t, err, "local folder")

	options.CacheDir = t.TempDir()
	_, err = weights.Resolve(t.Context(), repository, options)
	require.ErrorIs(t, err, weights.ErrOffline)
	require.Empty(t, cacheFiles(t, options.CacheDir))
}

// TestResolvePinned asks nobody about a commit whose files are all in the cache.
func TestResolvePinned(t *testing.T) {
	server := newHub(t, small)
	options := server.options(t)
	dir, err := weights.Resolve(t.Context(), repository+"@"+commit, options)
	require.NoError(t, err)
	requireSmall(t, dir)
	before := server.count("/")
	_, err = weights.Resolve(t.Context(), repository+"@"+commit, options)
	require.NoError(t, err)
	require.Equal(t, before, server.count("/"))
}

// TestResolveCancelled cancels while the server stalls. The library does not give up its request about the repository,
// which must keep nobody else from the cache.
func TestResolveCancelled(t *testing.T) {
	server := newHub(t, small)
	release, started := make(chan struct{}), make(chan struct{}, 16)
	t.Cleanup(func() { close(release) })
	stall := func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write([]byte("w"))
		w.(http.Flusher).Flush()
		started <- struct{}{}
		<-release
	}
	options := server.options(t)
	cancelled := func() {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-started; cancel() }()
		_, err := weights.Resolve(ctx, repository, options)
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, cacheFiles(t, options.CacheDir))
	}
	server.set(stall, nil)
	cancelled()
	cancelled()
	server.set(nil, func(w http.ResponseWriter, _ *http.Request, _ string) { stall(w) })
	cancelled()
	server.set(nil, nil)
	dir, err := weights.Resolve(t.Context(), repository, options)
	require.NoError(t, err)
	requireSmall(t, dir)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = weights.Resolve(ctx, repository, options)
	require.ErrorIs(t, err, context.Canceled)
}

// TestResolveBrokenDownload leaves nothing of a file that breaks off or is not what the hub said, and resumes with the
// files that are missing.
func TestResolveBrokenDownload(t *testing.T) {
	const victim = "checkpoints/ss_decoder.ckpt"
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, content string)
		words  string
	}{
		"connection breaks": {func(w http.ResponseWriter, content string) {
			w.Header().Set("Content-Length", "7")
			_, _ = w.Write([]byte(content[:3]))
		}, "broke off"},
		"too short":     {func(w http.ResponseWriter, all string) { _, _ = w.Write([]byte(all[:3])) }, "3 bytes, 7 expected"},
		"too long":      {func(w http.ResponseWriter, all string) { _, _ = w.Write([]byte(all + "x")) }, "8 bytes, 7 expected"},
		"other content": {func(w http.ResponseWriter, _ string) { _, _ = w.Write([]byte("weighty")) }, "SHA-256"},
		"server error":  {func(w http.ResponseWriter, _ string) { http.Error(w, "later", 503) }, "503"},
	} {
		t.Run(name, func(t *testing.T) {
			server := newHub(t, small)
			options := server.options(t)
			server.set(nil, func(w http.ResponseWriter, _ *http.Request, file string) {
				if file == victim {
					c.answer(w, small[file])
					return
				}
				server.serveFile(w, file)
			})
			_, err := weights.Resolve(t.Context(), repository, options)
			require.ErrorContains(t, err, c.words)
			require.ErrorContains(t, err, victim)
			require.Len(t, cacheFiles(t, options.CacheDir), 4, "the other two files and their links")

			server.set(nil, nil)
			before := server.count("/" + repository)
			dir, err := weights.Resolve(t.Context(), repository, options)
			require.NoError(t, err)
			requireSmall(t, dir)
			require.Equal(t, before+1, server.count("/"+repository), "only the missing file is fetched")
		})
	}
}

// TestResolveHostileServer takes no path from the server that leaves the cache.
func TestResolveHostileServer(t *testing.T) {
	answer := func(text string) func(w http.ResponseWriter) {
		return func(w http.ResponseWriter) { _, _ = w.Write([]byte(text)) }
	}
	for name, c := range map[string]struct{ info, words string }{
		"not JSON":         {"<html>", "parse info"},
		"no commit":        {"{}", "names no commit"},
		"commit is a path": {`{"sha":"../../x","siblings":[{"rfilename":"pipeline.yaml"}]}`, "names no commit"},
		"name is a path": {`{"sha":"` + commit + `","siblings":[{"rfilename":"../checkpoints/pipeline.yaml"},` +
			`{"rfilename":"/pipeline.yaml"}]}`, "no checkpoint files"},
		"hash is a path": {`{"sha":"` + commit + `","siblings":[{"rfilename":"pipeline.yaml",` +
			`"blobId":"../../x"}]}`, "content hash"},
		"empty": {`{"sha":"` + commit + `","siblings":null}`, "no checkpoint files"},
		"null":  {`null`, "the hub library failed"},
		"list":  {`[]`, "parse info"},
		"sizes are wild": {`{"sha":"` + commit + `","siblings":[{"rfilename":"pipeline.yaml","blobId":"b","size":-1,` +
			`"lfs":{"sha256":"z","size":-2}}]}`, "does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			server := newHub(t, nil)
			server.set(answer(c.info), nil)
			options := server.options(t)
			_, err := weights.Resolve(t.Context(), repository, options)
			require.ErrorContains(t, err, c.words)
			require.Empty(t, cacheFiles(t, options.CacheDir))
			entries, err := filepath.Glob(filepath.Join(options.CacheDir, "*", "info", "*"))
			require.NoError(t, err)
			if strings.Contains(c.words, "parse info") || strings.Contains(c.words, "no commit") || name == "null" {
				require.Empty(t, entries, "a useless answer is not kept")
			}
		})
	}
	t.Run("tag is a path", func(t *testing.T) {
		server := newHub(t, map[string]string{"pipeline.yaml": "a: 1\n"})
		server.plain = true
		server.set(nil, func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.Header().Set("ETag", `"../../../x"`)
		})
		_, err := weights.Resolve(t.Context(), repository, server.options(t))
		require.ErrorContains(t, err, "content hash")
	})
}
