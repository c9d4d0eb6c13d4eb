// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package export

import (
	"errors"
	"fmt"
	"math"

	"github.com/qmuntal/gltf"
)

// ErrCamera is wrapped by the error about a camera whose fields of view are not between 0 and 180 degrees.
var ErrCamera = errors.New("export: invalid camera")

// Camera is the camera of a photograph: it is where poses lead to, at the origin, looks along +Z, and +Y is up. A glTF
// camera looks along the middle of its picture: a principal point beside it cannot be told.
type Camera struct {
	FOVX, FOVY float64 // what the photograph spans from side to side and from top to bottom, in radians
}

// camera adds a node "camera", if there is a camera. What is nearer than a thousandth of the scene's extent is not seen;
// there is no far end.
func (f *glbFile) camera(c *Camera) error {
	if c == nil {
		return nil
	}
	x, y := math.Tan(c.FOVX/2), math.Tan(c.FOVY/2)
	if !(c.FOVX > 0 && c.FOVX < math.Pi && c.FOVY > 0 && c.FOVY < math.Pi && x/y > 0 && x/y <= math.MaxFloat32) {
		return fmt.Errorf("%w: fields of view of %g and %g radians", ErrCamera, c.FOVX, c.FOVY)
	}
	near := f.extent / 1000
	if near == 0 {
		near = 0.001
	}
	node, err := f.node("camera", nil)
	if err != nil {
		return err
	}
	node.Rotation = [4]float64{0, 1, 0, 0} // glTF's cameras look along -Z: half a turn about Y
	node.Camera = gltf.Index(len(f.doc.Cameras))
	f.doc.Cameras = append(f.doc.Cameras, &gltf.Camera{Name: "photograph", Perspective: &gltf.Perspective{
		AspectRatio: gltf.Float(x / y), Yfov: c.FOVY, Znear: near,
	}})
	return nil
}
