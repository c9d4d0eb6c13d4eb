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
	a, opacity, color := s.a, s.opacity, s.color
	fromX := float32(tile.x0) + 0.5 - s.x
	for y := box.y0; y < box.y1; y++ {
		dy := float32(y) + 0.5 - s.y
		x0, x1 := s.row(dy, box)
		slope, rest := s.b*dy, s.c*dy*dy
		row := (*[tileSize]blend)(pixels[int(y-tile.y0)*tileSize:])
		for x := int(x0 - tile.x0); x < int(x1-tile.x0); x++ {
			p := &row[x&(tileSize-1)]
			if p.through < opaque {
				continue
			}
			dx := float32(x) + fromX
			weight := p.through * opacity * decay((a*dx+slope)*dx+rest)
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

// row returns the columns of box that a spot reaches in the row dy below its centre.
func (s *spot) row(dy float32, box pixelBox) (x0, x1 int16) {
	root := s.reach2 - s.bend*dy*dy
	if root < 0 {
		return box.x0, box.x0
	}
	reach, middle := float32(math.Sqrt(float64(root))), s.x-0.5+s.skew*dy
	lo, hi := middle-reach, middle+reach
	if !(lo < float32(box.x1) && hi >= float32(box.x0)) {
		return box.x0, box.x0
	}
	return int16(math.Ceil(float64(max(lo, float32(box.x0))))), int16(min(hi, float32(box.x1-1))) + 1
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

// decay returns exp(-x) for x from 0 to decayRange, to 2e-6 of its value, and takes others for the nearer of these two.
func decay(x float32) float32 {
	if !(x < decayRange) { // also NaN
		x = decayRange
	}
	if x < 0 {
		x = 0
	}
	x *= decaySteps
	i := int(x)
	f := x - float32(i)
	lo := decays[i]
	return lo + f*(decays[i+1]-lo)
}
