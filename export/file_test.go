// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

// requireOnly checks that the folder holds exactly these files, by name and content.
func requireOnly(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	got := map[string]string{}
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		got[e.Name()] = string(content)
	}
	require.Equal(t, want, got)
}

func TestFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.ply")
	require.NoError(t, File(path, false, text("one")))
	requireOnly(t, dir, map[string]string{"a.ply": "one"})

	called := false
	err := File(path, false, func(io.Writer) error { called = true; return nil })
	require.ErrorIs(t, err, fs.ErrExist)
	require.False(t, called, "no work for a file that must stay")
	require.NoError(t, File(path, true, text("two")))
	requireOnly(t, dir, map[string]string{"a.ply": "two"})

	require.NoError(t, File(filepath.Join(dir, "b.ply"), true, text("three")))
	requireOnly(t, dir, map[string]string{"a.ply": "two", "b.ply": "three"})
}

func TestFileFailures(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.ply")
	require.NoError(t, File(path, false, text("old")))
	old := map[string]string{"a.ply": "old"}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	broken := errors.New("decoder failed")
	for _, want := range []error{broken, errFull, syscall.ENOSPC, ctx.Err()} {
		err := File(path, true, func(w io.Writer) error {
			if err := text("half of the new")(w); err != nil {
				return err
			}
			return want
		})
		require.ErrorIs(t, err, want)
		requireOnly(t, dir, old)
	}
	require.PanicsWithValue(t, "bug", func() { _ = File(path, true, func(io.Writer) error { panic("bug") }) })
	requireOnly(t, dir, old)

	require.ErrorIs(t, File(filepath.Join(dir, "missing", "a.ply"), true, text("")), fs.ErrNotExist)
	require.Error(t, File(filepath.Join(path, "a.ply"), true, text("")), "the folder is a file")
	require.Error(t, File(filepath.Join(dir, strings.Repeat("n", 300)), false, text("")), "the name is too long")
	require.ErrorIs(t, File(dir, true, text("")), fs.ErrExist, "the file is a folder")
	require.Error(t, File("", true, text("")))
	requireOnly(t, dir, old)
}

func TestFileUnwritableFolder(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o500))
	require.ErrorIs(t, File(filepath.Join(dir, "a.ply"), true, text("")), fs.ErrPermission)
}

// A file that appears while another is being written is not replaced either.
func TestFileDoesNotRace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.ply")
	var won, lost atomic.Int32
	var start, done sync.WaitGroup
	start.Add(8)
	for range 8 {
		done.Go(func() {
			err := File(path, false, func(w io.Writer) error {
				start.Done()
				start.Wait() // all have passed the first check
				return text("same")(w)
			})
			switch {
			case err == nil:
				won.Add(1)
			case errors.Is(err, fs.ErrExist):
				lost.Add(1)
			}
		})
	}
	done.Wait()
	require.Equal(t, int32(1), won.Load())
	require.Equal(t, int32(7), lost.Load())
	requireOnly(t, dir, map[string]string{"a.ply": "same"})
}
