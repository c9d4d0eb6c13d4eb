// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"path/filepath"
	"time"

	"github.com/gomlx3d/image3d/examples/internal/cli"
	"github.com/gomlx3d/image3d/export"
	"github.com/gomlx3d/image3d/sam3d"
)

// outputFile is one file of the result.
type outputFile struct {
	name   string
	encode func(io.Writer, *sam3d.Result) error
}

// files returns the files that the settings ask for, the pose last. The mask is that of the object, and a file of its own
// if the program looked for it.
func (s settings) files(mask image.Image) []outputFile {
	encoders := map[string]outputFile{
		"gaussian": {"gaussians.ply", func(w io.Writer, r *sam3d.Result) error {
			return export.WritePLY(w, r.Gaussians, export.PLYOptions{})
		}},
		"gaussian4": {"gaussians4.ply", func(w io.Writer, r *sam3d.Result) error {
			return export.WritePLY(w, r.Gaussians4, export.PLYOptions{})
		}},
		"glb": {"mesh.glb", func(w io.Writer, r *sam3d.Result) error {
			return export.WriteGLB(w, export.GLBOptions{}, export.Part{Name: "object", Mesh: r.Mesh})
		}},
		"obj": {"mesh.obj", func(w io.Writer, r *sam3d.Result) error { return export.WriteOBJ(w, r.Mesh) }},
		"stl": {"mesh.stl", func(w io.Writer, r *sam3d.Result) error { return export.WriteSTL(w, r.Mesh) }},
	}
	var files []outputFile
	for _, format := range s.sampling.Formats {
		if format != "mesh" {
			files = append(files, encoders[format])
			continue
		}
		for _, mesh := range s.meshFormats {
			files = append(files, encoders[mesh])
		}
	}
	if s.inputs.segmenter.on() {
		files = append(files, outputFile{"mask.png", func(w io.Writer, _ *sam3d.Result) error { return png.Encode(w, mask) }})
	}
	return append(files, outputFile{"pose.json", writePose})
}

func writePose(w io.Writer, r *sam3d.Result) error {
	return cli.WriteJSON(w, poseOf(r))
}

// write writes the file, whole or not at all. A mesh without triangles makes no file but a warning.
func (f outputFile) write(folder string, overwrite bool, r *sam3d.Result, s *summary) error {
	path := filepath.Join(folder, f.name)
	err := export.File(path, overwrite, func(w io.Writer) error { return f.encode(w, r) })
	if errors.Is(err, export.ErrEmptyMesh) {
		s.Warnings = append(s.Warnings, "the mesh has no triangles: "+f.name+" was not written")
		return nil
	}
	if err == nil {
		s.Files = append(s.Files, path)
	}
	return err
}

// prepareFolder makes the folder of the results and finds out, before any work, whether files can be made in it.
func prepareFolder(s settings) error {
	var names []string
	for _, file := range s.files(nil) {
		names = append(names, file.name)
	}
	if err := cli.MakeFolder(s.out, s.force, names...); err != nil {
		return err
	}
	return cli.CheckWritable(s.out)
}

// summary is what -json prints.
type summary struct {
	Files    []string           `json:"files"`
	Seed     uint64             `json:"seed"`
	Voxels   int                `json:"voxels"`
	Splats   int                `json:"gaussians,omitempty"`
	Splats4  int                `json:"gaussians4,omitempty"`
	Vertices int                `json:"vertices,omitempty"`
	Faces    int                `json:"faces,omitempty"`
	Pose     poseJSON           `json:"pose"`
	Seconds  map[string]float64 `json:"seconds"`
	Compile  map[string]float64 `json:"compile_seconds"` // of them, of the stages that compiled something
	Warnings []string           `json:"warnings,omitempty"`
}

// poseJSON is pose.json. It maps a point p of the object frame, as a row, to p*scale*R(rotation) + translation.
type poseJSON struct {
	Rotation    [4]float64 `json:"rotation_wxyz"`
	Translation [3]float64 `json:"translation"`
	Scale       float64    `json:"scale"`
	Frame       string     `json:"frame"`
	Metric      bool       `json:"metric"` // the depth model knows metres, and the unit is one
}

func poseOf(r *sam3d.Result) poseJSON {
	return poseJSON{r.Pose.Rotation, r.Pose.Translation, r.Pose.Scale, "camera: +X left, +Y up, +Z forward", r.Metric}
}

func summarise(s settings, r *sam3d.Result) *summary {
	out := &summary{
		Files: []string{}, Seed: s.sampling.Seed, Voxels: len(r.Voxels) / 3, Pose: poseOf(r),
		Seconds: map[string]float64{"all": r.Took.Seconds()}, Compile: map[string]float64{}, Warnings: r.Warnings,
	}
	for _, t := range r.Timings {
		out.Seconds[string(t.Stage)] = t.Took.Seconds()
		if t.Compile > 0 {
			out.Compile[string(t.Stage)] = t.Compile.Seconds()
			out.Compile["all"] += t.Compile.Seconds()
		}
	}
	if r.Gaussians != nil {
		out.Splats = r.Gaussians.Len()
	}
	if r.Gaussians4 != nil {
		out.Splats4 = r.Gaussians4.Len()
	}
	if r.Mesh != nil {
		out.Vertices, out.Faces = len(r.Mesh.Vertices)/3, len(r.Mesh.Faces)/3
	}
	return out
}

// print writes the summary for people.
func (s *summary) print(w io.Writer) error {
	took := time.Duration(s.Seconds["all"] * float64(time.Second)).Round(10 * time.Millisecond)
	_, err := fmt.Fprintf(w, "%d voxels, %d Gaussians, %d vertices, %d triangles in %s, %.1f s of it compiling\n", s.Voxels,
		s.Splats+s.Splats4, s.Vertices, s.Faces, took, s.Compile["all"])
	for _, file := range s.Files {
		if err == nil {
			_, err = fmt.Fprintln(w, file)
		}
	}
	return err
}
