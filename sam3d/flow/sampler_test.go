// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flow

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
)

func vector(values ...float32) *tensors.Tensor {
	return tensors.FromFlatDataAndDimensions(values, 1, 1, len(values))
}

func values(t *testing.T, x *tensors.Tensor) []float32 {
	t.Helper()
	flat, err := tensors.CopyFlatData[float32](x)
	require.NoError(t, err)
	return flat
}

// call records one evaluation of a toy network.
type call struct {
	t, d   float32
	branch Branch
}

// toy is a network whose velocity is a constant of the branch: 1, 10 or 100.
func toy(calls *[]call) Velocity {
	return func(ctx context.Context, x Latents, t, d []float32, branch Branch) (Latents, error) {
		step := float32(-1)
		if d != nil {
			step = d[0]
		}
		*calls = append(*calls, call{t[0], step, branch})
		v := make(Latents)
		for name, state := range x {
			flat := make([]float32, state.Size())
			for i := range flat {
				flat[i] = []float32{1, 10, 100}[branch]
			}
			v[name] = vector(flat...)
		}
		return v, ctx.Err()
	}
}

func newTestSampler(t *testing.T) *Sampler {
	s := NewSampler(fixture.Backend(t))
	t.Cleanup(s.Close)
	return s
}

func TestNewScheduleBendsTime(t *testing.T) {
	s, err := NewSchedule(4, 3, false)
	require.NoError(t, err)
	assert.InDeltaSlice(t, []float64{0, .1, .25, .5, 1}, s.Times, 1e-15)
	s, err = NewSchedule(4, 0, true)
	require.NoError(t, err)
	assert.Equal(t, []float64{1, .75, .5, .25, 0}, s.Times)
	for _, steps := range []int{1, 25, maxSteps} {
		s, err = NewSchedule(steps, 3, false)
		require.NoError(t, err)
		assert.Equal(t, 0.0, s.Times[0])
		assert.Equal(t, 1.0, s.Times[steps])
		assert.IsIncreasing(t, s.Times)
	}
}

func TestNewScheduleRejects(t *testing.T) {
	for _, bad := range []struct {
		steps   int
		rescale float64
	}{{0, 1}, {-1, 1}, {maxSteps + 1, 1}, {4, -1}, {4, math.NaN()}, {4, math.Inf(1)}} {
		_, err := NewSchedule(bad.steps, bad.rescale, false)
		assert.ErrorIs(t, err, ErrInput, "%+v", bad)
	}
}

func TestRunCombinesBranches(t *testing.T) {
	var calls []call
	noise := Latents{"a": vector(0, 5)}
	out, err := newTestSampler(t).Run(t.Context(), toy(&calls), noise, Sampling{
		Steps: 2, Guidance: Guidance{Weight: Weight{Strength: 2, From: 0, To: 499}},
	})
	require.NoError(t, err)
	// Guided at t=0: 3*1 - 2*100 = -197; alone at t=500: 1.
	assert.InDeltaSlice(t, []float32{-98, -93}, values(t, out["a"]), 1e-4)
	assert.Equal(t, []call{{0, 0, Conditional}, {0, 0, Unconditional}, {500, 0, Conditional}}, calls)
	assert.Equal(t, []float32{0, 5}, values(t, noise["a"]), "the noise stays the caller's")
	out.Free()
}

func TestRunWeightsLatentsApart(t *testing.T) {
	var calls []call
	out, err := newTestSampler(t).Run(t.Context(), toy(&calls), Latents{"a": vector(0), "b": vector(0)}, Sampling{
		Steps: 1, Step: StepUniform,
		Guidance: Guidance{Weight: Weight{Strength: 1, To: 1000}, PerLatent: map[string]Weight{"b": {Strength: 7, From: 1, To: 2}}},
	})
	require.NoError(t, err)
	assert.Equal(t, []float32{-98}, values(t, out["a"]))
	assert.Equal(t, []float32{1}, values(t, out["b"]), "outside its own interval")
	assert.Equal(t, []call{{0, 1000, Conditional}, {0, 1000, Unconditional}}, calls)
}

func TestRunPointMapGuidance(t *testing.T) {
	var calls []call
	out, err := newTestSampler(t).Run(t.Context(), toy(&calls), Latents{"a": vector(0)}, Sampling{
		Steps: 1, Step: StepAbsent,
		Guidance: Guidance{Weight: Weight{Strength: 3, To: 500}, PointMap: true, PointMapStrength: 2},
	})
	require.NoError(t, err)
	assert.Equal(t, []float32{1 + 2*(1-10) + 3*(10-100)}, values(t, out["a"]))
	assert.Equal(t, []call{{0, -1, Conditional}, {0, -1, NoPointMap}, {0, -1, Unconditional}}, calls)
}

func TestRunNegativeStrengthIsNone(t *testing.T) {
	var calls []call
	_, err := newTestSampler(t).Run(t.Context(), toy(&calls), Latents{"a": vector(0)}, Sampling{
		Steps: 3, Guidance: Guidance{Weight: Weight{Strength: -1, To: 1000}},
	})
	require.NoError(t, err)
	assert.Len(t, calls, 3)
}

