// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import "time"

// Stage names a part of the work.
type Stage string

// The stages, in the order they run. StageDepth is left out when the request brings a point map or a Photo, and the
// decoders of outputs that were not asked for are left out. Prepare runs StageDepth and StageCondition.
const (
	StageDepth      Stage = "depth"      // photograph to point map
	StageInput      Stage = "input"      // image, mask and point map to condition tensors
	StageCondition  Stage = "condition"  // condition tensors to tokens
	StageStructure  Stage = "structure"  // sampling of structure and pose
	StageVoxels     Stage = "voxels"     // structure latent to occupied voxels
	StageLatent     Stage = "latent"     // sampling of the structured latents
	StageGaussians  Stage = "gaussians"  // latents to 32 Gaussians a voxel
	StageGaussians4 Stage = "gaussians4" // latents to 4 Gaussians a voxel
	StageMesh       Stage = "mesh"       // latents to a mesh
)

// Event reports progress. For each stage come an event with Step 0 when it starts and one for each finished step, until
// the stage fails. A Generate that does not need the depth model does StageInput before it waits for its turn.
type Event struct {
	Stage   Stage
	Step    int           // finished steps of the stage, 0 to Of
	Of      int           // steps of the stage, at least 1
	Elapsed time.Duration // since Generate began
	Compile time.Duration // of the stage so far, see Timing
}

// Timing is the time that one stage took.
type Timing struct {
	Stage   Stage
	Took    time.Duration
	Compile time.Duration // of it, building and compiling programs; with what other pipelines compiled at that time
}
