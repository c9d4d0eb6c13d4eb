// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/gomlx3d/image3d/splat"
)

const (
	// The low-pass filter of 3D Gaussian splatting, and the least that keeps numbers in range.
	defaultLowPass = 0.3
	leastLowPass   = 0.01
	// minAlpha is the alpha under which a splat does not count in a pixel: one step of 8 bits.
	minAlpha = 1.0 / 255
	// sideLimit bounds the tangent of the direction in which a projection is linearised, in tangents of the picture's
	// edge. Beyond the edge the linearisation makes splats that are far too large.
	sideLimit = 1.3
	// farthest bounds how far outside the picture, in pixels, the centre of a splat may be. Beyond it float32 cannot tell
	// pixels apart.
	farthest = 1e7
	chunk    = 4096 // splats of one call of a goroutine
)

// Splats are Gaussians prepared for drawing. They may be drawn by many goroutines at the same time.
type Splats struct {
	// LowPass is the variance, in pixels², that is added to every projected splat so that small ones do not flicker;
	// opacity goes down by what that gains in area (Mip-Splatting, Yu et al. 2024). 0 means 0.3, as in 3D Gaussian
	// splatting, and 0.01 is the least; the renderer of SAM 3D Objects takes 0.1, which is sharper.
	LowPass float64

	solids  []solid
	scratch sync.Pool // of *splatScratch
}

// solid is one Gaussian. Opacity 0 marks one that cannot be drawn.
type solid struct {
	mean       [3]float32
	covariance [6]float32 // xx, xy, xz, yy, yz, zz
	color      [3]float32
	opacity    float32
}

// NewSplats prepares Gaussians. g is only read, and may change afterwards.
//
// Splats with values that are not finite, and those whose size does not fit a float32, are left out. The error wraps
// splat.ErrInvalid if the lengths of slices disagree.
func NewSplats(g *splat.Gaussians) (*Splats, error) {
	n := g.Len()
	if len(g.Means) != 3*n || len(g.SH) != 3*n || len(g.LogScales) != 3*n || len(g.Rotations) != 4*n {
		return nil, fmt.Errorf("render: %w: %d means, %d colours, %d scales and %d rotations for %d splats", splat.ErrInvalid,
			len(g.Means), len(g.SH), len(g.LogScales), len(g.Rotations), n)
	}
	s := &Splats{solids: make([]solid, n)}
	err := inChunks(context.Background(), n, chunk, func(start, end int) {
		for i := start; i < end; i++ {
			s.solids[i] = newSolid(g, i)
		}
	})
	return s, err
}

func newSolid(g *splat.Gaussians, i int) solid {
	s := solid{mean: [3]float32(g.Means[3*i : 3*i+3]), color: g.Color(i), opacity: g.Opacity(i)}
	sum := s.opacity + s.mean[0] + s.mean[1] + s.mean[2] + s.color[0] + s.color[1] + s.color[2]
	for k, c := range g.Covariance(i) {
		s.covariance[k] = float32(c)
		sum += s.covariance[k]
	}
	if sum-sum != 0 || !(s.opacity >= minAlpha) {
		return solid{}
	}
	return s
}

// Bounds returns the smallest box that holds the centres of all splats with an opacity above 0.1, for Fit. That of none
// is inverted.
func (s *Splats) Bounds() (lo, hi [3]float32) {
	for k := range lo {
		lo[k], hi[k] = float32(math.Inf(1)), float32(math.Inf(-1))
	}
	for i := range s.solids {
		if s.solids[i].opacity <= 0.1 {
			continue
		}
		for k, x := range s.solids[i].mean {
			lo[k], hi[k] = min(lo[k], x), max(hi[k], x)
		}
	}
	return lo, hi
}

