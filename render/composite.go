// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package render

import (
	"context"
	"math"
)

// opaque is the light that may still pass a pixel when what lies behind is no longer drawn.
const opaque = 1.0 / 4096

// blend is a pixel that light passes through from behind.
type blend struct{ r, g, b, through float32 }

// drawSpots draws one tile: the spots of list, from front to back.
func drawSpots(ctx context.Context, frame *Frame, tile pixelBox, m *splatScratch, list []uint32) {
	var pixels [tileSize * tileSize]blend
	for i := range pixels {
		pixels[i].through = 1
	}
	open := int(tile.x1-tile.x0) * int(tile.y1-tile.y0)
	for i, at := range list {
		if i%1024 == 1023 && ctx.Err() != nil {
			return
		}
		open -= m.sorted[at].draw(&pixels, tile, m.sortedBox[at].intersect(tile))
		if open == 0 {
			break
		}
	}
	for y := tile.y0; y < tile.y1; y++ {
		out := frame.Pix[4*(int(y)*frame.Width+int(tile.x0)):]
		row := pixels[int(y-tile.y0)*tileSize:]
		for x := range int(tile.x1 - tile.x0) {
			p := row[x]
			out[4*x], out[4*x+1], out[4*x+2], out[4*x+3] = p.r, p.g, p.b, 1-p.through
		}
	}
}

// draw adds a spot to the pixels of box and returns how many of them became opaque.
func (s *spot) draw(pixels *[tileSize * tileSize]blend, tile, box pixelBox) (closed int) {
	// Copies, since the compiler does not know that writing pixels leaves s alone.
	a, limit, opacity, color := s.a, s.limit, s.opacity, s.color
	fromX := float32(tile.x0) + 0.5 - s.x
	for y := box.y0; y < box.y1; y++ {
		dy := float32(y) + 0.5 - s.y
		x0, x1 := s.row(dy, box)
		slope, rest := s.b*dy, s.c*dy*dy
		row := (*[tileSize]blend)(pixels[int(y-tile.y0)*tileSize:])
		for x := int(x0 - tile.x0); x < int(x1-tile.x0); x++ {
			dx := float32(x) + fromX
			exponent := max(0, (a*dx+slope)*dx+rest)
			p := &row[x&(tileSize-1)]
			if !(exponent <= limit) || p.through < opaque {
				continue
			}
			weight := p.through * opacity * decay(exponent)
			p.r += weight * color[0]
			p.g += weight * color[1]
			p.b += weight * color[2]
			p.through -= weight
			if p.through < opaque {
				closed++
			}
		}
	}
	return closed
}

// row narrows the columns of box to those that a spot reaches, or one more on each side, in the row dy below its
// centre: where a dx² + b dy dx + c dy² is limit.
func (s *spot) row(dy float32, box pixelBox) (x0, x1 int16) {
	x0, x1 = box.x0, box.x1
	if x1-x0 < 4 {
		return x0, x1 // finding out takes longer
	}
	root := s.reach2 - s.bend*dy*dy
	if root < 0 {
		return x0, x0
	}
	reach, middle := float32(math.Sqrt(float64(root))), s.x+s.skew*dy
	lo, hi := middle-reach-0.5, middle+reach+0.5
	if !(lo < float32(x1) && hi > float32(x0)) {
		return x0, x0
	}
	if lo > float32(x0) {
		x0 = int16(lo)
	}
	if hi < float32(x1) {
		x1 = int16(hi) + 1
	}
	return x0, x1
}

// decayRange is above the largest exponent, ln(1/minAlpha) = 5.54.
const (
	decayRange = 6
	decaySteps = 256 // for each unit
)

// decays holds exp(-i/decaySteps).
var decays = func() (t [decayRange*decaySteps + 2]float32) {
	for i := range t {
		t[i] = float32(math.Exp(-float64(i) / decaySteps))
	}
	return t
}()

// decay returns exp(-x) for x from 0 to decayRange, to 2e-6 of its value.
func decay(x float32) float32 {
	x *= decaySteps
	i := int(x)
	f := x - float32(i)
	lo := decays[i]
	return lo + f*(decays[i+1]-lo)
}
