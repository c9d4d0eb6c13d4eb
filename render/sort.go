// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package render

// sortKeys sorts keys by their upper 32 bits, the highest of which is zero, and leaves equal ones in their order. swap
// has the same length. The result is one of both slices.
func sortKeys(keys, swap []uint64) []uint64 {
	const bits = 11
	var counts [3][1 << bits]int
	for _, key := range keys {
		for digit := range counts {
			counts[digit][key>>(32+bits*digit)&(1<<bits-1)]++
		}
	}
	for digit := range counts {
		sum, shift := 0, 32+bits*digit
		for i, n := range counts[digit] {
			if n == len(keys) && n > 0 {
				sum = -1 // all keys have the same digit
				break
			}
			counts[digit][i] = sum
			sum += n
		}
		if sum < 0 {
			continue
		}
		for _, key := range keys {
			place := &counts[digit][key>>shift&(1<<bits-1)]
			swap[*place] = key
			*place++
		}
		keys, swap = swap, keys
	}
	return keys
}
