// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gomlx/go-huggingface/hub"
)

// cleanUpTime is how long a cancelled download may take to remove what it has written.
const cleanUpTime = 5 * time.Second

// file brings one file into the snapshot folder. It appears there, and under its final name in the cache, only when it
// is complete.
func (f *fetch) file(ctx context.Context, url, snapshot string, file hubFile) error {
	link := filepath.Join(snapshot, filepath.FromSlash(file.name))
	if present(link, file.size) {
		return nil
	}
	url += file.name
	if file.blob == "" {
		etag, err := f.etag(ctx, url)
		if err != nil {
			return err
		}
		file.blob = etag
	}
	if !plainWord.MatchString(file.blob) {
		return fmt.Errorf("the hub's answer has a content hash that cannot be used: %.64q", file.blob)
	}
	blob := filepath.Join(f.cache, "blobs", file.blob)
	if !present(blob, file.size) {
		if err := f.download(ctx, url, blob, file); err != nil {
			return err
		}
	}
	return place(link, blob)
}

// present reports whether path is a file of that size, if the size is known.
func present(path string, size int64) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && (size == 0 || info.Size() == size)
}

// etag asks the server for the content hash of a file.
func (f *fetch) etag(ctx context.Context, url string) (string, error) {
	manager := f.repo.GetDownloadManager()
	return guard(ctx, cleanUpTime, func() (string, error) {
		header, _, err := manager.FetchHeader(ctx, url)
		if err != nil {
			return "", err
		}
		tag := header.Get(hub.HeaderXLinkedETag)
		if tag == "" {
			tag = header.Get("ETag")
		}
		return strings.Trim(strings.TrimPrefix(tag, "W/"), `"`), nil
	})
}

// download fetches a file, checks it and moves it to blob.
//
// It does not use Repo.DownloadFiles, which runs goroutines of its own that nothing guards, takes a connection that
// breaks off for the end of the file, reports no progress and prints.
func (f *fetch) download(ctx context.Context, url, blob string, file hubFile) error {
	partial := blob + ".incomplete"
	manager := f.repo.GetDownloadManager()
	progress := func(done, total int64) {
		if total = max(total, 0); total == 0 {
			total = file.size
		}
		if f.options.Progress != nil && ctx.Err() == nil {
			f.options.Progress(file.name, done, total)
		}
	}
	_, err := guard(ctx, cleanUpTime, func() (struct{}, error) {
		return struct{}{}, manager.LockedDownload(ctx, url, partial, false, progress)
	})
	if err != nil {
		return err
	}
	size, err := checkDownload(ctx, partial, file)
	if err != nil {
		if present(blob, file.size) { // another program was faster
			return nil
		}
		_ = os.Remove(partial)
		return err
	}
	progress(size, size) // the library does not report the last piece
	if err := os.Rename(partial, blob); err != nil && !present(blob, file.size) {
		return err
	}
	return nil
}

// checkDownload compares a downloaded file with what the hub said about it, and returns its size.
func checkDownload(ctx context.Context, path string, file hubFile) (size int64, err error) {
	in, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("download broke off: %w", io.ErrUnexpectedEOF)
	}
	if err != nil {
		return 0, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return 0, err
	}
	if file.size > 0 && info.Size() != file.size {
		return 0, fmt.Errorf("download has %d bytes, %d expected: %w", info.Size(), file.size, io.ErrUnexpectedEOF)
	}
	if !file.sha256 {
		return info.Size(), nil
	}
	hash := sha256.New()
	_, err = io.Copy(hash, readerFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return in.Read(p)
	}))
	if err != nil {
		return 0, err
	}
	if sum := hex.EncodeToString(hash.Sum(nil)); sum != strings.ToLower(file.blob) {
		return 0, fmt.Errorf("download is damaged: its SHA-256 is %s, expected %s", sum, file.blob)
	}
	return info.Size(), nil
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// place links a file of the snapshot to its content, by a relative path, as the hub's own tools do.
func place(link, blob string) error {
	if err := os.MkdirAll(filepath.Dir(link), hub.DefaultDirCreationPerm); err != nil {
		return err
	}
	target, err := filepath.Rel(filepath.Dir(link), blob)
	if err != nil {
		return err
	}
	if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Symlink(target, link)
}

// cached returns the snapshot folder that the cache has for the revision, and which files are missing in it. The folder
// is "" if the cache does not know the revision.
func (f *fetch) cached() (snapshot string, missing []string) {
	data, err := readSmall(infoFile(f.cache, f.revision), maxBundleJSON)
	if err != nil {
		return "", nil
	}
	var info hub.RepoInfo
	if json.Unmarshal(data, &info) != nil || !plainWord.MatchString(info.CommitHash) {
		return "", nil
	}
	snapshot, files, err := f.plan(&info)
	if err != nil {
		return "", nil
	}
	for _, file := range files {
		if !present(filepath.Join(snapshot, filepath.FromSlash(file.name)), file.size) {
			missing = append(missing, file.name)
		}
	}
	return snapshot, missing
}

// fallBack uses the cache if the hub cannot be reached; otherwise it explains why the repository cannot be read.
func (f *fetch) fallBack(ctx context.Context, err error) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("weights: fetch %s: %w", f.id, err)
	}
	if unreachable(err) {
		if snapshot, missing := f.cached(); snapshot != "" && len(missing) == 0 {
			return snapshot, nil
		}
	}
	return "", f.explain(err, "")
}

// unreachable reports whether err comes from the network and not from the hub.
func unreachable(err error) bool {
	var network net.Error // what an HTTP client returns if it has no answer
	return errors.As(err, &network)
}

// statusText finds the HTTP status in the library's error texts, which is all it gives.
var statusText = regexp.MustCompile(`bad status code (\d{3})|` +
	`request for metadata from "[^"]*" failed with the following message: "(\d{3})`)

// explain turns an error of the library into one of this package, with advice. File is empty for the repository.
func (f *fetch) explain(err error, file string) error {
	what := "repository " + f.id + "@" + f.revision
	if file != "" {
		what = file + " of " + what
	}
	status := 0
	if match := statusText.FindStringSubmatch(err.Error()); match != nil {
		status, _ = strconv.Atoi(match[1] + match[2])
	}
	hasToken := f.options.Token != ""
	switch {
	case status == 404:
		return fmt.Errorf("weights: %s does not exist (status 404); there is no local folder of that name either: %w: %w",
			what, ErrNotFound, err)
	case (status == 401 || status == 403) && !hasToken:
		return fmt.Errorf("weights: %s needs a token and none was given (status %d): accept the licence on the"+
			" repository's page, then set HF_TOKEN (or the Token option) to a token of that account; a repository that"+
			" does not exist is refused in the same way: %w: %w", what, status, ErrGated, err)
	case status == 401:
		return fmt.Errorf("weights: %s: the token was refused (status 401): it is mistyped, expired or revoked; set HF_TOKEN"+
			" (or the Token option) to a valid one: %w: %w", what, ErrGated, err)
	case status == 403:
		return fmt.Errorf("weights: %s: the token was refused (status 403): its account has not been granted access, so"+
			" accept the licence on the repository's page and wait for approval, or the token may not read gated"+
			" repositories: %w: %w", what, ErrGated, err)
	case unreachable(err):
		return fmt.Errorf("weights: %s: no connection, and the cache in %s is not complete: connect once to fetch it,"+
			" or pass a local folder with the checkpoint as the source: %w: %w",
			what, filepath.Join(f.cache, "snapshots"), ErrOffline, err)
	}
	return fmt.Errorf("weights: fetch %s: %w", what, err)
}
