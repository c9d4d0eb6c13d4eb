// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package condition

import (
	"fmt"
	"math"
)

// Remap is a function applied to points before they are embedded ("PointRemapper" of the original). The released models
// use RemapLinear; the others bring a large range of distances nearer together.
type Remap string

// The remaps of a point (x, y, z).
const (
	RemapLinear       Remap = "linear"        // (x, y, z)
	RemapSinh         Remap = "sinh"          // (asinh x, asinh y, asinh z)
	RemapExp          Remap = "exp"           // (x/(1+z), y/(1+z), log(1+z))
	RemapExpDisparity Remap = "exp_disparity" // (x/z, y/z, log z)
	RemapSinhExp      Remap = "sinh_exp"      // (asinh x, asinh y, log max(z, 1e-8))
)

func (r Remap) validate() error {
	switch r {
	case RemapLinear, RemapSinh, RemapExp, RemapExpDisparity, RemapSinhExp:
		return nil
	}
	return fmt.Errorf("unknown remap %q", string(r))
}

// Apply returns the remapped point.
func (r Remap) Apply(p [3]float32) [3]float32 {
	if r == RemapLinear {
		return p
	}
	x, y, z := float64(p[0]), float64(p[1]), float64(p[2])
	switch r {
	case RemapSinh:
		x, y, z = math.Asinh(x), math.Asinh(y), math.Asinh(z)
	case RemapExp:
		x, y, z = x/(1+z), y/(1+z), math.Log1p(z)
	case RemapExpDisparity:
		x, y, z = x/z, y/z, math.Log(z)
	case RemapSinhExp:
		x, y, z = math.Asinh(x), math.Asinh(y), math.Log(max(z, 1e-8))
	}
	return [3]float32{float32(x), float32(y), float32(z)}
}

// Invert returns the point that Apply maps to p.
func (r Remap) Invert(p [3]float32) [3]float32 {
	if r == RemapLinear {
		return p
	}
	x, y, z := float64(p[0]), float64(p[1]), float64(p[2])
	switch r {
	case RemapSinh:
		x, y, z = math.Sinh(x), math.Sinh(y), math.Sinh(z)
	case RemapExp:
		z = math.Expm1(z)
		x, y = x*(1+z), y*(1+z)
	case RemapExpDisparity:
		z = math.Exp(z)
		x, y = x*z, y*z
	case RemapSinhExp:
		x, y, z = math.Sinh(x), math.Sinh(y), math.Exp(z)
	}
	return [3]float32{float32(x), float32(y), float32(z)}
}
