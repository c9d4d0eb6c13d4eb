// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx/compute"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/sam3d"
)

func TestUnknownBackend(t *testing.T) {
	for _, name := range []string{"abacus", "gpu", ":", "go:no_such_option"} {
		_, err := sam3d.Open(context.Background(), filepath.Join(fixture.Dir(), "checkpoint_mlx_tiny"), sam3d.Options{Backend: name})
		require.ErrorIs(t, err, sam3d.ErrBackend, name)
		require.ErrorContains(t, err, name)
	}
}

// TestPluginErrors opens XLA in another process for each folder of plugins, because a process looks for them once.
func TestPluginErrors(t *testing.T) {
	library := map[string]string{"empty": "", "text": "this is no library"}
	for name, content := range library {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			if content != "" {
				require.NoError(t, os.WriteFile(filepath.Join(folder, "pjrt_c_api_cpu_plugin.so"), []byte(content), 0o666))
			}
			child := exec.Command(os.Args[0], "-test.run", "^TestPluginChild$")
			child.Env = append(os.Environ(), "PJRT_PLUGIN_LIBRARY_PATH="+folder, "IMAGE3D_PLUGIN_CHILD=1", compute.ConfigEnvVar+"=xla:cpu")
			out, err := child.CombinedOutput()
			require.NoError(t, err, string(out))
			if strings.Contains(string(out), "without XLA") {
				t.Skip("built without XLA")
			}
			require.Contains(t, string(out), "make plugin")
			require.Contains(t, string(out), folder)
		})
	}
}

// TestPluginChild is the other process. It fails if the backend opens after all, be it another one.
func TestPluginChild(t *testing.T) {
	if os.Getenv("IMAGE3D_PLUGIN_CHILD") == "" {
		t.Skip("run by TestPluginErrors")
	}
	_, err := sam3d.Open(context.Background(), filepath.Join(fixture.Dir(), "checkpoint_mlx_tiny"), sam3d.Options{})
	require.ErrorIs(t, err, sam3d.ErrBackend)
	_, _ = os.Stdout.WriteString(err.Error() + "\n")
}

// TestBackendPrintsNothing opens and uses XLA in another process, with all that it logs: the standard output stays free
// for what a program has to say.
func TestBackendPrintsNothing(t *testing.T) {
	child := exec.Command(os.Args[0], "-test.run", "^TestLoudChild$")
	child.Env = append(os.Environ(), "IMAGE3D_LOUD_CHILD=1", compute.ConfigEnvVar+"=xla:cpu", "TF_CPP_MIN_LOG_LEVEL=0", "TF_CPP_MAX_VLOG_LEVEL=1")
	var log strings.Builder
	child.Stderr = &log
	out, err := child.Output()
	require.NoError(t, err, log.String())
	if strings.Contains(log.String(), "without XLA") || strings.Contains(log.String(), "no PJRT plugin") {
		t.Skip("no XLA: " + log.String())
	}
	require.Equal(t, "{}\nPASS\n", string(out))
	require.NotEmpty(t, log.String(), "XLA was to log")
}

// TestLoudChild is the other process.
func TestLoudChild(t *testing.T) {
	if os.Getenv("IMAGE3D_LOUD_CHILD") == "" {
		t.Skip("run by TestBackendPrintsNothing")
	}
	if _, err := sam3d.OpenBackend(""); err != nil { // which runs a program
		_, _ = os.Stderr.WriteString(err.Error())
	}
	_, _ = os.Stdout.WriteString("{}\n")
}
