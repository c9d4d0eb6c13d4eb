// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"fmt"
	"math"
)

// sample is a point of the map with the place in the picture where it is seen.
type sample struct{ x, y, z, u, v float64 }

// fit is a least squares problem with one unknown, the shift t: residuals f (x, y)/(z+t) - (u, v) of all samples, where
// f is known or else the best one for each t.
type fit struct {
	samples []sample
	known   float64 // focal length, or 0
}

// residual returns the length of the residual vector at shift t and the focal length there.
func (p *fit) residual(t float64) (norm, focal float64) {
	focal = p.known
	if focal == 0 {
		var along, square float64
		for _, s := range p.samples {
			w := 1 / (s.z + t)
			px, py := s.x*w, s.y*w
			along += px*s.u + py*s.v
			square += px*px + py*py
		}
		focal = along / square
	}
	var sum float64
	for _, s := range p.samples {
		w := focal / (s.z + t)
		ru, rv := s.x*w-s.u, s.y*w-s.v
		sum += ru*ru + rv*rv
	}
	return math.Sqrt(sum), focal
}

// slope returns the length of the derivative of the residual vector by t, and the component of the residuals along it.
func (p *fit) slope(t, focal float64) (length, along float64) {
	turn := 0.0 // derivative of the focal length
	if p.known == 0 {
		var pe, pp, qe, pq float64
		for _, s := range p.samples {
			w := 1 / (s.z + t)
			px, py := s.x*w, s.y*w
			qx, qy := -px*w, -py*w
			pe += px*s.u + py*s.v
			pp += px*px + py*py
			qe += qx*s.u + qy*s.v
			pq += px*qx + py*qy
		}
		turn = (qe*pp - 2*pe*pq) / (pp * pp)
	}
	var jj, jr float64
	for _, s := range p.samples {
		w := 1 / (s.z + t)
		px, py := s.x*w, s.y*w
		k := turn - focal*w // J = turn p + focal q, and q = -p w
		jx, jy := k*px, k*py
		jj += jx*jx + jy*jy
		jr += jx*(focal*px-s.u) + jy*(focal*py-s.v)
	}
	if jj == 0 {
		return 0, 0
	}
	length = math.Sqrt(jj)
	return length, jr / length
}

// heldSlope returns the length of the derivative of the residual vector by t with the focal length held.
func (p *fit) heldSlope(t, focal float64) float64 {
	var sum float64
	for _, s := range p.samples {
		w := 1 / (s.z + t)
		sum += square(focal*w*w) * (s.x*s.x + s.y*s.y)
	}
	return math.Sqrt(sum)
}

// flatSlope is the part of heldSlope below which the slope is nothing but rounding: all depths are equal, and any shift,
// with its own focal length, fits as well as any other. The originals may go anywhere then.
const flatSlope = 1e-9

// The constants of the original's call of MINPACK.
const (
	costTolerance = 1e-3
	stepTolerance = 1e-8
	gradTolerance = 1e-8
	firstRadius   = 100.0
	maxResiduals  = 100
	epsilon       = 0x1p-52
	tiny          = 0x1p-1022
)

// Why the solver stopped, with MINPACK's numbers.
const (
	running       = 0
	costStalled   = 1
	stepStalled   = 2
	bothStalled   = 3
	gradVanished  = 4
	tooMany       = 5
	costExhausted = 6
	stepExhausted = 7
	gradExhausted = 8
)

// search is the state of the Levenberg-Marquardt iteration.
type search struct {
	shift, focal float64 // the last accepted
	norm         float64 // of the residuals there
	scale        float64 // greatest slope so far
	radius       float64 // of trust, in scaled units
	reach        float64 // scale*|shift| when shift was accepted
	damping      float64
	accepted     int
	residuals    int // evaluations
	stop         int
}

// minimise is the Levenberg-Marquardt method of MINPACK (Moré 1978; lmdif, lmpar) for one unknown, with the scale rule
// of its present-day translation. It is followed step by step since it stops long before the minimum is reached, at a
// point that the network's users have come to know as the answer. The derivative is the analytic one.
func (p *fit) minimise() (search, error) {
	s := search{radius: firstRadius, residuals: 1}
	s.norm, s.focal = p.residual(0)
	if math.IsNaN(s.norm) || math.IsInf(s.norm, 0) {
		return s, fmt.Errorf("%w: residual %g at the start", ErrCamera, s.norm)
	}
	for s.stop == running {
		length, along := p.slope(s.shift, s.focal)
		if s.norm == 0 || length <= flatSlope*p.heldSlope(s.shift, s.focal) || math.Abs(along)/s.norm <= gradTolerance {
			s.stop = gradVanished
			break
		}
		s.scale = max(s.scale, length)
		for before := s.accepted; s.accepted == before && s.stop == running; {
			s.try(p, length, along)
		}
	}
	return s, nil
}

