// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package splat

import (
	"errors"
	"math"
)

// ErrNoExtent is returned by Normalize if the opaque splats do not span a box: there are none, or one, or all are at
// the same place.
var ErrNoExtent = errors.New("splat: opaque splats have no extent")

// opaque is the opacity above which a splat counts for Normalize.
const opaque = 0.9

// Normalize moves and scales the set so that the centres of the splats of opacity above 0.9 fill a box around the
// origin whose longest side is 1 (ready_gaussian_for_video_rendering of SAM 3D Objects). Scales and kernel follow;
// rotations, colours and opacities stay. On an error nothing has changed.
func (g *Gaussians) Normalize() error {
	if err := g.Validate(); err != nil {
		return err
	}
	lo, hi := g.boundsOf(func(i int) bool { return g.Opacity(i) > opaque })
	extent := 0.0
	for k := range lo {
		extent = max(extent, float64(hi[k])-float64(lo[k]))
	}
	if !(extent > 0) {
		return ErrNoExtent
	}
	shift := math.Log(extent)
	inParallel(g.Len(), func(start, end int) {
		for at := 3 * start; at < 3*end; at++ {
			k := at % 3
			center := (float64(lo[k]) + float64(hi[k])) / 2
			g.Means[at] = float32((float64(g.Means[at]) - center) / extent)
			g.LogScales[at] = float32(float64(g.LogScales[at]) - shift)
		}
	})
	g.Kernel /= extent
	return nil
}

// SwapViewerAxes maps the centres (x, y, z) to (-x, z, y) and nothing else, which is what the original does before
// Normalize when it is asked to fix the alignment for its viewers. Rotations stay as they are there too, so elongated
// splats no longer point along the surface: for anything but equality with the original use Transform.
func (g *Gaussians) SwapViewerAxes() {
	for i := 0; i+2 < len(g.Means); i += 3 {
		m := g.Means[i : i+3]
		m[0], m[1], m[2] = -m[0], m[2], m[1]
	}
}
