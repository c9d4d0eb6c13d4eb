// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Command scene makes the objects of one photograph, each marked by a mask, and puts them together.
//
//	go run ./examples/scene
//	go run ./examples/scene -model checkpoints -image room.jpg -backend xla:cpu -out room masks/
//	go run ./examples/scene -model checkpoints -image room.jpg -out room chair.png table.png
//	go run ./examples/scene -model checkpoints -image room.jpg -out room -labels segments.png
//
// Arguments are masks, or folders of masks, such as those that examples/segment writes: one file is one object. A label
// image holds all objects in one file. Without flags it runs a small embedded model with random weights on an embedded
// picture.
//
// The output folder gets
//
//	objects/NAME/gaussians.ply, gaussians4.ply, mesh.glb   each object in its own frame, as -formats asks
//	scene.ply    the splats of all objects in the frame of the camera
//	scene.glb    the meshes, one named node an object, placed where its splats are, and the photograph's camera
//	scene.json   for each object its name, mask, state, pose, counts, time, files and error, if any
//
// One object is made after the other; depth and whatever else is the same for all is found once. An object that fails
// is reported and does not stop the others. If the program is interrupted, or fails, the same command goes on where it
// stopped: objects are finished if scene.json says so and their files are as it says. A mask that was changed, or is
// new, is made again. Another photograph, model or setting needs another folder, or -force, which makes all again.
//
// The exit status is 0 if all objects were made, 3 if some of them failed, 2 for a wrong command line, and 1 if the
// program could not go on.
package main

import (
	"context"
	"io"

	"github.com/gomlx3d/image3d/examples/internal/cli"
	"github.com/gomlx3d/image3d/examples/internal/objects"
	"github.com/gomlx3d/image3d/examples/internal/scenes"
	"github.com/gomlx3d/image3d/sam3d"
)

func main() { cli.Main(run) }

// run is the program. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p := cli.Program{Name: "scene", Stdout: stdout, Stderr: stderr}
	s, err := parse(args, stderr)
	if err != nil {
		return p.Refuse(err)
	}
	record, err := makeScene(ctx, s, stderr)
	print := func(w io.Writer) error { return record.Print(w, s.out) }
	return record.Status(p.Report(record, print, s.json, err))
}

// makeScene makes what the settings ask for.
func makeScene(ctx context.Context, s settings, stderr io.Writer) (*scenes.Record, error) {
	in, err := s.inputs()
	if err != nil {
		return nil, err
	}
	model, cleanUp, err := objects.Checkpoint(ctx, s.model, stderr)
	if err != nil {
		return nil, err
	}
	defer cleanUp()
	scene := scenes.Scene{
		Out: s.out, Force: s.force, Stderr: stderr, Image: s.image, Model: s.model, Checkpoint: model,
		Options:  sam3d.Options{Backend: s.backend, DepthModel: s.depthModel, KeepWeights: s.keep, MemoryLimit: int64(s.memory)},
		Sampling: s.sampling, Points: s.points, Loader: s.loader, FitMask: s.fitMask, Contents: in.contents, Photo: in.photo,
		Objects: func(context.Context) ([]scenes.Object, error) { return in.objects, nil },
	}
	return scene.Make(ctx)
}
