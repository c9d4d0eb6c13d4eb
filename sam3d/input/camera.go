// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package input

import (
	"fmt"
	"math"
)

// Intrinsics are those of a pinhole camera in pixels, as OpenCV has them: the centre of the first pixel is (0, 0), and a
// point (x, y, z) with x right, y down and z forward is seen at (FX*x/z + CX, FY*y/z + CY).
type Intrinsics struct{ FX, FY, CX, CY float64 }

// Validate reports focal lengths that are not positive, and values that are not finite. The error wraps ErrPointMap.
func (c Intrinsics) Validate() error {
	for _, v := range []float64{c.FX, c.FY, c.CX, c.CY} {
		if v-v != 0 {
			return fmt.Errorf("%w: intrinsics %v are not finite", ErrPointMap, c)
		}
	}
	if c.FX <= 0 || c.FY <= 0 {
		return fmt.Errorf("%w: focal lengths %g and %g", ErrPointMap, c.FX, c.FY)
	}
	return nil
}

// Resize returns the intrinsics of the same camera for pixels of another size.
func (c Intrinsics) Resize(fromWidth, fromHeight, width, height int) Intrinsics {
	x, y := float64(width)/float64(fromWidth), float64(height)/float64(fromHeight)
	return Intrinsics{FX: c.FX * x, FY: c.FY * y, CX: (c.CX+0.5)*x - 0.5, CY: (c.CY+0.5)*y - 0.5}
}

// FOV returns the angles, in radians, that width and height pixels of the camera span about its axis. They ignore where
// the principal point is.
func (c Intrinsics) FOV(width, height int) (x, y float64) {
	return 2 * math.Atan(float64(width)/2/c.FX), 2 * math.Atan(float64(height)/2/c.FY)
}

// Camera returns the pinhole camera whose pixels see the points of the map, in pixels of the map: the least squares over
// all valid points in front of it. It fails, wrapping ErrPointMap, if there is none: the points are too few, or in one
// line of sight, or are not where a camera at the origin sees them.
func (m PointMap) Camera() (Intrinsics, error) {
	if err := m.check(); err != nil {
		return Intrinsics{}, err
	}
	var across, down line
	for i := 0; i < len(m.Points); i += 3 {
		x, y, z := float64(m.Points[i]), float64(m.Points[i+1]), float64(m.Points[i+2])
		if s, t := -x/z, -y/z; z > 0 && s-s == 0 && t-t == 0 {
			across.add(s, float64(i/3%m.Width))
			down.add(t, float64(i/3/m.Width))
		}
	}
	var c Intrinsics
	c.FX, c.CX = across.fit()
	c.FY, c.CY = down.fit()
	if c.Validate() != nil {
		return Intrinsics{}, fmt.Errorf("%w: no camera sees its %.0f points", ErrPointMap, across.n)
	}
	return c, nil
}

// line collects points (s, u) of a line u = f*s + c. Sums are about the first point, so that little cancels.
type line struct {
	n, s0, u0, s, u, ss, su float64
}

func (l *line) add(s, u float64) {
	if l.n == 0 {
		l.s0, l.u0 = s, u
	}
	s, u = s-l.s0, u-l.u0
	l.n++
	l.s += s
	l.u += u
	l.ss += s * s
	l.su += s * u
}

// fit returns the line, or NaN if there is none.
func (l *line) fit() (f, c float64) {
	spread := l.ss - l.s*l.s/l.n
	if !(spread > 1e-12*l.ss) {
		return math.NaN(), math.NaN()
	}
	f = (l.su - l.s*l.u/l.n) / spread
	return f, l.u0 - f*l.s0 + (l.u-f*l.s)/l.n
}