// try evaluates one step from the present shift, takes it if the cost falls, and adapts the radius of trust.
func (s *search) try(p *fit, length, along float64) {
	step := s.step(length, along)
	scaled := s.scale * math.Abs(step)
	if s.accepted == 0 {
		s.radius = min(s.radius, scaled)
	}
	trial := s.shift - step
	norm, focal := p.residual(trial)
	s.residuals++
	if math.IsNaN(norm) {
		norm = math.Inf(1) // a depth of exactly zero: as bad as can be
	}
	actual := -1.0
	if 0.1*norm < s.norm {
		actual = 1 - (norm/s.norm)*(norm/s.norm)
	}
	linear := square(length * step / s.norm)
	damped := s.damping * square(scaled/s.norm)
	predicted := linear + 2*damped
	ratio := 0.0
	if predicted != 0 {
		ratio = actual / predicted
	}
	s.adapt(norm, actual, linear+damped, scaled, ratio)
	if ratio >= 1e-4 {
		s.shift, s.focal, s.norm = trial, focal, norm
		s.reach = s.scale * math.Abs(trial)
		s.accepted++
	}
	s.stop = s.verdict(actual, predicted, ratio, math.Abs(along))
}

// adapt changes the radius and the damping after a step of the given scaled length. fall is minus the directional
// derivative of half the cost, relative to the cost.
func (s *search) adapt(norm, actual, fall, scaled, ratio float64) {
	switch {
	case ratio <= 0.25:
		shrink := 0.5
		if actual < 0 {
			shrink = 0.5 * fall / (fall - 0.5*actual)
		}
		if 0.1*norm >= s.norm || shrink < 0.1 {
			shrink = 0.1
		}
		s.radius = shrink * min(s.radius, 10*scaled)
		s.damping /= shrink
	case s.damping == 0 || ratio >= 0.75:
		s.radius = 2 * scaled
		s.damping *= 0.5
	}
}

// verdict tells whether to stop, and why.
func (s *search) verdict(actual, predicted, ratio, gradient float64) int {
	actual = math.Abs(actual)
	stop := running
	if actual <= costTolerance && predicted <= costTolerance && ratio <= 2 {
		stop = costStalled
	}
	if s.radius <= stepTolerance*s.reach {
		stop += stepStalled
	}
	switch {
	case stop != running:
		return stop
	case gradient <= epsilon*s.norm:
		return gradExhausted
	case s.radius <= epsilon*s.reach:
		return stepExhausted
	case actual <= epsilon && predicted <= epsilon && ratio <= 2:
		return costExhausted
	case s.residuals >= maxResiduals:
		return tooMany
	}
	return running
}

// step returns the damped step whose scaled length is the radius, to a tenth, or the undamped one if that is shorter.
// It updates the damping, from which the next search starts.
func (s *search) step(length, along float64) float64 {
	step := along / length
	scaled := s.scale * math.Abs(step)
	over := scaled - s.radius
	if over <= 0.1*s.radius {
		s.damping = 0
		return step
	}
	gradient := length * math.Abs(along) / s.scale
	low := over / s.radius * square(length/s.scale)
	high := gradient / s.radius
	if high == 0 {
		high = tiny / min(s.radius, 0.1)
	}
	s.damping = min(max(s.damping, low), high)
	if s.damping == 0 {
		s.damping = gradient / scaled
	}
	for round := 1; ; round++ {
		if s.damping == 0 {
			s.damping = max(tiny, 1e-3*high)
		}
		curvature := square(length) + s.damping*square(s.scale)
		step = length * along / curvature
		before := over
		over = s.scale*math.Abs(step) - s.radius
		if math.Abs(over) <= 0.1*s.radius || low == 0 && over <= before && before < 0 || round == 10 {
			return step
		}
		if over > 0 {
			low = max(low, s.damping)
		} else if over < 0 {
			high = min(high, s.damping)
		}
		s.damping = max(low, s.damping+over/s.radius*curvature/square(s.scale))
	}
}

func square(x float64) float64 { return x * x }
