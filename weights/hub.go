// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gomlx/go-huggingface/hub"
)

// HubOptions say how a repository of the model hub is fetched. The zero value fetches the inference files of a public
// repository into the cache that all programs share.
type HubOptions struct {
	Token    string // access token; empty: $HF_TOKEN
	CacheDir string // empty: $XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub
	Endpoint string // URL of the hub; empty: $HF_ENDPOINT, or the public hub

	// Want reports whether a file of the repository is needed. Nil: the configuration and weights of the components,
	// at the top or in "checkpoints", each weight file in one format.
	Want func(name string) bool

	// Progress is told how many bytes of a file have arrived, of how many; total is 0 if that is not known. Files come
	// one after the other. A file that is in the cache is not reported.
	Progress func(file string, done, total int64)
}

// hubSource is a repository: owner/name, or owner/name@revision.
var hubSource = regexp.MustCompile(`^(` + hubWord + `/` + hubWord + `)(?:@(` + hubWord + `(?:/` + hubWord + `)*))?$`)

const hubWord = `[A-Za-z0-9][\w.-]*`

// plainWord matches what may become a file name in the cache: a commit or a content hash of the server's.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)

// commitHash matches a full commit, whose files never change.
var commitHash = regexp.MustCompile(`^[0-9a-f]{40}$`)

// Resolve returns the folder of a source: a local folder, which is returned as it is, or a repository
// owner/name[@revision] of the model hub, whose files are fetched into the cache. What is there already is not fetched
// again; if the hub cannot be reached, a complete copy in the cache is used.
//
// Errors match ErrMissing (no such local folder), ErrGated (the repository wants a token, or another one), ErrNotFound,
// ErrOffline or ctx.Err(), and say what to do.
func Resolve(ctx context.Context, source string, options HubOptions) (dir string, err error) {
	if info, err := os.Stat(source); err == nil {
		if !info.IsDir() {
			return "", fmt.Errorf("weights: %s is a file, not a checkpoint folder", source)
		}
		return source, nil
	}
	match := hubSource.FindStringSubmatch(source)
	if match == nil || strings.Contains(source, "..") {
		return "", fmt.Errorf("weights: %q is neither a folder nor a repository owner/name[@revision]: %w",
			source, ErrMissing)
	}
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("weights: fetch %s: %w", source, err)
	}
	f := &fetch{id: match[1], revision: match[2], options: options}
	if f.revision == "" {
		f.revision = "main"
	}
	if f.options.Token == "" {
		f.options.Token = os.Getenv("HF_TOKEN")
	}
	f.repo = f.newRepo(options.CacheDir)
	return f.run(ctx)
}

// fetch is one repository on its way into the cache, whose layout is that of the hub's own tools:
//
//	<cache>/info/<revision>            what the hub says about the revision
//	<cache>/blobs/<content hash>       files
//	<cache>/snapshots/<commit>/<name>  links to them
type fetch struct {
	id, revision string
	options      HubOptions
	repo         *hub.Repo
	cache        string // of this repository
}

// hubFile is one file of a repository.
type hubFile struct {
	name   string
	blob   string // content hash; empty if the server did not say
	sha256 bool   // blob is the SHA-256 of the content
	size   int64  // 0 if not known
}

func (f *fetch) run(ctx context.Context) (string, error) {
	var err error
	if f.cache, err = f.repo.CacheDir(); err != nil {
		return "", fmt.Errorf("weights: cache folder: %w", err)
	}
	if commitHash.MatchString(f.revision) {
		if snapshot, missing := f.cached(); snapshot != "" && len(missing) == 0 {
			return snapshot, nil
		}
	}
	about, err := f.describe(ctx)
	if err != nil {
		return f.fallBack(ctx, err)
	}
	snapshot, files, err := f.plan(about.info)
	if err != nil {
		return "", err
	}
	for _, file := range files {
		if err := f.file(ctx, about.url, snapshot, file); err != nil {
			if err := ctx.Err(); err != nil {
				return "", fmt.Errorf("weights: fetch %s: %w", f.id, err)
			}
			return "", f.explain(err, file.name)
		}
	}
	return snapshot, nil
}

// newRepo returns the library's handle of the repository with this cache; empty means the shared one.
func (f *fetch) newRepo(cache string) *hub.Repo {
	repo := hub.New(f.id).WithRevision(f.revision).WithAuth(f.options.Token)
	repo.Verbosity = 0
	if cache != "" {
		repo.WithCacheDir(cache)
	}
	if f.options.Endpoint != "" {
		repo.WithEndpoint(strings.TrimSuffix(f.options.Endpoint, "/"))
	}
	return repo
}

