// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flow

import (
	"context"
	"fmt"
	"math"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gomlx3d/image3d/internal/nn"
)

// Weight is a guidance strength within an interval of time.
type Weight struct {
	Strength float64 // s in (1+s) v_conditional - s v_unconditional; 0 is no guidance
	From, To float64 // thousandths, both ends included
}

func (w Weight) at(t float32) float64 {
	if float64(t) < w.From || float64(t) > w.To {
		return 0
	}
	return w.Strength
}

// Guidance is classifier-free guidance: the velocity is pushed away from what the network predicts without condition.
// The zero Guidance is none. A step is guided if the strength of any latent is positive at its time; then
//
//	v = (1+s) v_conditional - s v_unconditional
//
// for each latent with its own s.
type Guidance struct {
	Weight                      // of every latent,
	PerLatent map[string]Weight // but for those named here

	// Zeros makes the unconditional pass one with every argument zero, the step size too ("zeros" of the original). By
	// default the step size is kept and a flag asks the network to drop its condition ("add_flag", as released).
	Zeros bool

	// PointMap adds a third pass, without the tokens of the point map ("PointmapCFG" of the original, not the released
	// class), and PointMapStrength p pushes away from it, where the Weight's interval allows:
	//
	//	v = v_conditional + p (v_conditional - v_no_point_map) + s (v_no_point_map - v_unconditional)
	PointMap         bool
	PointMapStrength float64
}

func (g Guidance) check(x Latents) error {
	valid := func(w Weight) bool {
		return !math.IsNaN(w.Strength) && !math.IsInf(w.Strength, 0) && !math.IsNaN(w.From) && !math.IsNaN(w.To)
	}
	if !valid(g.Weight) || !valid(Weight{Strength: g.PointMapStrength}) {
		return fmt.Errorf("%w: guidance %+v, point map %g: not numbers", ErrInput, g.Weight, g.PointMapStrength)
	}
	for name, w := range g.PerLatent {
		if _, ok := x[name]; !ok {
			return fmt.Errorf("%w: guidance of unknown latent %q, have %q", ErrInput, name, x.Names())
		}
		if !valid(w) {
			return fmt.Errorf("%w: guidance %+v of %q: not numbers", ErrInput, w, name)
		}
	}
	return nil
}

// strengths returns the strength of each latent at a time, and whether any is positive.
func (g Guidance) strengths(names []string, t float32) (s []float64, active bool) {
	s = make([]float64, len(names))
	for i, name := range names {
		w, own := g.PerLatent[name]
		if !own {
			w = g.Weight
		}
		s[i] = w.at(t)
		active = active || s[i] > 0
	}
	return s, active
}

// guided evaluates the velocity at x: once, or as often as guidance needs.
func (r run) guided(ctx context.Context, x Latents, t float32) (Latents, error) {
	names, times := x.Names(), []float32{t}
	strengths, active := r.guidance.strengths(names, t)
	conditional, err := r.velocity(ctx, x, times, r.d, Conditional)
	if err != nil || !active {
		return conditional, err
	}
	defer conditional.Free()
	if r.guidance.PointMap {
		return r.guidedPointMap(ctx, x, t, conditional, strengths)
	}
	unconditional, err := r.unconditional(ctx, x, times)
	if err != nil {
		return nil, err
	}
	defer unconditional.Free()
	plus, minus := make([]float32, len(names)), make([]float32, len(names))
	for i, s := range strengths {
		plus[i], minus[i] = float32(1+s), float32(s)
	}
	args := append(conditional.list(names), unconditional.list(names)...)
	out, err := r.sampler.combine.Call(nil, append(args, plus, minus)...)
	if err != nil {
		return nil, err
	}
	return named(names, out), nil
}

func (r run) unconditional(ctx context.Context, x Latents, t []float32) (Latents, error) {
	d := r.d
	if r.guidance.Zeros && d != nil {
		d = []float32{0}
	}
	return r.velocity(ctx, x, t, d, Unconditional)
}

// guidedPointMap makes the second and third pass of point-map guidance.
func (r run) guidedPointMap(ctx context.Context, x Latents, t float32, conditional Latents, strengths []float64) (Latents, error) {
	noPointMap, err := r.velocity(ctx, x, []float32{t}, r.d, NoPointMap)
	if err != nil {
		return nil, err
	}
	defer noPointMap.Free()
	unconditional, err := r.unconditional(ctx, x, []float32{t})
	if err != nil {
		return nil, err
	}
	defer unconditional.Free()
	names := x.Names()
	point, strength := make([]float32, len(names)), make([]float32, len(names))
	for i, name := range names {
		w, own := r.guidance.PerLatent[name]
		if !own {
			w = r.guidance.Weight
		}
		w.Strength = r.guidance.PointMapStrength
		point[i], strength[i] = float32(w.at(t)), float32(strengths[i])
	}
	args := append(append(conditional.list(names), noPointMap.list(names)...), unconditional.list(names)...)
	out, err := r.sampler.combine3.Call(nil, append(args, point, strength)...)
	if err != nil {
		return nil, err
	}
	return named(names, out), nil
}

// combineGraph is plus a - minus b for n latents. Inputs: n times a, n times b, then plus and minus [n].
func combineGraph(_ nn.Params, in []*Node) []*Node {
	n := len(in)/2 - 1
	out := make([]*Node, n)
	for i := range out {
		a, b := in[i], in[n+i]
		out[i] = Sub(Mul(a, scalarAt(in[2*n], i, a)), Mul(b, scalarAt(in[2*n+1], i, b)))
	}
	return out
}

// combine3Graph is a + p (a - b) + s (b - c) for n latents. Inputs: n times each of a, b and c, then p and s [n].
func combine3Graph(_ nn.Params, in []*Node) []*Node {
	n := (len(in) - 2) / 3
	out := make([]*Node, n)
	for i := range out {
		a, b, c := in[i], in[n+i], in[2*n+i]
		point := Mul(Sub(a, b), scalarAt(in[3*n], i, a))
		out[i] = Add(Add(a, point), Mul(Sub(b, c), scalarAt(in[3*n+1], i, a)))
	}
	return out
}

// scalarAt is element i of a vector, as a scalar in the dtype of like.
func scalarAt(vector *Node, i int, like *Node) *Node {
	return ConvertDType(Reshape(Slice(vector, AxisElem(i))), like.DType())
}
