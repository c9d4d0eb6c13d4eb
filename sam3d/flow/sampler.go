// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package flow holds the two flow-matching transformers of SAM 3D Objects and the sampler that integrates them.
//
// Structure (stage 1) turns noise into a coarse shape and the pose of the object; Latent (stage 2) turns noise on the
// occupied voxels into features. Both predict a velocity: time runs from 0, noise, to 1, data, and the velocity points
// towards the data. A Sampler adds the velocities up, with classifier-free guidance.
//
// Sources: facebookresearch/sam-3d-objects, model/backbone/generator (flow_matching, shortcut,
// classifier_free_guidance) and model/backbone/tdfy_dit/models; flow matching, Lipman et al. 2022 (arXiv:2210.02747);
// shortcut models, Frans et al. 2024 (arXiv:2410.12557); classifier-free guidance, Ho and Salimans 2022
// (arXiv:2207.12598).
package flow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/internal/nn"
)

var (
	// ErrConfig is wrapped by errors about a model's hyperparameters.
	ErrConfig = errors.New("flow: invalid configuration")
	// ErrInput is wrapped by errors about a call's arguments: options, shapes, names.
	ErrInput = errors.New("flow: invalid input")
	// ErrNonFinite is wrapped when condition tokens hold an infinity or a NaN, which would spread to every output.
	ErrNonFinite = errors.New("flow: condition is not finite")
)

// Latents are arrays by latent name, float32 [B, tokens, channels] each: a state, or the velocity of one.
type Latents map[string]*tensors.Tensor

// Names returns the latent names in ascending order.
func (l Latents) Names() []string { return slices.Sorted(maps.Keys(l)) }

// Free releases the arrays' memory.
func (l Latents) Free() { nn.Free(slices.Collect(maps.Values(l))...) }

func (l Latents) list(names []string) []any {
	out := make([]any, len(names))
	for i, name := range names {
		out[i] = l[name]
	}
	return out
}

// named is the inverse of list.
func named(names []string, list []*tensors.Tensor) Latents {
	l := make(Latents, len(names))
	for i, name := range names {
		l[name] = list[i]
	}
	return l
}

// Branch is what one evaluation of a network is conditioned on.
type Branch int

// Branches of a guided step.
const (
	Conditional   Branch = iota // all condition tokens
	NoPointMap                  // the tokens of the point map are zero
	Unconditional               // no condition
)

// Velocity evaluates a network.
//
//	x  the state, which stays the caller's
//	t  time in thousandths (0 to 1000): one for all, or one for each batch item
//	d  step size in thousandths likewise; nil where the network is told none
//
// The result has the names and shapes of x and belongs to the caller.
type Velocity func(ctx context.Context, x Latents, t, d []float32, branch Branch) (Latents, error)

// StepInput is the step size d that the network is told.
type StepInput int

// Step inputs. Zero is not the same as absent: a zero is embedded like any other value.
const (
	StepZero    StepInput = iota // always 0: a shortcut model sampled in many steps
	StepUniform                  // 1000/steps, whatever the true, uneven steps are: a distilled model
	StepAbsent                   // none: a network that was trained without
)

// Solver integrates the velocity over one step.
type Solver int

// Solvers.
const (
	Euler    Solver = iota // one evaluation, at the start
	Midpoint               // one at the start, one half way; the second counts
)

// Sampling says how a flow is integrated.
type Sampling struct {
	Steps    int       // at least 1
	Rescale  float64   // of time, towards small steps near the noise: see NewSchedule
	Reversed bool      // time runs from 1 to 0
	Step     StepInput // step size that the network is told
	Solver   Solver
	Guidance Guidance

	// Progress, if set, is called after each step with the number of steps done (1 to of).
	Progress func(step, of int)

	observe func(step int, x Latents) // after step (0-based), before x is released; for tests
}

const maxSteps = 10_000

// Sampler integrates a Velocity. The state stays on the device. It is safe for concurrent use.
type Sampler struct {
	advance, combine, combine3 *nn.Program
}

// NewSampler returns a Sampler whose programs are compiled on first use.
func NewSampler(backend compute.Backend) *Sampler {
	return &Sampler{
		advance:  nn.NewProgram(backend, "flow.advance", advanceGraph),
		combine:  nn.NewProgram(backend, "flow.guidance", combineGraph),
		combine3: nn.NewProgram(backend, "flow.guidance3", combine3Graph),
	}
}

