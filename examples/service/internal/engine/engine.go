// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package engine makes the object of a job with the model, and checks what a client sends before it becomes a job.
package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/gomlx3d/image3d/examples/service/internal/store"
	"github.com/gomlx3d/image3d/sam3d"
	"github.com/gomlx3d/image3d/sam3d/input"
	"github.com/gomlx3d/image3d/testdata"
)

// ErrNotReady says that the model is not loaded.
var ErrNotReady = errors.New("engine: the model is not loaded")

// Engine makes objects. It is safe for concurrent use.
type Engine struct {
	// MaxPixels bounds pictures, masks and point maps.
	MaxPixels int
	// MemoryLimit is that of sam3d.Options.
	MemoryLimit int64

	pipeline atomic.Pointer[sam3d.Pipeline]
}

// Open loads a model, or the small embedded one with random weights if source is empty.
func (e *Engine) Open(ctx context.Context, source, backend string) error {
	if source == "" {
		folder, remove, err := testdata.TempModel()
		if err != nil {
			return fmt.Errorf("engine: %w", err)
		}
		defer remove() // the weights are on the device by then
		source = folder
	}
	pipeline, err := sam3d.Open(ctx, source, sam3d.Options{Backend: backend, MemoryLimit: e.MemoryLimit, KeepWeights: true})
	if err != nil {
		return err
	}
	e.pipeline.Store(pipeline)
	return nil
}

// Ready reports whether the model is loaded.
func (e *Engine) Ready() bool { return e.pipeline.Load() != nil }

// Close frees the model, after the job that runs.
func (e *Engine) Close() error {
	if p := e.pipeline.Swap(nil); p != nil {
		return p.Close()
	}
	return nil
}

// outputs are the names that clients use.
var outputs = map[string]sam3d.Output{"gaussians": sam3d.Gaussians, "gaussians4": sam3d.Gaussians4, "mesh": sam3d.Mesh}

// Check reads what a client sent as the job will, and reports what is wrong with it. The error wraps one of
// sam3d.ErrTooLarge, sam3d.ErrImageFile, sam3d.ErrPointMapFile, sam3d.ErrRequest and the errors of package input.
func (e *Engine) Check(job store.Job, folder string) error {
	request, err := e.read(job, folder)
	if err != nil {
		return err
	}
	_, err = input.New(request.Image, request.Mask)
	return err
}

// read reads the client's files.
func (e *Engine) read(job store.Job, folder string) (r sam3d.Request, err error) {
	o := job.Options
	r = sam3d.Request{Seed: o.Seed, Steps: o.Steps, LatentSteps: o.LatentSteps, Distilled: o.Distilled, NoDepth: o.NoDepth}
	for _, name := range o.Outputs {
		r.Outputs |= outputs[name]
	}
	loader := sam3d.Loader{MaxPixels: e.MaxPixels}
	if r.Image, err = load(folder, store.ImageFile, loader.Image); err != nil {
		return r, err
	}
	if job.HasMask {
		mask, err := load(folder, store.MaskFile, loader.Mask)
		if err != nil {
			return r, err
		}
		r.Mask = mask
	}
	if job.HasPoints {
		r.PointMap, err = load(folder, store.PointsFile, loader.PointMap)
	}
	return r, err
}

// FileError says which of the client's files is at fault. Its text does not hold the path.
type FileError struct {
	Field string // "image", "mask" or "points"
	Err   error
}

// Error names the field.
func (e *FileError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap returns the error of the file.
func (e *FileError) Unwrap() error { return e.Err }

// load reads one of the client's files.
func load[T any](folder, name string, read func(io.Reader) (T, error)) (value T, err error) {
	file, err := os.Open(filepath.Join(folder, name))
	if err != nil {
		return value, fmt.Errorf("engine: %w", err)
	}
	defer file.Close()
	if value, err = read(file); err != nil {
		return value, &FileError{Field: name, Err: err}
	}
	return value, nil
}

// Make implements worker.Maker. Files are written whole or not at all, and result.json, which lists the others, comes
// last: a job that is made again after that has its result already.
func (e *Engine) Make(ctx context.Context, job store.Job, folder string, progress func(sam3d.Event)) (store.Summary, error) {
	if summary, ok := made(folder); ok {
		return summary, nil
	}
	pipeline := e.pipeline.Load()
	if pipeline == nil {
		return store.Summary{}, ErrNotReady
	}
	request, err := e.read(job, folder)
	if err != nil {
		return store.Summary{}, err
	}
	request.Progress = progress
	result, err := pipeline.Generate(ctx, request)
	if err != nil {
		return store.Summary{}, err
	}
	return write(ctx, folder, job, request.Image, result)
}
