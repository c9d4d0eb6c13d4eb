// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package input

import (
	"fmt"
	"math"
	"sync"

	"github.com/gomlx3d/image3d/internal/imageio"
)

// measure returns the scale and the shift of a point map: a point p is normalised to (p - shift)/scale. The shift is
// the median of the object's points, coordinate by coordinate; the scale is the median over the whole map of the
// largest coordinate of |p - shift| (ObjectCentricSSI with use_scene_scale). object lists the object's pixels.
//
// A map without finite coordinates below the mask has scale 1 and shift 0, as in the original; see checkMeasure.
func measure(m PointMap, object []int32) (scale float32, shift [3]float32, found bool) {
	for _, i := range object {
		p := m.Points[3*int(i):][:3]
		if found = finite(p[0]) || finite(p[1]) || finite(p[2]); found {
			break
		}
	}
	if !found {
		return 1, shift, false
	}
	for c := range shift {
		shift[c] = lowerMedian(len(object), func(i int) float32 { return m.Points[3*int(object[i])+c] })
	}
	scale = lowerMedian(m.Width*m.Height, func(i int) float32 {
		p := m.Points[3*i : 3*i+3 : 3*i+3]
		x, y, z := abs(p[0]-shift[0]), abs(p[1]-shift[1]), abs(p[2]-shift[2])
		return max(x, y, z) // NaN if one of them is
	})
	return scale, shift, true
}

func abs(v float32) float32 { return math.Float32frombits(math.Float32bits(v) &^ (1 << 31)) }

// checkMeasure refuses what would fill the conditions with invalid points.
func checkMeasure(scale float32, shift [3]float32, found bool) error {
	if !found || !finite(shift[0]) || !finite(shift[1]) || !finite(shift[2]) {
		return ErrNoPoints
	}
	if inverse := 1 / scale; !finite(scale) || !finite(inverse) {
		return fmt.Errorf("%w: its scale is %g", ErrFlatPoints, scale)
	}
	return nil
}

// normalised returns a copy of the map under scale and shift. A pixel with a coordinate that is not finite afterwards
// becomes NaN in all three.
func (m PointMap) normalised(scale float32, shift [3]float32) PointMap {
	out := PointMap{Width: m.Width, Height: m.Height, Points: make([]float32, len(m.Points))}
	n := newNormaliser(scale, shift)
	imageio.ForRows(m.Width*m.Height, pixelsPerTask, func(lo, hi int) {
		for i := 3 * lo; i < 3*hi; i += 3 {
			p := n.apply(m.Points[i], m.Points[i+1], m.Points[i+2])
			copy(out.Points[i:i+3], p[:])
		}
	})
	return out
}

// normaliser maps a point p to p*factor + offset.
type normaliser struct {
	factor float32
	offset [3]float32
}

func newNormaliser(scale float32, shift [3]float32) normaliser {
	n := normaliser{factor: 1 / scale}
	for c, v := range shift {
		n.offset[c] = -v * n.factor
	}
	return n
}

func (n normaliser) apply(x, y, z float32) [3]float32 {
	p := [3]float32{x*n.factor + n.offset[0], y*n.factor + n.offset[1], z*n.factor + n.offset[2]}
	if !finite(p[0]) || !finite(p[1]) || !finite(p[2]) {
		return [3]float32{nan, nan, nan}
	}
	return p
}

// lowerMedian returns the median of n values, the lower of the two middle ones for an even number. NaN values do not
// count; infinities do. Without any value it is NaN. at is called several times for each i, from several goroutines.
//
// Values are not sorted or stored: two rounds count how often each upper and then each lower half of the bits occurs.
func lowerMedian(n int, at func(i int) float32) float32 {
	upper, total := countHalves(n, func(i int) (uint32, bool) {
		key, ok := sortable(at(i))
		return key >> 16, ok
	})
	if total == 0 {
		return nan
	}
	high, rest := pick(upper, (total-1)/2)
	lower, _ := countHalves(n, func(i int) (uint32, bool) {
		key, ok := sortable(at(i))
		return key & 0xffff, ok && key>>16 == high
	})
	low, _ := pick(lower, rest)
	return fromSortable(high<<16 | low)
}

// sortable maps values other than NaN to integers of the same order.
func sortable(v float32) (key uint32, ok bool) {
	if v != v {
		return 0, false
	}
	bits := math.Float32bits(v + 0) // -0 becomes 0
	if bits>>31 != 0 {
		return ^bits, true
	}
	return bits | 1<<31, true
}

func fromSortable(key uint32) float32 {
	if key>>31 != 0 {
		return math.Float32frombits(key &^ (1 << 31))
	}
	return math.Float32frombits(^key)
}

// countHalves counts the 16-bit values of those 0 <= i < n that value accepts.
func countHalves(n int, value func(i int) (uint32, bool)) (counts []int, total int) {
	counts = make([]int, 1<<16)
	var mu sync.Mutex
	imageio.ForRows(n, max(n/8, pixelsPerTask), func(lo, hi int) {
		own := counts
		if lo > 0 || hi < n {
			own = make([]int, 1<<16)
		}
		for i := lo; i < hi; i++ {
			if v, ok := value(i); ok {
				own[v]++
			}
		}
		if lo > 0 || hi < n {
			mu.Lock()
			defer mu.Unlock()
			for v, c := range own {
				counts[v] += c
			}
		}
	})
	for _, c := range counts {
		total += c
	}
	return counts, total
}

// pick returns the value at an ordinal of the counted ones, and the ordinal among those equal to it.
func pick(counts []int, ordinal int) (value uint32, rest int) {
	for v, c := range counts {
		if ordinal < c {
			return uint32(v), ordinal
		}
		ordinal -= c
	}
	return uint32(len(counts) - 1), 0 // not reached: there are more values than ordinal
}
