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
		shift[c] = m.objectMedian(object, c)
	}
	scale = lowerMedian(m.Width*m.Height, func(lo int, into []float32) {
		points := m.Points[3*lo:]
		for i := range into {
			p := points[3*i : 3*i+3 : 3*i+3]
			// NaN if one of the three is.
			into[i] = max(abs(p[0]-shift[0]), abs(p[1]-shift[1]), abs(p[2]-shift[2]))
		}
	})
	return scale, shift, true
}

// objectMedian returns the median of one coordinate over the object's pixels.
func (m PointMap) objectMedian(object []int32, coordinate int) float32 {
	return lowerMedian(len(object), func(lo int, into []float32) {
		for i, pixel := range object[lo : lo+len(into)] {
			into[i] = m.Points[3*int(pixel)+coordinate]
		}
	})
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

// valueReader writes the values that start at index lo; it is called from several goroutines.
type valueReader func(lo int, into []float32)

// lowerMedian returns the median of n values, the lower of the two middle ones for an even number. NaN values do not
// count; infinities do. Without any value it is NaN.
//
// Values are not sorted or stored, but read twice: the first time the upper halves of their bits are counted, the
// second time the lower halves of those whose upper half is the median's.
func lowerMedian(n int, read valueReader) float32 {
	upper := countKeys(n, read, func(counts []uint32, keys []uint32) {
		for _, key := range keys {
			counts[key>>16]++
		}
	})
	total := 0
	for _, count := range upper {
		total += int(count)
	}
	if total == 0 {
		return nan
	}
	high, rest := pick(upper, (total-1)/2)
	lower := countKeys(n, read, func(counts []uint32, keys []uint32) {
		for _, key := range keys {
			if key>>16 == high {
				counts[key&0xffff]++
			}
		}
	})
	low, _ := pick(lower, rest)
	return fromSortable(high<<16 | low)
}

// countKeys lets count fill counters of 16-bit values from the sortable keys of all values that are not NaN.
func countKeys(n int, read valueReader, count func(counts []uint32, keys []uint32)) []uint32 {
	const block = 2048 // values that a worker reads at a time
	total := make([]uint32, 1<<16)
	var mu sync.Mutex
	imageio.ForRows(n, max(n/8, pixelsPerTask), func(lo, hi int) {
		counts := make([]uint32, 1<<16)
		var values [block]float32
		var keys [block]uint32
		for ; lo < hi; lo += block {
			read(lo, values[:min(block, hi-lo)])
			size := 0
			for _, v := range values[:min(block, hi-lo)] {
				if v == v {
					keys[size] = sortable(v)
					size++
				}
			}
			count(counts, keys[:size])
		}
		mu.Lock()
		defer mu.Unlock()
		for v, c := range counts {
			total[v] += c
		}
	})
	return total
}

// sortable maps values other than NaN to integers of the same order; the two zeros differ, which a median survives.
func sortable(v float32) uint32 {
	bits := math.Float32bits(v)
	return bits ^ (uint32(int32(bits)>>31) | 1<<31) // all bits of negative values, the sign of others
}

func fromSortable(key uint32) float32 {
	return math.Float32frombits(key ^ (^uint32(int32(key)>>31) | 1<<31))
}

// pick returns the value at an ordinal of the counted ones, and the ordinal among those equal to it.
func pick(counts []uint32, ordinal int) (value uint32, rest int) {
	for v, c := range counts {
		if ordinal < int(c) {
			return uint32(v), ordinal
		}
		ordinal -= int(c)
	}
	return uint32(len(counts) - 1), 0 // not reached: there are more values than ordinal
}
