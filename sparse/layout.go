// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sparse

import "math/bits"

// Layout says how many rows a device array has and how many of them, the first ones, are voxels.
type Layout struct {
	Rows  int // at least Count+1: see the package comment on padding
	Count int
}

// NewLayout returns the layout of count voxels.
func NewLayout(count int) Layout { return Layout{Rows: Bucket(count + 1), Count: count} }

// Subdivide returns the layout after Subdivide: every row, padding too, becomes eight.
func (l Layout) Subdivide() Layout { return Layout{Rows: 8 * l.Rows, Count: 8 * l.Count} }

// Bucket rounds n up to the next of the numbers (8 to 15) * 2^k. Numbers from 0 to 15 stay.
func Bucket(n int) int {
	n = max(n, 0)
	shift := max(bits.Len(uint(n))-4, 0)
	return (n + 1<<shift - 1) >> shift << shift
}
