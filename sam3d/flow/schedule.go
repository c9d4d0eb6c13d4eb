// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flow

import (
	"fmt"
	"math"
)

// timeScale turns a time in [0, 1] into what the networks were trained on.
const timeScale = 1000

// Schedule is the time grid of a Sampler.
type Schedule struct {
	Times []float64 // steps+1 values from 0 to 1, or from 1 to 0
}

// NewSchedule divides [0, 1] evenly into steps and bends the grid: u becomes u / (1 + (rescale-1)(1-u)), so that
// rescale > 1 makes the steps near the noise small. A rescale of 0 or 1 leaves it even. Reversed grids run from 1 to 0.
func NewSchedule(steps int, rescale float64, reversed bool) (Schedule, error) {
	if steps < 1 || steps > maxSteps {
		return Schedule{}, fmt.Errorf("%w: %d sampling steps, must be 1 to %d", ErrInput, steps, maxSteps)
	}
	if rescale == 0 {
		rescale = 1
	}
	if !(rescale > 0) || math.IsInf(rescale, 0) {
		return Schedule{}, fmt.Errorf("%w: time rescale %g, must be positive", ErrInput, rescale)
	}
	times := make([]float64, steps+1)
	for i := range times {
		u := float64(i) / float64(steps)
		times[i] = u / (1 + (rescale-1)*(1-u))
		if reversed {
			times[i] = 1 - times[i]
		}
	}
	return Schedule{Times: times}, nil
}

// ModelTime is a time of the schedule as the networks take it, in thousandths.
func ModelTime(t float64) float32 { return float32(t * timeScale) }
