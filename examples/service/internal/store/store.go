// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package store

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

var (
	jobsBucket = []byte("jobs") // id: record
	keysBucket = []byte("keys") // client, 0, idempotency key: id
	metaBucket = []byte("meta") // its sequence numbers the starts
)

// Folders in the store's.
const (
	jobsFolder    = "jobs"
	stagingFolder = "staging"
)

// Store is safe for concurrent use.
type Store struct {
	root string
	db   *bbolt.DB
}

// Open opens the store in a folder, which is made if it does not exist, and removes what a crash left half done. The
// error wraps ErrInUse if another program has it open.
func Open(folder string) (*Store, error) {
	for _, sub := range []string{jobsFolder, stagingFolder} {
		if err := os.MkdirAll(filepath.Join(folder, sub), 0o700); err != nil {
			return nil, fmt.Errorf("store: %w", err)
		}
	}
	db, err := bbolt.Open(filepath.Join(folder, "jobs.db"), 0o600, &bbolt.Options{Timeout: time.Second})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("%w: %s", ErrInUse, folder)
	}
	if err != nil {
		return nil, fmt.Errorf("store: open %s: %w", folder, err)
	}
	s := &Store{root: folder, db: db}
	if err := s.recover(); err != nil {
		return nil, errors.Join(fmt.Errorf("store: %w", err), db.Close())
	}
	return s, nil
}

// recover makes the buckets and removes folders without a record.
func (s *Store) recover() error {
	err := s.db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{jobsBucket, keysBucket, metaBucket} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	staged, err := os.ReadDir(filepath.Join(s.root, stagingFolder))
	if err != nil {
		return err
	}
	for _, entry := range staged {
		if err := os.RemoveAll(filepath.Join(s.root, stagingFolder, entry.Name())); err != nil {
			return err
		}
	}
	folders, err := os.ReadDir(filepath.Join(s.root, jobsFolder))
	if err != nil {
		return err
	}
	for _, entry := range folders {
		if _, err := s.Get(entry.Name()); errors.Is(err, ErrNotFound) {
			err = os.RemoveAll(s.Folder(entry.Name()))
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Close closes the database.
func (s *Store) Close() error { return s.db.Close() }

// Folder is where the files of a job are.
func (s *Store) Folder(id string) string { return filepath.Join(s.root, jobsFolder, id) }

// Stage makes an empty folder for the files of a job to be added. Add takes it; without Add the caller removes it.
func (s *Store) Stage() (folder string, err error) {
	for _, sub := range []string{jobsFolder, stagingFolder} { // somebody may have tidied up
		if err := os.MkdirAll(filepath.Join(s.root, sub), 0o700); err != nil {
			return "", fmt.Errorf("store: %w", err)
		}
	}
	folder, err = os.MkdirTemp(filepath.Join(s.root, stagingFolder), "")
	if err != nil {
		return "", fmt.Errorf("store: %w", err)
	}
	return folder, nil
}

// Find returns the job that the client's idempotency key belongs to. The error wraps ErrKeyReused if the job came from
// another request, and ErrNotFound if there is none.
func (s *Store) Find(client, key, digest string) (job Job, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		job, err = find(tx, client, key, digest)
		return err
	})
	return job, err
}

func find(tx *bbolt.Tx, client, key, digest string) (job Job, err error) {
	if key == "" {
		return job, ErrNotFound
	}
	id := tx.Bucket(keysBucket).Get(keyOf(client, key))
	if id == nil {
		return job, ErrNotFound
	}
	if job, err = get(tx, string(id)); err == nil && job.Digest != digest {
		return Job{}, ErrKeyReused
	}
	return job, err
}

// Add stores a new job, queued, with the files of a staged folder. It fills ID, Seq, State and Created. If the client
// sent the same request with the same idempotency key before, it returns that job and existed, and the staged folder is
// removed. The error wraps ErrKeyReused if the key came with another request.
func (s *Store) Add(job Job, staged string) (added Job, existed bool, err error) {
	job.ID, job.State, job.Created = rand.Text(), Queued, time.Now().UTC()
	if err := syncFolder(staged); err != nil {
		return Job{}, false, fmt.Errorf("store: %w", err)
	}
	folder := s.Folder(job.ID)
	if err := os.Rename(staged, folder); err != nil {
		return Job{}, false, fmt.Errorf("store: %w", err)
	}
	if err := syncPath(filepath.Dir(folder)); err != nil {
		return Job{}, false, fmt.Errorf("store: %w", err)
	}
	err = s.db.Update(func(tx *bbolt.Tx) error {
		if before, err := find(tx, job.Client, job.Key, job.Digest); !errors.Is(err, ErrNotFound) {
			added, existed = before, err == nil
			return err
		}
		if job.Seq, err = tx.Bucket(jobsBucket).NextSequence(); err != nil {
			return err
		}
		if job.Key != "" {
			if err := tx.Bucket(keysBucket).Put(keyOf(job.Client, job.Key), []byte(job.ID)); err != nil {
				return err
			}
		}
		added = job
		return put(tx, job)
	})
	if err != nil || existed {
		err = errors.Join(err, os.RemoveAll(folder))
	}
	if err != nil {
		return Job{}, false, fmt.Errorf("store: add: %w", err)
	}
	return added, existed, nil
}

// Get returns a job, or an error that wraps ErrNotFound.
func (s *Store) Get(id string) (job Job, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		job, err = get(tx, id)
		return err
	})
	return job, err
}

