// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/sam3d"
	"github.com/gomlx3d/image3d/testdata"
)

// TestMain closes the shared pipeline and reports goroutines that outlive the tests.
func TestMain(m *testing.M) {
	code := m.Run()
	if err := shared.close(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// sharedPipeline is a pipeline of the embedded model, opened once: on some backends compiling takes a minute.
type sharedPipeline struct {
	once     sync.Once
	pipeline *sam3d.Pipeline
	err      error
}

var shared sharedPipeline

func (s *sharedPipeline) close() error {
	if s.pipeline == nil {
		return nil
	}
	return s.pipeline.Close()
}

// pipeline returns the shared pipeline. Tests must not close it.
func pipeline(t *testing.T) *sam3d.Pipeline {
	t.Helper()
	shared.once.Do(func() {
		folder, err := os.MkdirTemp("", "image3d-model-")
		if err != nil {
			shared.err = err
			return
		}
		defer os.RemoveAll(folder)
		if shared.err = testdata.WriteModel(folder); shared.err == nil {
			shared.pipeline, shared.err = sam3d.Open(context.Background(), folder, sam3d.Options{Backend: backendName(), KeepWeights: true})
		}
	})
	require.NoError(t, shared.err)
	return shared.pipeline
}

// model is a folder with the embedded model, which every picture leads to some voxels with.
func model(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, testdata.WriteModel(folder))
	return folder
}

// tiny is a copy of one of the small checkpoints of the reference cases, to be spoilt.
func tiny(t *testing.T, name string) string {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, os.CopyFS(folder, os.DirFS(filepath.Join(fixture.Dir(), name))))
	return folder
}

// request is the embedded picture with as few steps as can be.
func request(t *testing.T) sam3d.Request {
	t.Helper()
	picture, err := png.Decode(bytes.NewReader(testdata.Image))
	require.NoError(t, err)
	mask, err := png.Decode(bytes.NewReader(testdata.Mask))
	require.NoError(t, err)
	return sam3d.Request{Image: picture, Mask: mask, Steps: 1, LatentSteps: 1, Outputs: sam3d.Gaussians4}
}

// withoutTimes removes what differs from run to run.
func withoutTimes(r *sam3d.Result) *sam3d.Result {
	r.Timings, r.Took = nil, 0
	return r
}

// rectangle is a mask that is white inside.
func rectangle(bounds, inside image.Rectangle) *image.Gray {
	mask := image.NewGray(bounds)
	for y := inside.Min.Y; y < inside.Max.Y; y++ {
		for x := inside.Min.X; x < inside.Max.X; x++ {
			mask.Pix[mask.PixOffset(x, y)] = 255
		}
	}
	return mask
}
