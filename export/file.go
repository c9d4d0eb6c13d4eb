// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package export

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// File writes a file completely or not at all. It calls write with a temporary file beside path, brings the bytes to
// the disk and then gives the file its name in one step. If anything fails, or write panics, the temporary file is
// removed and what was at path is as before. To cancel, write returns an error, such as that of its context.
//
// Without overwrite a file that exists is left alone and the error wraps fs.ErrExist. A symbolic link at path is
// replaced, not followed. Errors of the operating system come back wrapped (fs.ErrPermission, syscall.ENOSPC).
func File(path string, overwrite bool, write func(io.Writer) error) (err error) {
	if info, statErr := os.Lstat(path); statErr == nil {
		if info.IsDir() || !overwrite {
			return fmt.Errorf("export: %s: %w", path, fs.ErrExist)
		}
	}
	f, err := createBeside(path)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	temp := f.Name()
	defer func() {
		_ = f.Close() // a second Close is harmless
		_ = os.Remove(temp)
	}()
	if err := write(f); err != nil {
		return fmt.Errorf("export: write %s: %w", path, err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	if err := publish(temp, path, overwrite); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

// createBeside creates a new file in the folder of path. Unlike os.CreateTemp it leaves the permissions to the umask.
func createBeside(path string) (*os.File, error) {
	for try := 0; ; try++ {
		name := filepath.Join(filepath.Dir(path), fmt.Sprintf(".image3d-%016x.tmp", rand.Uint64()))
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if try == 100 || !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// publish gives a finished file its name and makes the name durable.
func publish(temp, path string, overwrite bool) error {
	if overwrite {
		if err := os.Rename(temp, path); err != nil {
			return err
		}
	} else if err := os.Link(temp, path); errors.Is(err, fs.ErrExist) {
		return err
	} else if err != nil { // a file system without hard links: reserve the name, then replace it
		reserved, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err != nil {
			return err
		}
		_ = reserved.Close()
		if err := os.Rename(temp, path); err != nil {
			_ = os.Remove(path)
			return err
		}
	}
	if dir, err := os.Open(filepath.Dir(path)); err == nil {
		_ = dir.Sync() // not every system can sync a folder
		_ = dir.Close()
	}
	return nil
}