// All returns all jobs, in no order.
func (s *Store) All() (jobs []Job, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(jobsBucket).ForEach(func(_, data []byte) error {
			var job Job
			if err := json.Unmarshal(data, &job); err != nil {
				return err
			}
			jobs = append(jobs, job)
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	return jobs, nil
}

// Update changes a job in one step and returns it as it is then. An error of change leaves it as it was and comes back.
func (s *Store) Update(id string, change func(*Job) error) (job Job, err error) {
	err = s.db.Update(func(tx *bbolt.Tx) error {
		if job, err = get(tx, id); err != nil {
			return err
		}
		if err := change(&job); err != nil {
			return err
		}
		return put(tx, job)
	})
	return job, err
}

// Start marks a job as running and numbers the start.
func (s *Store) Start(id string) (job Job, err error) {
	err = s.db.Update(func(tx *bbolt.Tx) error {
		if job, err = get(tx, id); err != nil {
			return err
		}
		served, err := tx.Bucket(metaBucket).NextSequence()
		if err != nil {
			return err
		}
		job.State, job.Started, job.Served = Running, time.Now().UTC(), served
		job.Attempts++
		job.Starts++
		return put(tx, job)
	})
	return job, err
}

// Remove forgets a job and removes its files.
func (s *Store) Remove(id string) error {
	err := s.db.Update(func(tx *bbolt.Tx) error {
		job, err := get(tx, id)
		if err != nil {
			return err
		}
		if job.Key != "" {
			if err := tx.Bucket(keysBucket).Delete(keyOf(job.Client, job.Key)); err != nil {
				return err
			}
		}
		return tx.Bucket(jobsBucket).Delete([]byte(id))
	})
	if err != nil {
		return err
	}
	if err := os.RemoveAll(s.Folder(id)); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

func get(tx *bbolt.Tx, id string) (job Job, err error) {
	data := tx.Bucket(jobsBucket).Get([]byte(id))
	if id == "" || data == nil {
		return job, ErrNotFound
	}
	if err := json.Unmarshal(data, &job); err != nil {
		return job, fmt.Errorf("store: record of %s: %w", id, err)
	}
	return job, nil
}

func put(tx *bbolt.Tx, job Job) error {
	data, err := json.Marshal(job)
	if err != nil {
		return err
	}
	return tx.Bucket(jobsBucket).Put([]byte(job.ID), data)
}

// keyOf is the database key of an idempotency key. The client's length keeps one client's keys from meaning another's.
func keyOf(client, key string) []byte {
	data := binary.AppendUvarint(nil, uint64(len(client)))
	return append(append(data, client...), key...)
}

// syncFolder brings the files of a folder, and the folder, to the disk.
func syncFolder(folder string) error {
	return filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return syncPath(path)
	})
}

func syncPath(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
