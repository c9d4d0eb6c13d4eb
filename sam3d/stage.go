// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomlx3d/image3d/flexicubes"
	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/sam3d/decoder"
	"github.com/gomlx3d/image3d/sam3d/flow"
	"github.com/gomlx3d/image3d/sam3d/pose"
	"github.com/gomlx3d/image3d/splat"
)

// during runs one stage of a number of steps: it checks the context, reports progress and takes the time.
func during[T any](r *run, stage Stage, of int, work func() (T, error)) (out T, err error) {
	if err := r.stopped(); err != nil {
		return out, fmt.Errorf("sam3d: before %s: %w", stage, err)
	}
	begin := time.Now()
	r.stage, r.done, r.compiled = stage, -1, nn.CompileTime()
	r.report(0, of)
	if err = r.stopped(); err == nil {
		out, err = work()
	}
	if stopped := r.stopped(); stopped != nil {
		err = stopped
	}
	if err != nil {
		if slices.ContainsFunc(notFinite, func(target error) bool { return errors.Is(err, target) }) {
			err = fmt.Errorf("%w: %w", ErrNotFinite, err)
		}
		return out, fmt.Errorf("sam3d: %s: %w", stage, err)
	}
	r.report(of, of)
	r.result.Timings = append(r.result.Timings, Timing{Stage: stage, Took: time.Since(begin), Compile: nn.CompileTime() - r.compiled})
	return out, nil
}

// with is during with the stage's model.
func with[M model, T any](r *run, h *held[M], stage Stage, of int, work func(M) (T, error)) (T, error) {
	return during(r, stage, of, func() (T, error) { return use(h, work) })
}

// notFinite are the errors of the stages for results that hold NaN or an infinity.
var notFinite = []error{flow.ErrNonFinite, decoder.ErrNonFinite, pose.ErrNotFinite, flexicubes.ErrNotFinite, splat.ErrInvalid}

// stopped returns why the run must not go on, or nil.
func (r *run) stopped() error {
	if r.fault != nil {
		return r.fault
	}
	return r.ctx.Err()
}

// report tells the caller about a step, once. A panic there ends the run like a cancellation, which every stage cleans
// up after.
func (r *run) report(step, of int) {
	if step == r.done || r.fault != nil {
		return
	}
	r.done = step
	if r.request.Progress == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			r.fault = fmt.Errorf("%w: Progress panicked: %v", ErrRequest, v)
			r.cancel()
		}
	}()
	r.request.Progress(Event{Stage: r.stage, Step: step, Of: of, Elapsed: time.Since(r.started), Compile: nn.CompileTime() - r.compiled})
}
