// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package splat

import (
	"fmt"
	"math"
)

// Raw holds the attributes of N splats as a Gaussian decoder emits them, before their activations.
type Raw struct {
	XYZ      []float32 // [N, 3] positions in units of the box of the Activation
	SH       []float32 // [N, 3] degree-0 coefficients
	Scaling  []float32 // [N, 3]
	Rotation []float32 // [N, 4] w, x, y, z, added to the identity
	Opacity  []float32 // [N]
}

// Activation says how raw attributes become Gaussians (representations/gaussian/gaussian_model.py of SAM 3D Objects).
type Activation struct {
	BoxMin  [3]float32 // the point of raw position 0; released: -0.5
	BoxSize [3]float32 // the extent of one raw unit; released: 1

	// Kernel is the standard deviation of the 3-D low-pass filter, added in quadrature to the scales; released: 0.0009.
	Kernel float64
	// ScaleBias is the scale, before the filter, of a raw value of 0; released: 0.004.
	ScaleBias float64
	// OpacityBias is the opacity of a raw value of 0; released: 0.1.
	OpacityBias float64
	// Exp makes exp the activation of scales; otherwise it is softplus, as released.
	Exp bool
}

// DefaultActivation returns the activation of the released decoders.
func DefaultActivation() Activation {
	return Activation{
		BoxMin: [3]float32{-0.5, -0.5, -0.5}, BoxSize: [3]float32{1, 1, 1},
		Kernel: 0.0009, ScaleBias: 0.004, OpacityBias: 0.1,
	}
}

// Validate reports values for which there is no finite bias or box.
func (a Activation) Validate() error {
	for k := range a.BoxMin {
		if !finite(a.BoxMin[k]) || !finite(a.BoxSize[k]) || a.BoxSize[k] <= 0 {
			return fmt.Errorf("splat: box from %v of size %v", a.BoxMin, a.BoxSize)
		}
	}
	switch {
	case !(a.Kernel >= 0 && a.Kernel < 1e6):
		return fmt.Errorf("splat: kernel %v, want 0 or more", a.Kernel)
	case !(a.ScaleBias > 0 && a.ScaleBias < 1e6) || !finite(a.scaleShift()):
		return fmt.Errorf("splat: scale bias %v, want more than 0", a.ScaleBias)
	case !(a.OpacityBias > 0 && a.OpacityBias < 1) || !finite(a.opacityShift()):
		return fmt.Errorf("splat: opacity bias %v, want one between 0 and 1", a.OpacityBias)
	}
	return nil
}

// scaleShift returns the inverse activation of ScaleBias, which is added to raw scales.
func (a Activation) scaleShift() float32 {
	bias := float64(float32(a.ScaleBias))
	if a.Exp {
		return float32(math.Log(bias))
	}
	return float32(bias + math.Log(-math.Expm1(-bias)))
}

// opacityShift returns the logit of OpacityBias, which is added to raw opacities.
func (a Activation) opacityShift() float32 {
	bias := float32(a.OpacityBias)
	return log32(bias / (1 - bias))
}

// Decode returns the Gaussians of raw attributes.
//
// Every step is rounded to float32 in the order of the original, so that a file written from the result holds the
// columns that the original writes. Opacities are the exception: the original takes the logit of a rounded opacity,
// which loses digits near 1, and here it is the raw value plus its bias. Where the rounded opacity is 0 or 1 the logit
// is infinite, as there. The error wraps ErrInvalid if lengths disagree or a value is not finite.
func (a Activation) Decode(raw Raw) (*Gaussians, error) {
	if err := a.Validate(); err != nil {
		return nil, err
	}
	n := len(raw.Opacity)
	if len(raw.XYZ) != 3*n || len(raw.SH) != 3*n || len(raw.Scaling) != 3*n || len(raw.Rotation) != 4*n {
		return nil, fmt.Errorf("%w: %d raw positions, %d colours, %d scales, %d rotations and %d opacities, "+
			"want 3, 3, 3, 4 and 1 for each splat",
			ErrInvalid, len(raw.XYZ), len(raw.SH), len(raw.Scaling), len(raw.Rotation), n)
	}
	g := newGaussians(n)
	g.Kernel = a.Kernel
	inParallel(n, func(start, end int) { a.decode(g, raw, start, end) })
	if at := firstOutside(raw.Opacity, -maxFloat, maxFloat); at >= 0 {
		// The activated value of an infinity would be a valid one.
		return nil, fmt.Errorf("%w: raw opacity of splat %d is %v", ErrInvalid, at, raw.Opacity[at])
	}
	if at := firstOutside(raw.Scaling, -maxFloat, maxFloat); at >= 0 {
		return nil, fmt.Errorf("%w: raw scale of splat %d is %v", ErrInvalid, at/3, raw.Scaling[at])
	}
	if err := g.Validate(); err != nil {
		return nil, err
	}
	return g, nil
}

// decode fills the splats start to end of g.
func (a Activation) decode(g *Gaussians, raw Raw, start, end int) {
	scaleShift, opacityShift, kernel2 := a.scaleShift(), a.opacityShift(), float32(a.Kernel*a.Kernel)
	copy(g.SH[3*start:3*end], raw.SH[3*start:3*end])
	for i := start; i < end; i++ {
		for k := range 3 {
			at := 3*i + k
			g.Means[at] = float32(raw.XYZ[at]*a.BoxSize[k]) + a.BoxMin[k]
			scale := a.activate(raw.Scaling[at] + scaleShift)
			filtered := float32(scale*scale) + kernel2
			g.LogScales[at] = log32(float32(math.Sqrt(float64(filtered))))
		}
		copy(g.Rotations[4*i:], raw.Rotation[4*i:4*i+4])
		g.Rotations[4*i]++
		g.OpacityLogits[i] = saturate(raw.Opacity[i] + opacityShift)
	}
}

// activate is the activation of a scale.
func (a Activation) activate(x float32) float32 {
	switch {
	case a.Exp:
		return exp32(x)
	case x > 20: // where PyTorch's softplus becomes the identity
		return x
	}
	return float32(math.Log1p(math.Exp(float64(x))))
}

func log32(x float32) float32 { return float32(math.Log(float64(x))) }

// saturate returns x, or the infinity of its sign if the float32 sigmoid of x is 0 or 1.
func saturate(x float32) float32 {
	switch sigmoid32(x) {
	case 0:
		return float32(math.Inf(-1))
	case 1:
		return float32(math.Inf(1))
	}
	return x
}
