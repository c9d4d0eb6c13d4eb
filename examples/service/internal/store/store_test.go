// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func open(t *testing.T, folder string) *Store {
	t.Helper()
	s, err := Open(folder)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func stage(t *testing.T, s *Store, content string) string {
	t.Helper()
	folder, err := s.Stage()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, ImageFile), []byte(content), 0o600))
	return folder
}

func TestJobsSurviveReopening(t *testing.T) {
	root := t.TempDir()
	s := open(t, root)
	added, existed, err := s.Add(Job{Client: "a", Options: Options{Seed: 7, Outputs: []string{"mesh"}}}, stage(t, s, "picture"))
	require.NoError(t, err)
	require.False(t, existed)
	require.Equal(t, Queued, added.State)
	require.EqualValues(t, 1, added.Seq)
	_, err = Open(root)
	require.ErrorIs(t, err, ErrInUse)

	orphan := s.Folder("orphan") // a crash between the files and the record
	require.NoError(t, os.Mkdir(orphan, 0o700))
	left := stage(t, s, "half")
	require.NoError(t, s.Close())
	s = open(t, root)
	require.NoDirExists(t, orphan)
	require.NoDirExists(t, left)
	again, err := s.Get(added.ID)
	require.NoError(t, err)
	require.Equal(t, added, again)
	data, err := os.ReadFile(filepath.Join(s.Folder(added.ID), ImageFile))
	require.NoError(t, err)
	require.Equal(t, "picture", string(data))

	require.NoError(t, s.Remove(added.ID))
	require.NoDirExists(t, s.Folder(added.ID))
	require.ErrorIs(t, s.Remove(added.ID), ErrNotFound)
	for _, id := range []string{"", "none", "../jobs"} {
		_, err = s.Get(id)
		require.ErrorIs(t, err, ErrNotFound)
	}
}

func TestIdempotencyKeys(t *testing.T) {
	s := open(t, t.TempDir())
	job := Job{Client: "a", Key: "k", Digest: "d"}
	first, existed, err := s.Add(job, stage(t, s, "1"))
	require.NoError(t, err)
	require.False(t, existed)
	second, existed, err := s.Add(job, stage(t, s, "1"))
	require.NoError(t, err)
	require.True(t, existed)
	require.Equal(t, first, second)
	_, _, err = s.Add(Job{Client: "a", Key: "k", Digest: "other"}, stage(t, s, "2"))
	require.ErrorIs(t, err, ErrKeyReused)
	other, existed, err := s.Add(Job{Client: "b", Key: "k", Digest: "d"}, stage(t, s, "1"))
	require.NoError(t, err)
	require.False(t, existed, "another client's keys are its own")
	require.NotEqual(t, first.ID, other.ID)
	folders, err := os.ReadDir(filepath.Join(s.root, "jobs"))
	require.NoError(t, err)
	require.Len(t, folders, 2, "the files of refused submissions are gone")

	require.NoError(t, s.Remove(first.ID))
	_, existed, err = s.Add(job, stage(t, s, "1"))
	require.NoError(t, err)
	require.False(t, existed, "a removed job frees its key")
	require.NotEqual(t, keyOf("ab", "c"), keyOf("a", "bc"))
}

func TestSameKeyAtOnce(t *testing.T) {
	s := open(t, t.TempDir())
	var wait sync.WaitGroup
	ids := make([]string, 8)
	for i := range ids {
		folder := stage(t, s, "1")
		wait.Go(func() {
			job, _, err := s.Add(Job{Client: "a", Key: "k"}, folder)
			if err == nil {
				ids[i] = job.ID
			}
		})
	}
	wait.Wait()
	for _, id := range ids {
		require.Equal(t, ids[0], id)
	}
	jobs, err := s.All()
	require.NoError(t, err)
	require.Len(t, jobs, 1)
}

func TestUpdateAndStart(t *testing.T) {
	s := open(t, t.TempDir())
	job, _, err := s.Add(Job{Client: "a"}, stage(t, s, "1"))
	require.NoError(t, err)
	fault := errors.New("fault")
	_, err = s.Update(job.ID, func(j *Job) error { j.State = Done; return fault })
	require.ErrorIs(t, err, fault)
	same, err := s.Get(job.ID)
	require.NoError(t, err)
	require.Equal(t, job, same)
	for n := range 3 {
		job, err = s.Start(job.ID)
		require.NoError(t, err)
		require.EqualValues(t, n+1, job.Served)
		require.EqualValues(t, n+1, job.Starts)
		require.Equal(t, Running, job.State)
	}
	_, err = s.Start("none")
	require.ErrorIs(t, err, ErrNotFound)
}