// Close frees the compiled programs.
func (s *Sampler) Close() {
	s.advance.Close()
	s.combine.Close()
	s.combine3.Close()
}

// Run integrates from noise and returns the final state, which belongs to the caller; so does noise, which is not
// changed. It returns ctx.Err() within one evaluation of being cancelled, and errors wrapping ErrInput.
func (s *Sampler) Run(ctx context.Context, velocity Velocity, noise Latents, opt Sampling) (Latents, error) {
	schedule, err := opt.check(noise)
	if err != nil {
		return nil, err
	}
	run := run{sampler: s, velocity: velocity, guidance: opt.Guidance, d: opt.stepInput()}
	solve := run.euler
	if opt.Solver == Midpoint {
		solve = run.midpoint
	}
	x := noise
	for i := range opt.Steps {
		next, err := solve(ctx, x, schedule.Times[i], schedule.Times[i+1]-schedule.Times[i])
		if i > 0 {
			x.Free()
		}
		if err != nil {
			return nil, fmt.Errorf("flow: step %d of %d: %w", i+1, opt.Steps, err)
		}
		x = next
		if opt.observe != nil {
			opt.observe(i, x)
		}
		if opt.Progress != nil {
			opt.Progress(i+1, opt.Steps)
		}
	}
	return x, nil
}

func (opt Sampling) check(noise Latents) (Schedule, error) {
	if len(noise) == 0 {
		return Schedule{}, fmt.Errorf("%w: no latents to sample", ErrInput)
	}
	for name, t := range noise {
		if t == nil || !t.Ok() || t.DType() != dtypes.Float32 {
			return Schedule{}, fmt.Errorf("%w: noise of latent %q is not a float32 tensor", ErrInput, name)
		}
	}
	if opt.Step < StepZero || opt.Step > StepAbsent {
		return Schedule{}, fmt.Errorf("%w: step input %d", ErrInput, opt.Step)
	}
	if opt.Solver != Euler && opt.Solver != Midpoint {
		return Schedule{}, fmt.Errorf("%w: solver %d", ErrInput, opt.Solver)
	}
	if err := opt.Guidance.check(noise); err != nil {
		return Schedule{}, err
	}
	return NewSchedule(opt.Steps, opt.Rescale, opt.Reversed)
}

func (opt Sampling) stepInput() []float32 {
	switch opt.Step {
	case StepZero:
		return []float32{0}
	case StepUniform:
		return []float32{float32(1 / float64(opt.Steps) * timeScale)}
	}
	return nil
}

// run is one call of Sampler.Run.
type run struct {
	sampler  *Sampler
	velocity Velocity
	guidance Guidance
	d        []float32
}

// euler is x + dt v(x, t).
func (r run) euler(ctx context.Context, x Latents, t, dt float64) (Latents, error) {
	return r.move(ctx, x, x, t, dt)
}

// midpoint is x + dt v(x + dt/2 v(x, t), t + dt/2).
func (r run) midpoint(ctx context.Context, x Latents, t, dt float64) (Latents, error) {
	half, err := r.move(ctx, x, x, t, dt/2)
	if err != nil {
		return nil, err
	}
	defer half.Free()
	return r.move(ctx, x, half, t+dt/2, dt)
}

// move is x + dt v(at, t).
func (r run) move(ctx context.Context, x, at Latents, t, dt float64) (Latents, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	v, err := r.guided(ctx, at, ModelTime(t))
	if err != nil {
		return nil, err
	}
	defer v.Free()
	names := x.Names()
	out, err := r.sampler.advance.Call(nil, append(append(x.list(names), v.list(names)...), float32(dt))...)
	if err != nil {
		return nil, err
	}
	return named(names, out), nil
}

// advanceGraph adds velocities to states. Inputs: n states, n velocities, the step as a scalar.
func advanceGraph(_ nn.Params, in []*Node) []*Node {
	n, dt := len(in)/2, in[len(in)-1]
	out := make([]*Node, n)
	for i := range out {
		x, v := in[i], in[n+i]
		out[i] = Add(x, Mul(v, ConvertDType(dt, v.DType())))
	}
	return out
}
