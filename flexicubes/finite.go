// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flexicubes

import (
	"context"
	"math"
)

// firstBad returns the position of the first value that is NaN, infinite or at least 2^100 in magnitude, or -1.
// Below that bound no sum or product of the extraction overflows.
func firstBad(values []float32) int {
	if !anyBad(values) {
		return -1
	}
	for i, v := range values {
		if isBad(v) != 0 {
			return i
		}
	}
	return -1
}

// isBad has its top bit set if a value is bad: the exponent field then reaches 127+100, and adding what is missing from
// there to 256 carries into the sign bit.
func isBad(v float32) uint32 {
	return (math.Float32bits(v)&^(1<<31) + (256-227)<<23) & (1 << 31)
}

// anyBad is firstBad without the position. Four values at a time keep up with memory.
func anyBad(values []float32) bool {
	var a, b, c, d uint32
	for len(values) >= 4 {
		v := values[:4:4]
		a |= isBad(v[0])
		b |= isBad(v[1])
		c |= isBad(v[2])
		d |= isBad(v[3])
		values = values[4:]
	}
	for _, v := range values {
		a |= isBad(v)
	}
	return a|b|c|d != 0
}

// searchBad is firstBad for large slices.
func searchBad(ctx context.Context, values []float32) (int, error) {
	const chunk = 1 << 17
	bad := make([]int, (len(values)+chunk-1)/chunk)
	err := parallel(ctx, len(bad), func(k int) {
		bad[k] = firstBad(values[k*chunk : min(len(values), (k+1)*chunk)])
	})
	for k, i := range bad {
		if i >= 0 {
			return i + k*chunk, err
		}
	}
	return -1, err
}
