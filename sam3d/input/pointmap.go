// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package input

import (
	"fmt"
	"math"
	"slices"

	"github.com/gomlx3d/image3d/internal/imageio"
)

// PointMap holds the point in space that each pixel of a picture shows, in the camera frame of PyTorch3D: +X left,
// +Y up, +Z forward, in any unit. Its size may differ from the picture's.
type PointMap struct {
	Width, Height int
	// Points is [Height, Width, 3]. NaN marks a pixel without a point.
	Points []float32
}

// FromDepthCamera converts points from the frame of most depth models, x right, y down, z forward. A pixel with a
// coordinate that is not finite becomes NaN in all three. points is [height, width, 3] and is not changed.
// The error wraps ErrPointMap.
func FromDepthCamera(width, height int, points []float32) (PointMap, error) {
	m := PointMap{Width: width, Height: height, Points: points}
	if err := m.check(); err != nil {
		return PointMap{}, err
	}
	m.Points = make([]float32, len(points))
	imageio.ForRows(width*height, pixelsPerTask, func(lo, hi int) {
		for i := 3 * lo; i < 3*hi; i += 3 {
			x, y, z := points[i], points[i+1], points[i+2]
			if !finite(x) || !finite(y) || !finite(z) {
				x, y, z = nan, nan, nan
			}
			m.Points[i], m.Points[i+1], m.Points[i+2] = -x, -y, z
		}
	})
	return m, nil
}

// FromDepth returns the points that a camera sees, given the depth [height, width] of each pixel along the viewing
// direction. Pixels whose depth is zero, negative or not finite have no point. The error wraps ErrPointMap.
func FromDepth(width, height int, depth []float32, camera Intrinsics) (PointMap, error) {
	if err := camera.Validate(); err != nil {
		return PointMap{}, err
	}
	m := PointMap{Width: width, Height: height}
	if err := m.checkSize(); err != nil {
		return PointMap{}, err
	}
	if len(depth) != width*height {
		return PointMap{}, fmt.Errorf("%w: %d depths for %dx%d pixels", ErrPointMap, len(depth), width, height)
	}
	m.Points = make([]float32, 3*width*height)
	imageio.ForRows(height, pixelsPerTask/width+1, func(lo, hi int) {
		for i := lo * width; i < hi*width; i++ {
			z := float64(depth[i])
			x := float32((camera.CX - float64(i%width)) / camera.FX * z)
			y := float32((camera.CY - float64(i/width)) / camera.FY * z)
			point := [3]float32{nan, nan, nan}
			if z > 0 && finite(depth[i]) && finite(x) && finite(y) {
				point = [3]float32{x, y, depth[i]}
			}
			copy(m.Points[3*i:3*i+3], point[:])
		}
	})
	return m, nil
}

const pixelsPerTask = 1 << 16

var nan = float32(math.NaN())

// finite reports whether v is neither NaN nor infinite.
func finite(v float32) bool { return v-v == 0 }

// checkSize reports a size that no map can have.
func (m PointMap) checkSize() error {
	if m.Width <= 0 || m.Height <= 0 || m.Width > imageio.DefaultMaxPixels/m.Height {
		return fmt.Errorf("%w: it is %dx%d", ErrPointMap, m.Width, m.Height)
	}
	return nil
}

// check reports a size that does not fit the data.
func (m PointMap) check() error {
	if err := m.checkSize(); err != nil {
		return err
	}
	if want := 3 * m.Width * m.Height; len(m.Points) != want {
		return fmt.Errorf("%w: %dx%d pixels need %d values, it has %d", ErrPointMap, m.Width, m.Height, want, len(m.Points))
	}
	return nil
}

// at returns the point of pixel (x, y).
func (m PointMap) at(x, y int) (px, py, pz float32) {
	i := 3 * (y*m.Width + x)
	return m.Points[i], m.Points[i+1], m.Points[i+2]
}

// Resize returns the map at another size: each pixel gets the point of the nearest pixel, as imageio.Nearest has it.
// At the same size the result shares its points. The error wraps ErrPointMap.
func (m PointMap) Resize(width, height int) (PointMap, error) {
	out := PointMap{Width: width, Height: height}
	if err := m.check(); err != nil {
		return out, err
	}
	if width == m.Width && height == m.Height {
		return m, nil
	}
	if width <= 0 || height <= 0 || width > imageio.DefaultMaxPixels/height {
		return out, fmt.Errorf("%w: cannot become %dx%d", ErrPointMap, width, height)
	}
	out.Points = make([]float32, 3*width*height)
	columns, rows := imageio.NearestIndex(m.Width, width), imageio.NearestIndex(m.Height, height)
	imageio.ForRows(height, pixelsPerTask/width+1, func(lo, hi int) {
		for y := lo; y < hi; y++ {
			from, to := m.Points[3*rows[y]*m.Width:], out.Points[3*y*width:]
			for x, column := range columns {
				copy(to[3*x:3*x+3], from[3*column:3*column+3])
			}
		}
	})
	return out, nil
}

// withoutInfinities returns the map with NaN in place of infinite coordinates; without any it shares its points.
func (m PointMap) withoutInfinities() PointMap {
	infinite := func(v float32) bool { return v-v != 0 && v == v }
	if !slices.ContainsFunc(m.Points, infinite) {
		return m
	}
	out := m
	out.Points = slices.Clone(m.Points)
	for i, v := range out.Points {
		if infinite(v) {
			out.Points[i] = nan
		}
	}
	return out
}

// clipBeyond returns the map without the pixels whose |z| is more than factor times the object's median z.
// The median is over the pixels whose mask is above one half; if none of them has a z, nothing is clipped.
func (m PointMap) clipBeyond(factor float64, object []int32) PointMap {
	limit := float32(factor) * m.objectMedian(object, 2)
	out := m
	out.Points = slices.Clone(m.Points)
	for i := 0; i < len(out.Points); i += 3 {
		if z := out.Points[i+2]; z > limit || -z > limit {
			out.Points[i], out.Points[i+1], out.Points[i+2] = nan, nan, nan
		}
	}
	return out
}
