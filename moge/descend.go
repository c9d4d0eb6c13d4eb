// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"fmt"
	"math"
)

// The constants of the solver of the MLX port.
const (
	firstDamping = 1e-3
	dampingFall  = 3
	dampingRise  = 5
	maxTrials    = 100 // the original tries 30 times; no map of ours took more than 20
)

// descend is the solver that comes with MoGe-3 (mlx_vlm/models/moge3): Gauss-Newton steps, damped until the cost falls.
// In float32, as there, the last step is left to rounding; here all is float64.
func (p *fit) descend() (search, error) {
	s := search{damping: firstDamping, residuals: 1}
	s.norm, s.focal = p.residual(0)
	if math.IsNaN(s.norm) || math.IsInf(s.norm, 0) {
		return s, fmt.Errorf("%w: residual %g at the start", ErrCamera, s.norm)
	}
	length, along := p.slope(0, s.focal)
	for s.stop == running {
		switch {
		case s.norm == 0 || length <= flatSlope*p.heldSlope(s.shift, s.focal):
			s.stop = gradVanished
			continue
		case s.residuals > maxTrials:
			s.stop = tooMany
			continue
		}
		step := -along / (length * (1 + s.damping))
		trial := s.shift + step
		norm, focal := p.residual(trial)
		s.residuals++
		fall := square(s.norm) - square(norm)
		accepted := fall > 0 // not so for NaN
		if accepted {
			s.shift, s.norm, s.focal = trial, norm, focal
			s.accepted++
			s.damping /= dampingFall
			length, along = p.slope(trial, focal)
		} else {
			s.damping *= dampingRise
		}
		switch {
		case accepted && fall <= costTolerance*square(norm):
			s.stop = costStalled
		case math.Abs(step) < stepTolerance*max(math.Abs(s.shift), 1):
			s.stop = stepStalled
		}
	}
	return s, nil
}
