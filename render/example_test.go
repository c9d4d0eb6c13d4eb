// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"context"
	"fmt"
	"image"

	"github.com/gomlx3d/image3d/flexicubes"
	"github.com/gomlx3d/image3d/render"
)

// One triangle, seen from the front, over white.
func Example() {
	mesh, err := render.NewMesh(&flexicubes.Mesh{
		Vertices: []float32{-0.5, 0, -0.5, 0.5, 0, -0.5, 0, 0, 0.5},
		Colors:   []float32{0, 0, 1, 0, 0, 1, 0, 0, 1},
		Faces:    []uint32{0, 1, 2},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	mesh.Unlit = true
	orbit := render.Orbit{Target: render.Fit(mesh.Bounds())}
	frame, err := mesh.Draw(context.Background(), orbit.Camera(0, 64, 64))
	if err != nil {
		fmt.Println(err)
		return
	}
	picture := frame.Over(image.White)
	fmt.Println(picture.RGBAAt(32, 32), picture.RGBAAt(0, 0))
	// Output: {0 0 255 255} {255 255 255 255}
}
