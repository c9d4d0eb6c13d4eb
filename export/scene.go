// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package export

import (
	"fmt"
	"io"
	"math"

	"github.com/gomlx3d/image3d/splat"
)

// SceneObject is one object of WriteScenePLY, which is loaded when its turn comes.
type SceneObject struct {
	Splats int     // how many there are
	Kernel float64 // Gaussians.Kernel, which splat files do not hold
	Pose   splat.Pose
	// Load returns the splats in the object's own frame. They are changed.
	Load func() (*splat.Gaussians, error)
}

// WriteScenePLY writes the scene of several objects, byte for byte WritePLY of splat.MakeScene, but holds one object at
// a time. The error wraps splat.ErrInvalid or splat.ErrPose, or is that of a Load.
func WriteScenePLY(w io.Writer, opt PLYOptions, objects ...SceneObject) error {
	total, kernel := 0, math.Inf(1)
	for i, o := range objects {
		if err := splat.CheckPose(o.Pose); err != nil {
			return fmt.Errorf("export: write scene: object %d: %w", i, err)
		}
		if !(o.Kernel >= 0 && o.Kernel <= math.MaxFloat64) || o.Splats < 0 {
			return fmt.Errorf("export: write scene: %w: object %d has %d splats with a kernel of %v", splat.ErrInvalid, i, o.Splats, o.Kernel)
		}
		total += o.Splats
		kernel = min(kernel, o.Kernel*o.Pose.Scale)
	}
	if len(objects) == 0 {
		return fmt.Errorf("export: write scene: %w: no objects", splat.ErrInvalid)
	}
	columns := plyColumns(opt)
	if err := writePLYHeader(w, columns, total); err != nil {
		return fmt.Errorf("export: write scene: %w", err)
	}
	for i, o := range objects {
		g, err := o.place(kernel)
		if err == nil {
			err = writePLYRows(w, 4*len(columns), g)
		}
		if err != nil {
			return fmt.Errorf("export: write scene: object %d: %w", i, err)
		}
	}
	return nil
}

// place returns the object's splats in the scene.
func (o SceneObject) place(kernel float64) (*splat.Gaussians, error) {
	g, err := o.Load()
	if err != nil {
		return nil, err
	}
	if g == nil || g.Len() != o.Splats {
		return nil, fmt.Errorf("%w: not the %d splats that it should have", splat.ErrInvalid, o.Splats)
	}
	g.Kernel = o.Kernel
	return g, g.PlaceInScene(o.Pose, kernel)
}
