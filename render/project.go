// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package render

import "math"

// projection is a camera with what all splats need of it.
type projection struct {
	*Camera
	lowPass                float64
	left, right, up, lower float64 // bounds of the tangents at which projections are linearised
}

func newProjection(c *Camera, lowPass float64) projection {
	p := projection{Camera: c, lowPass: leastLowPass}
	if lowPass > leastLowPass {
		p.lowPass = min(lowPass, farthest)
	}
	margin := (sideLimit - 1) / 2
	w, h := float64(c.Width), float64(c.Height)
	p.left, p.right = (-margin*w-c.CX)/c.FX, (w+margin*w-c.CX)/c.FX
	p.up, p.lower = (-margin*h-c.CY)/c.FY, (h+margin*h-c.CY)/c.FY
	return p
}

// spot projects a splat: it returns how it looks, the pixels it touches, none if it is not seen, and its depth
// (Zwicker et al., "EWA volume splatting", 2001; Kerbl et al., "3D Gaussian splatting", 2023).
func (p *projection) spot(s *solid, g grid) (spot, pixelBox, float32) {
	x, y, z := p.view(s.mean)
	depth := float32(z)
	if s.opacity == 0 || !(z >= p.Near) || depth-depth != 0 {
		return spot{}, pixelBox{}, 0
	}
	u, v := p.FX*x/z+p.CX, p.FY*y/z+p.CY
	if !(math.Abs(u) < farthest && math.Abs(v) < farthest) {
		return spot{}, pixelBox{}, 0
	}
	cxx, cxy, cyy := p.spread(s, min(max(x/z, p.left), p.right), min(max(y/z, p.up), p.lower), z)

	// The determinant of the filtered matrix, without the subtraction of two large numbers.
	inner := max(0, cxx*cyy-cxy*cxy)
	det := inner + p.lowPass*(cxx+cyy) + p.lowPass*p.lowPass
	opacity := float64(s.opacity) * math.Sqrt(inner/det)
	if !(opacity >= minAlpha) { // also where a number has overflowed
		return spot{}, pixelBox{}, 0
	}
	cxx += p.lowPass
	cyy += p.lowPass
	limit := math.Log(opacity / minAlpha)
	reachX, reachY := math.Sqrt(2*limit*cxx), math.Sqrt(2*limit*cyy)
	box := g.clip(u-reachX, v-reachY, u+reachX, v+reachY)
	// With a = cyy/2det, b = -cxy/det and 4ac - b² = 1/det.
	return spot{
		skew: float32(cxy / cyy), reach2: float32(2 * limit * det / cyy), bend: float32(det / cyy / cyy),
		x: float32(u), y: float32(v),
		a: float32(cyy / det / 2), b: float32(-cxy / det), c: float32(cxx / det / 2),
		opacity: float32(opacity), color: s.color,
	}, box, depth
}

// spread returns the covariance, in pixels², of a splat at depth z, with the projection linearised in the direction
// (tx, ty, 1).
func (p *projection) spread(s *solid, tx, ty, z float64) (xx, xy, yy float64) {
	// The rows of the projection's derivative times the camera's axes.
	fx, fy := p.FX/z, p.FY/z
	var j, k [3]float64
	for i := range j {
		j[i] = fx * (p.Right[i] - tx*p.Forward[i])
		k[i] = fy * (p.Down[i] - ty*p.Forward[i])
	}
	var c [6]float64
	for i, x := range s.covariance {
		c[i] = float64(x)
	}
	cj := [3]float64{
		c[0]*j[0] + c[1]*j[1] + c[2]*j[2], c[1]*j[0] + c[3]*j[1] + c[4]*j[2], c[2]*j[0] + c[4]*j[1] + c[5]*j[2],
	}
	ck := [3]float64{
		c[0]*k[0] + c[1]*k[1] + c[2]*k[2], c[1]*k[0] + c[3]*k[1] + c[4]*k[2], c[2]*k[0] + c[4]*k[1] + c[5]*k[2],
	}
	return max(0, j[0]*cj[0]+j[1]*cj[1]+j[2]*cj[2]), j[0]*ck[0] + j[1]*ck[1] + j[2]*ck[2],
		max(0, k[0]*ck[0]+k[1]*ck[1]+k[2]*ck[2])
}
