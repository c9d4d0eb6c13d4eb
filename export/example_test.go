// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package export_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/gomlx3d/image3d/export"
	"github.com/gomlx3d/image3d/flexicubes"
	"github.com/gomlx3d/image3d/splat"
)

// A mesh where its object stands in the scene, in a file that is either complete or not there.
func ExampleWriteGLB() {
	mesh := &flexicubes.Mesh{
		Vertices: []float32{0, 0, 0, 1, 0, 0, 0, 1, 0},
		Faces:    []uint32{0, 1, 2},
		Colors:   []float32{1, 0, 0, 0, 1, 0, 0, 0, 1},
	}
	pose := splat.NewPose([4]float64{1, 0, 0, 0}, [3]float64{0, 0, 2}, 0.5)

	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "scene.glb")
	err := export.File(path, false, func(w io.Writer) error {
		return export.WriteGLB(w, export.GLBOptions{}, export.Part{Name: "triangle", Mesh: mesh, Pose: &pose})
	})
	file, _ := os.ReadFile(path)
	fmt.Println(string(file[:4]), err)
	// Output: glTF <nil>
}
