// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d_test

import (
	"context"
	"io"
	"log"

	"github.com/gomlx3d/image3d/export"
	"github.com/gomlx3d/image3d/sam3d"
)

// A photograph and a mask become a file of Gaussians.
func Example() {
	ctx := context.Background()
	pipeline, err := sam3d.Open(ctx, "checkpoints", sam3d.Options{Backend: "xla:cpu"})
	if err != nil {
		log.Fatal(err)
	}
	defer pipeline.Close()
	photo, err := sam3d.LoadImage("photo.jpg", 0)
	if err != nil {
		log.Fatal(err)
	}
	mask, err := sam3d.LoadMask("chair.png", 0)
	if err != nil {
		log.Fatal(err)
	}
	result, err := pipeline.Generate(ctx, sam3d.Request{Image: photo, Mask: mask, Seed: 42})
	if err != nil {
		log.Fatal(err)
	}
	err = export.File("chair.ply", false, func(w io.Writer) error {
		return export.WritePLY(w, result.Gaussians, export.PLYOptions{})
	})
	if err != nil {
		log.Fatal(err)
	}
}
