// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flexicubes

import (
	"math"
	"testing"
)

func TestActivations(t *testing.T) {
	for bits := uint64(0); bits < 1<<32; bits += 65521 { // float32 values of all magnitudes
		x := math.Float32frombits(uint32(bits))
		if !(x < limit && x > -limit) {
			continue
		}
		if got, want := tanh(x), math.Tanh(float64(x)); math.Abs(float64(got)-want) > 3.1e-8 {
			t.Fatalf("tanh(%g) = %g, want %g", x, got, want)
		}
		if got, want := sigmoid(x), 1/(1+math.Exp(-float64(x))); math.Abs(float64(got)-want) > 3.1e-8 {
			t.Fatalf("sigmoid(%g) = %g, want %g", x, got, want)
		}
		if y := float64(x); math.Abs(y) < 700 {
			if got, want := exp(y), math.Exp(y); math.Abs(got/want-1) > 3e-11 {
				t.Fatalf("exp(%g) = %g, want %g", y, got, want)
			}
		}
	}
}