func TestRunReportsProgress(t *testing.T) {
	var calls []call
	var progress []int
	_, err := newTestSampler(t).Run(t.Context(), toy(&calls), Latents{"a": vector(0)}, Sampling{
		Steps: 3, Progress: func(step, of int) { progress = append(progress, 10*step+of) },
	})
	require.NoError(t, err)
	assert.Equal(t, []int{13, 23, 33}, progress)
}

func TestRunStopsWhenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var calls []call
	_, err := newTestSampler(t).Run(ctx, toy(&calls), Latents{"a": vector(0)}, Sampling{
		Steps: 5, Progress: func(int, int) { cancel() },
	})
	require.ErrorIs(t, err, context.Canceled)
	assert.Len(t, calls, 1)
}

func TestRunRejects(t *testing.T) {
	x := Latents{"a": vector(0)}
	nan := math.NaN()
	for name, test := range map[string]struct {
		noise Latents
		opt   Sampling
	}{
		"no latents":      {Latents{}, Sampling{Steps: 1}},
		"nil latent":      {Latents{"a": nil}, Sampling{Steps: 1}},
		"float64 latent":  {Latents{"a": tensors.FromValue([]float64{1})}, Sampling{Steps: 1}},
		"no steps":        {x, Sampling{}},
		"bad step input":  {x, Sampling{Steps: 1, Step: 9}},
		"bad solver":      {x, Sampling{Steps: 1, Solver: 9}},
		"NaN strength":    {x, Sampling{Steps: 1, Guidance: Guidance{Weight: Weight{Strength: nan}}}},
		"NaN interval":    {x, Sampling{Steps: 1, Guidance: Guidance{Weight: Weight{To: nan}}}},
		"NaN point map":   {x, Sampling{Steps: 1, Guidance: Guidance{PointMapStrength: nan}}},
		"unknown latent":  {x, Sampling{Steps: 1, Guidance: Guidance{PerLatent: map[string]Weight{"b": {}}}}},
		"NaN in a latent": {x, Sampling{Steps: 1, Guidance: Guidance{PerLatent: map[string]Weight{"a": {Strength: nan}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			var calls []call
			_, err := newTestSampler(t).Run(t.Context(), toy(&calls), test.noise, test.opt)
			assert.ErrorIs(t, err, ErrInput)
			assert.Empty(t, calls)
		})
	}
}

func TestNoiseIsNormalAndRepeats(t *testing.T) {
	a, b, other := make([]float32, 100_001), make([]float32, 100_001), make([]float32, 100_001)
	NewNoise(7, StructureStage).Fill(a)
	stream := NewNoise(7, StructureStage)
	stream.Fill(b[:3])
	stream.Fill(b[3:])
	NewNoise(7, LatentStage).Fill(other)
	assert.Equal(t, a, b, "independent of how it is split")
	assert.NotEqual(t, a[:8], other[:8], "stages have their own streams")
	var sum, squares, fourth, cross float64
	for i, v := range a {
		sum, squares, fourth = sum+float64(v), squares+float64(v*v), fourth+float64(v*v*v*v)
		cross += float64(v * other[i])
	}
	n := float64(len(a))
	assert.InDelta(t, 0, sum/n, 0.015)
	assert.InDelta(t, 1, squares/n, 0.02)
	assert.InDelta(t, 3, fourth/n, 0.15)
	assert.InDelta(t, 0, cross/n, 0.015)
}

// checkSchedules checks the tables of schedules, whose outputs are named out/<table>/steps<N>_r<rescale>.
func checkSchedules(t *testing.T, c *fixture.Case) {
	var config struct {
		Interval [2]float64 `json:"interval"`
		Reversed bool       `json:"reversed_timestamp"`
	}
	c.Decode(t, &config)
	guidance := Guidance{Weight: Weight{Strength: 1, From: config.Interval[0], To: config.Interval[1]}}
	for _, output := range c.Outputs() {
		parts := strings.Split(output, "/")
		require.Len(t, parts, 3, output)
		var steps int
		var rescale float64
		_, err := fmt.Sscanf(parts[2], "steps%d_r%g", &steps, &rescale)
		require.NoError(t, err, output)
		s, err := NewSchedule(steps, rescale, config.Reversed)
		require.NoError(t, err)
		var got []float64
		for i := range steps {
			switch parts[1] {
			case "t_seq":
				got = append(got, s.Times[i])
			case "dt":
				got = append(got, s.Times[i+1]-s.Times[i])
			case "model_t":
				got = append(got, float64(ModelTime(s.Times[i])))
			case "guided":
				_, active := guidance.strengths([]string{"x"}, ModelTime(s.Times[i]))
				got = append(got, map[bool]float64{true: 1}[active])
			default:
				t.Fatalf("unknown table %s", output)
			}
		}
		if parts[1] == "t_seq" {
			got = append(got, s.Times[steps])
		}
		c.Check(t, output, got)
	}
}
