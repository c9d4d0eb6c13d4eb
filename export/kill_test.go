// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

//go:build unix

package export

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	writerTask = "IMAGE3D_TEST_WRITER" // what the other process does
	writerPath = "IMAGE3D_TEST_PATH"
)

// writer is a process of this program that writes a file. It prints a line when half is written.
func writer(t *testing.T, task, path string) *exec.Cmd {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run", "^TestWriter$")
	child.Env = append(os.Environ(), writerTask+"="+task, writerPath+"="+path)
	return child
}

// TestWriter is the other process.
func TestWriter(t *testing.T) {
	path := os.Getenv(writerPath)
	switch os.Getenv(writerTask) {
	case "":
		t.Skip("run by other tests")
	case "half":
		_ = File(path, true, func(w io.Writer) error {
			_, err := w.Write(bytes.Repeat([]byte("half"), 1<<18))
			fmt.Println("half", err)
			select {} // until it is killed
		})
	case "limited":
		signal.Ignore(syscall.SIGXFSZ)
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1 << 16, Max: 1 << 16}))
		err := File(path, true, text(strings.Repeat("full", 1<<16)))
		require.ErrorIs(t, err, syscall.EFBIG)
	}
}

// TestFileOutlivesKill kills a process in the middle of writing: what was there is as before, and can be replaced.
func TestFileOutlivesKill(t *testing.T) {
	for name, before := range map[string]string{"replaced": "old", "new": ""} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.ply")
			if before != "" {
				require.NoError(t, File(path, false, text(before)))
			}
			child := writer(t, "half", path)
			out, err := child.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, child.Start())
			line, err := bufio.NewReader(out).ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "half <nil>\n", line)
			require.NoError(t, child.Process.Kill())
			require.Error(t, child.Wait())

			if before == "" {
				require.NoFileExists(t, path)
			} else {
				content, err := os.ReadFile(path)
				require.NoError(t, err)
				require.Equal(t, before, string(content))
			}
			left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".image3d-*.tmp"))
			require.NoError(t, err)
			require.Len(t, left, 1, "a name that tells what it is")
			require.NoError(t, File(path, true, text("new")))
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, "new", string(content))
		})
	}
}

// TestFileBeyondLimit writes more than the system lets a process write, as on a disk that is full.
func TestFileBeyondLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.ply")
	require.NoError(t, File(path, false, text("old")))
	out, err := writer(t, "limited", path).CombinedOutput()
	require.NoError(t, err, string(out))
	requireOnly(t, filepath.Dir(path), map[string]string{"a.ply": "old"})
}