// description is what the hub says about a revision.
type description struct {
	info *hub.RepoInfo
	text []byte // the same, as it came
	url  string // of the files, with a slash at the end
}

// describe asks the hub for the revision's commit and files, and notes the answer in the cache.
//
// The library's request cannot be cancelled, holds a lock meanwhile and deletes the answer before. So it is made in a
// folder of its own, and left alone if ctx ends first: nothing else waits for it.
func (f *fetch) describe(ctx context.Context) (description, error) {
	d, err := guard(ctx, 0, func() (d description, err error) {
		scratch, err := os.MkdirTemp("", "hub-")
		if err != nil {
			return d, err
		}
		defer os.RemoveAll(scratch)
		repo := f.newRepo(scratch)
		if d.url, err = repo.FileURL(""); err != nil { // makes one request; Info then makes none
			return d, err
		}
		d.info = repo.Info()
		dir, err := repo.CacheDir()
		if err != nil {
			return d, err
		}
		d.text, err = os.ReadFile(infoFile(dir, f.revision))
		return d, err
	})
	if err != nil {
		return d, err
	}
	if d.info == nil || !plainWord.MatchString(d.info.CommitHash) {
		return d, errors.New("the hub's answer names no commit")
	}
	return d, writeFile(infoFile(f.cache, f.revision), d.text)
}

// infoFile is where the cache of a repository keeps what the hub says about a revision.
func infoFile(cache, revision string) string {
	return filepath.Join(cache, "info", filepath.FromSlash(revision))
}

// writeFile writes a file so that no reader sees a part of it.
func writeFile(path string, data []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, hub.DefaultDirCreationPerm); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(dir, ".info-")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name()) // fails once it is renamed
	_, err = temporary.Write(data)
	if err := errors.Join(err, temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}

// plan returns the snapshot folder and the files that belong into it.
func (f *fetch) plan(info *hub.RepoInfo) (snapshot string, files []hubFile, err error) {
	var names []string
	known := make(map[string]hubFile)
	for _, sibling := range info.Siblings {
		if sibling == nil || !filepath.IsLocal(sibling.Name) || strings.ContainsAny(sibling.Name, "\\:?#%") {
			continue // not a name that a checkpoint has
		}
		file := hubFile{name: sibling.Name, blob: sibling.BlobID, size: max(sibling.Size, 0)}
		if lfs := sibling.LFS; lfs != nil && lfs.SHA256 != "" {
			file.blob, file.sha256 = lfs.SHA256, true
			if lfs.Size > 0 {
				file.size = lfs.Size
			}
		}
		names = append(names, file.name)
		known[file.name] = file
	}
	wanted := inferenceFiles(names)
	if want := f.options.Want; want != nil {
		wanted = slices.DeleteFunc(names, func(name string) bool { return !want(name) })
	}
	if len(wanted) == 0 {
		return "", nil, fmt.Errorf("weights: repository %s@%s holds no checkpoint files: %w", f.id, f.revision, ErrNotFound)
	}
	slices.Sort(wanted)
	for _, name := range slices.Compact(wanted) {
		files = append(files, known[name])
	}
	return filepath.Join(f.cache, "snapshots", info.CommitHash), files, nil
}

// unusedStems are weights that inference does not need.
var unusedStems = []string{"ss_encoder", "slat_encoder"}

// inferenceFiles picks the configuration and weight files of a repository.
func inferenceFiles(names []string) []string {
	var picked []string
	best := make(map[string]int) // by path without extension: index in checkpointExtensions
	for _, name := range names {
		extension := path.Ext(name)
		stem := strings.TrimSuffix(name, extension)
		dir := path.Dir(name)
		atTop := dir == "." || dir == "checkpoints"
		depthModel := path.Base(name) == "model.pt" && (atTop || path.Dir(dir) == "." || path.Dir(dir) == "checkpoints")
		if !atTop && !depthModel || slices.Contains(unusedStems, path.Base(stem)) {
			continue
		}
		if rank := slices.Index(checkpointExtensions, extension); rank >= 0 {
			if known, ok := best[stem]; !ok || rank < known {
				best[stem] = rank
			}
		} else if extension == ".yaml" || extension == ".json" {
			picked = append(picked, name)
		}
	}
	for stem, rank := range best {
		picked = append(picked, stem+checkpointExtensions[rank])
	}
	return picked
}

// guard runs a call of the hub library. Its panics become errors. If ctx ends first, guard gives it that long to clean
// up and returns ctx.Err().
func guard[T any](ctx context.Context, grace time.Duration, call func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r.err = fmt.Errorf("the hub library failed: %v", p)
			}
			done <- r
		}()
		r.value, r.err = call()
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	var zero T
	return zero, ctx.Err()
}
