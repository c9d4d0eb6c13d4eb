// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d_test

import (
	"context"
	"io"
	"log"

	"github.com/gomlx3d/image3d/export"
	"github.com/gomlx3d/image3d/sam3d"
	"github.com/gomlx3d/image3d/splat"
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

// The objects of one photograph are made one after the other; what they share is found once.
func ExamplePipeline_Prepare() {
	ctx := context.Background()
	pipeline, err := sam3d.Open(ctx, "checkpoints", sam3d.Options{Backend: "xla:cpu"})
	if err != nil {
		log.Fatal(err)
	}
	defer pipeline.Close()
	room, err := sam3d.LoadImage("room.jpg", 0)
	if err != nil {
		log.Fatal(err)
	}
	labels, err := sam3d.FromFile("segments.png", sam3d.Loader{}.Labels)
	if err != nil {
		log.Fatal(err)
	}
	photo, err := pipeline.Prepare(ctx, sam3d.Request{Image: room})
	if err != nil {
		log.Fatal(err)
	}
	var objects []splat.Object
	for i := range labels.Names {
		result, err := pipeline.Generate(ctx, sam3d.Request{Photo: photo, Mask: labels.Mask(i), Seed: 42})
		if err != nil {
			log.Print(labels.Names[i], ": ", err) // the others go on
			continue
		}
		objects = append(objects, splat.Object{Gaussians: result.Gaussians, Pose: result.Pose.Transform()})
	}
	scene, err := splat.MakeScene(objects)
	if err != nil {
		log.Fatal(err)
	}
	err = export.File("room.ply", false, func(w io.Writer) error {
		return export.WritePLY(w, scene, export.PLYOptions{})
	})
	if err != nil {
		log.Fatal(err)
	}
}
