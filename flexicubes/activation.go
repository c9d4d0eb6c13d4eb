// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flexicubes

import "math"

// The activations are evaluated millions of times, and to much better than float32 needs by a table of powers of two
// and a short polynomial. Their results are the same on every architecture, which those of math.Exp are not.

const (
	tableBits = 7
	tableSize = 1 << tableBits
)

// powers[i] is 2^(i/tableSize).
var powers = func() (p [tableSize]float64) {
	for i := range p {
		p[i] = math.Exp2(float64(i) / tableSize)
	}
	return p
}()

// exp returns e^x within a relative 3e-11. Arguments beyond +-700 are taken as those.
func exp(x float64) float64 {
	x = min(max(x, -700), 700)
	const rounder = 3 << 51 // adding it leaves no bits for a fraction
	t := float64(x*(tableSize/math.Ln2)) + rounder
	n := int64(math.Float64bits(t)) - int64(math.Float64bits(rounder))
	r := x - float64((t-rounder)*(math.Ln2/tableSize)) // at most ln2/256
	poly := 1 + float64(r*(1+float64(r*(0.5+float64(r*(1.0/6))))))
	scaled := math.Float64bits(powers[n&(tableSize-1)]) + uint64(n>>tableBits)<<52
	return math.Float64frombits(scaled) * poly
}

// sigmoid returns 1/(1+e^-x).
func sigmoid(x float32) float32 { return float32(1 / (1 + exp(-float64(x)))) }

// tanh returns the hyperbolic tangent within 1e-10, absolute, before it is rounded.
func tanh(x float32) float32 { return float32(1 - 2/(1+exp(2*float64(x)))) }
