// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import "slices"

const (
	filled = 10 // what the logits of a filled hole become; the negative of it in a removed speck
	// maxHole is the area of the largest hole that is filled, at side holeSide of a mask.
	maxHole  = 256
	holeSide = 288
)

// maxHoleAt returns the area of the largest hole that is filled in a mask of some side.
func maxHoleAt(side int) int { return maxHole * side * side / (holeSide * holeSide) }

// tidy fills small holes of a mask and removes small specks (postprocess_masks of the original's SAM2Transforms). Cells
// that touch at a corner belong together, inside and outside alike.
//
//	maxHole, maxSpeck areas in cells; at 0 nothing changes
func tidy(mask Logits, maxHole, maxSpeck int) Logits {
	out := Logits{mask.Width, mask.Height, slices.Clone(mask.Values)}
	outside := func(v float32) bool { return !(v > 0) }
	inside := func(v float32) bool { return v > 0 }
	for _, cells := range mask.parts(outside, maxHole) {
		for _, i := range cells {
			out.Values[i] = filled
		}
	}
	for _, cells := range mask.parts(inside, maxSpeck) {
		for _, i := range cells {
			out.Values[i] = -filled
		}
	}
	return out
}

// parts returns the connected parts, of at most some area, of the cells that belong.
func (l Logits) parts(belongs func(float32) bool, maxArea int) [][]int {
	if maxArea < 1 {
		return nil
	}
	var parts [][]int
	seen := make([]bool, len(l.Values))
	for start := range l.Values {
		if seen[start] || !belongs(l.Values[start]) {
			continue
		}
		seen[start] = true
		part := []int{start}
		for next := 0; next < len(part); next++ {
			x, y := part[next]%l.Width, part[next]/l.Width
			for ny := max(y-1, 0); ny <= min(y+1, l.Height-1); ny++ {
				for nx := max(x-1, 0); nx <= min(x+1, l.Width-1); nx++ {
					if i := ny*l.Width + nx; !seen[i] && belongs(l.Values[i]) {
						seen[i] = true
						part = append(part, i)
					}
				}
			}
		}
		if len(part) <= maxArea {
			parts = append(parts, part)
		}
	}
	return parts
}