// spot is a splat as a camera sees it: alpha is opacity*exp(-(a dx² + b dx dy + c dy²)) at (dx, dy) pixels from (x, y),
// where that is minAlpha or more.
type spot struct {
	x, y    float32
	a, b, c float32
	opacity float32
	color   [3]float32
	// In the row dy alpha is minAlpha at x + skew dy ± sqrt(reach2 - bend dy²).
	skew, reach2, bend float32
}

// splatScratch is the memory of one frame.
type splatScratch struct {
	spots      []spot
	boxes      []pixelBox // of spots
	keys, swap []uint64   // depth and index of visible splats
	sorted     []spot     // in the order of keys
	sortedBox  []pixelBox
}

// Draw draws the splats as a camera sees them. Splats whose centres are nearer than Camera.Near are left out.
//
// The error wraps ErrCamera, or ctx.Err().
func (s *Splats) Draw(ctx context.Context, c Camera) (*Frame, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	m, ok := s.scratch.Get().(*splatScratch)
	if !ok {
		m = &splatScratch{}
	}
	defer s.scratch.Put(m)
	g := newGrid(c.Width, c.Height)
	if err := s.project(ctx, &c, g, m); err != nil {
		return nil, err
	}
	frame := newFrame(c)
	err := g.forTiles(ctx, m.sortedBox, func(tile int, list []uint32) {
		drawSpots(ctx, frame, g.box(tile), m, list)
	})
	if err != nil {
		return nil, err
	}
	return frame, nil
}

// project fills m with the spots of a frame, sorted from front to back.
func (s *Splats) project(ctx context.Context, c *Camera, g grid, m *splatScratch) error {
	n := len(s.solids)
	m.spots, m.boxes = resize(m.spots, n), resize(m.boxes, n)
	m.keys, m.swap = resize(m.keys, n), resize(m.swap, n)
	lowPass := s.LowPass
	if lowPass == 0 {
		lowPass = defaultLowPass
	}
	p := newProjection(c, lowPass)
	err := inChunks(ctx, n, chunk, func(start, end int) {
		for i := start; i < end; i++ {
			var depth float32
			m.spots[i], m.boxes[i], depth = p.spot(&s.solids[i], g)
			m.keys[i] = uint64(math.Float32bits(depth))<<32 | uint64(i)
		}
	})
	if err != nil {
		return err
	}
	visible := m.keys[:0]
	for i, key := range m.keys {
		if !m.boxes[i].empty() {
			visible = append(visible, key)
		}
	}
	visible = sortKeys(visible, m.swap[:len(visible)])
	orderTies(visible, m.spots)
	m.sorted, m.sortedBox = resize(m.sorted, len(visible)), resize(m.sortedBox, len(visible))
	return inChunks(ctx, len(visible), chunk, func(start, end int) {
		for i := start; i < end; i++ {
			at := uint32(visible[i])
			m.sorted[i], m.sortedBox[i] = m.spots[at], m.boxes[at]
		}
	})
}

// resize returns a slice of n elements, of any content, that reuses the memory of s if it can.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// orderTies sorts keys of equal depth by what their spots look like, so that the order of input does not matter.
func orderTies(keys []uint64, spots []spot) {
	for start := 0; start < len(keys); {
		end := start + 1
		for end < len(keys) && keys[end]>>32 == keys[start]>>32 {
			end++
		}
		if end-start > 1 {
			slices.SortFunc(keys[start:end], func(i, j uint64) int {
				return spots[uint32(i)].compare(&spots[uint32(j)])
			})
		}
		start = end
	}
}

// compare is an order of spots in which equal ones look the same.
func (s *spot) compare(o *spot) int {
	return cmp.Or(cmp.Compare(s.x, o.x), cmp.Compare(s.y, o.y), cmp.Compare(s.opacity, o.opacity),
		cmp.Compare(s.color[0], o.color[0]), cmp.Compare(s.color[1], o.color[1]), cmp.Compare(s.color[2], o.color[2]),
		cmp.Compare(s.a, o.a), cmp.Compare(s.b, o.b), cmp.Compare(s.c, o.c))
}
