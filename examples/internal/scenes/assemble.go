// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package scenes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/gomlx3d/image3d/export"
	"github.com/gomlx3d/image3d/sam3d"
	"github.com/gomlx3d/image3d/splat"
)

// Names of files.
const (
	sceneSplats = "scene.ply"
	sceneMeshes = "scene.glb"
	objectMesh  = "mesh.glb"
	objectMask  = "mask.png"
)

// assemble puts the finished objects together, one at a time in memory.
func (j *job) assemble(ctx context.Context) error {
	for _, part := range []struct {
		name  string
		write func(io.Writer) error
	}{{sceneSplats, j.writeSplats}, {sceneMeshes, j.writeMeshes}} {
		path := filepath.Join(j.Out, part.name)
		err := export.File(path, true, func(w io.Writer) error { return part.write(stopping{ctx, w}) })
		switch {
		case err == nil:
			j.record.Files = append(j.record.Files, part.name)
		case errors.Is(err, errNothing):
			if err := os.Remove(path); err != nil && !os.IsNotExist(err) { // of other objects
				return err
			}
		default:
			return err
		}
	}
	return j.record.write(j.Out)
}

// errNothing says that no object has what a file is for.
var errNothing = errors.New("no object has it")

// stopping is a writer that fails once its context is done.
type stopping struct {
	ctx context.Context
	w   io.Writer
}

// Write implements io.Writer.
func (s stopping) Write(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.w.Write(p)
}

// writeSplats writes the scene of the finer splats that there are.
func (j *job) writeSplats(w io.Writer) error {
	file, splatsOf := "gaussians.ply", func(o *Made) *Splats { return o.Splats }
	if !j.has("gaussian") {
		file, splatsOf = "gaussians4.ply", func(o *Made) *Splats { return o.Splats4 }
	}
	var objects []export.SceneObject
	for _, o := range j.record.Objects {
		splats := splatsOf(o)
		if o.State != Done || splats == nil {
			continue
		}
		objects = append(objects, export.SceneObject{
			Splats: splats.Count, Kernel: splats.Kernel, Pose: o.Transform(),
			Load: func() (*splat.Gaussians, error) { return sam3d.FromFile(j.fileOf(o, file), export.ReadPLY) },
		})
	}
	if len(objects) == 0 {
		return errNothing
	}
	return export.WriteScenePLY(w, export.PLYOptions{}, objects...)
}

// writeMeshes writes the scene of the meshes. An object whose mesh has no triangles is a node without a mesh.
func (j *job) writeMeshes(w io.Writer) error {
	var camera *export.Camera
	if c := j.record.Camera; c != nil {
		x, y := sam3d.Intrinsics{FX: c.FX, FY: c.FY, CX: c.CX, CY: c.CY}.FOV(c.Width, c.Height)
		camera = &export.Camera{FOVX: x, FOVY: y}
	}
	var files []export.GLBFile
	for _, o := range j.record.Objects {
		if o.State != Done {
			continue
		}
		pose := o.Transform()
		part := export.GLBFile{Name: o.Name, Pose: &pose}
		for _, f := range o.Files {
			if strings.HasSuffix(f.Path, "/"+objectMesh) {
				part.File, part.Size = fileAt(j.fileOf(o, objectMesh)), f.Bytes
			}
		}
		files = append(files, part)
	}
	if !j.has("mesh") || len(files) == 0 {
		return errNothing
	}
	err := export.JoinGLB(w, camera, files...)
	if errors.Is(err, export.ErrEmptyMesh) {
		return fmt.Errorf("%w: %w", errNothing, err)
	}
	return err
}

// fileOf is a file of an object.
func (j *job) fileOf(o *Made, name string) string {
	return filepath.Join(j.Out, objectsFolder, o.Name, name)
}

// fileAt reads a file that is open only meanwhile: there may be more objects than files that may be open.
type fileAt string

// ReadAt implements io.ReaderAt.
func (f fileAt) ReadAt(p []byte, offset int64) (int, error) {
	file, err := os.Open(string(f))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	return file.ReadAt(p, offset)
}
