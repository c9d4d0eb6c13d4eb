// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flexicubes

import "context"

// limit is the magnitude from which on values are rejected. Far below it no sum or product of the extraction overflows.
const limit = 1 << 60

// firstBad returns the position of the first value that is NaN, infinite or not below limit in magnitude, or -1.
func firstBad(values []float32) int {
	if energy(values) < limit*limit { // false if it is NaN
		return -1
	}
	for i, v := range values {
		if !(v < limit && v > -limit) {
			return i
		}
	}
	return -1
}

// energy returns the sum of squares, which no bad value leaves below limit*limit, at the speed of reading memory.
func energy(values []float32) float32 {
	var a, b, c, d float32
	for ; len(values) >= 8; values = values[8:] {
		v := values[:8:8]
		a += v[0] * v[0]
		b += v[1] * v[1]
		c += v[2] * v[2]
		d += v[3] * v[3]
		a += v[4] * v[4]
		b += v[5] * v[5]
		c += v[6] * v[6]
		d += v[7] * v[7]
	}
	for _, v := range values {
		a += v * v
	}
	return a + b + c + d
}

// searchBad is firstBad for large slices.
func searchBad(ctx context.Context, values []float32) (int, error) {
	const chunk = 1 << 17
	bad := make([]int, (len(values)+chunk-1)/chunk)
	err := inParallel(ctx, len(bad), func(k int) {
		bad[k] = firstBad(values[k*chunk : min(len(values), (k+1)*chunk)])
	})
	if err != nil {
		return -1, err
	}
	for k, i := range bad {
		if i >= 0 {
			return i + k*chunk, nil
		}
	}
	return -1, nil
}
