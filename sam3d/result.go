// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import (
	"time"

	"github.com/gomlx3d/image3d/flexicubes"
	"github.com/gomlx3d/image3d/sam3d/pose"
	"github.com/gomlx3d/image3d/splat"
)

// Pose places the object in the camera frame: Rotation (w, x, y, z), Translation and Scale, see the package comment. Its
// method Transform gives the splat.Pose that packages splat and export take.
type Pose = pose.Pose

// Result is what a Request made. Outputs that were not asked for are nil. All geometry is in the object frame.
type Result struct {
	// Gaussians are 32 splats for each voxel, in voxel order; Gaussians4 are 4.
	Gaussians, Gaussians4 *splat.Gaussians
	// Mesh is the surface with vertex colours.
	Mesh *flexicubes.Mesh
	// Pose leads from the object frame to the camera frame.
	Pose Pose

	// Voxels are the occupied cells (x, y, z) of a grid of Resolution³ [N, 3], in lexicographic order.
	Voxels []int32
	// Resolution is the side of the voxel grid (64).
	Resolution int
	// Latents are the structured latents [N, 8], denormalised: what the decoders read.
	Latents []float32
	// PointMap is the point map that was used, the request's or the depth model's; nil if there was none.
	PointMap *PointMap
	// Metric tells that the unit of PointMap and Pose is the metre, because the depth model knows it. Of a point map of the
	// request only the caller knows the unit.
	Metric bool

	// Timings are the stages in the order they ran, and Took the whole.
	Timings []Timing
	Took    time.Duration
	// Warnings say what was degraded, one sentence each; nil if nothing was.
	Warnings []string
}
