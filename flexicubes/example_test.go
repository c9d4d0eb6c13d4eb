// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flexicubes_test

import (
	"context"
	"fmt"
	"math"

	"github.com/gomlx3d/image3d/flexicubes"
)

// A ball of radius 0.4, sampled on a grid of 32 cubes along each axis.
func ExampleFromField() {
	const res = 32
	f := flexicubes.Field{Resolution: res}
	for x := range res + 1 {
		for y := range res + 1 {
			for z := range res + 1 {
				px, py, pz := float64(x)/res-0.5, float64(y)/res-0.5, float64(z)/res-0.5
				f.SDF = append(f.SDF, float32(math.Sqrt(px*px+py*py+pz*pz)-0.4))
			}
		}
	}
	mesh, err := flexicubes.FromField(context.Background(), f)
	if err != nil {
		fmt.Println(err)
		return
	}
	vertices, faces := len(mesh.Vertices)/3, len(mesh.Faces)/3
	fmt.Println("vertices:", vertices)
	fmt.Println("faces:", faces)
	fmt.Println("Euler characteristic:", vertices-faces*3/2+faces)
	// Output:
	// vertices: 3056
	// faces: 6108
	// Euler characteristic: 2
}
