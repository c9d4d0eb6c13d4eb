// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// asProgram makes the test program the example.
const asProgram = "IMAGE3D_TEST_GENERATE"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// program runs the example as a process of its own, with libraries that log all they can.
func program(args ...string) (stdout, stderr []byte, err error) {
	p := exec.Command(os.Args[0], args...)
	p.Env = append(os.Environ(), asProgram+"=1", "TF_CPP_MIN_LOG_LEVEL=0")
	var log bytes.Buffer
	p.Stderr = &log
	stdout, err = p.Output()
	return stdout, log.Bytes(), err
}

// TestProcess: the standard output of a process is one JSON document, of a result as of a failure, and a second run
// leaves the files of the first one alone.
func TestProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: runs the program twice")
	}
	out := filepath.Join(t.TempDir(), "out")
	args := []string{"-json", "-backend", "go", "-out", out, "-steps", "1", "-latent-steps", "1", "-formats", "gaussian4"}
	stdout, stderr, err := program(args...)
	require.NoError(t, err, string(stderr))
	var result summary
	decoder := json.NewDecoder(bytes.NewReader(stdout))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&result), string(stdout))
	require.False(t, decoder.More(), "one document")
	require.Len(t, result.Files, 2)
	before, err := os.ReadFile(result.Files[0])
	require.NoError(t, err)

	stdout, stderr, err = program(args...)
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 1, exit.ExitCode())
	require.Contains(t, string(stderr), "-force")
	var failure struct{ Error string }
	require.NoError(t, json.Unmarshal(stdout, &failure), string(stdout))
	require.Contains(t, failure.Error, result.Files[0])
	after, err := os.ReadFile(result.Files[0])
	require.NoError(t, err)
	require.Equal(t, before, after)
	entries, err := os.ReadDir(out)
	require.NoError(t, err)
	require.Len(t, entries, 2)
}
