// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"image"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/gomlx3d/image3d/examples/service/internal/store"
	"github.com/gomlx3d/image3d/export"
	"github.com/gomlx3d/image3d/sam3d"
	"github.com/gomlx3d/image3d/splat"
)

// The files of a result. Those of outputs that were not asked for are missing.
const (
	ResultPLY  = "result.ply"  // Gaussians, object frame
	ResultGLB  = "result.glb"  // mesh, y up
	ResultOBJ  = "result.obj"  // mesh, object frame
	ResultSTL  = "result.stl"  // mesh, object frame
	ResultJSON = "result.json" // Document
	LightPLY   = "light.ply"   // 4 Gaussians a voxel, object frame
	PosedPLY   = "posed.ply"   // Gaussians, camera frame
	PosedGLB   = "posed.glb"   // mesh with the pose as its node's transformation
	PointsPLY  = "points.ply"  // coloured point cloud of the point map, camera frame
	PhotoJPEG  = "photo.jpg"   // the photograph, upright and at most 1600 pixels large
)

// Document is result.json. The same job always gives the same bytes.
type Document struct {
	Seed    uint64        `json:"seed"`
	Pose    Pose          `json:"pose"`
	Metric  bool          `json:"metric"` // the unit of the camera frame is the metre
	Camera  *Camera       `json:"camera,omitempty"`
	Summary store.Summary `json:"summary"` // its files are all but this one
}

// Pose maps a point p of the object frame, as a row, to p*scale*R(rotation) + translation.
type Pose struct {
	Rotation    [4]float64 `json:"rotation_wxyz"`
	Translation [3]float64 `json:"translation"`
	Scale       float64    `json:"scale"`
	Frame       string     `json:"frame"`
}

// output is a file to write.
type output struct {
	name   string
	encode func(io.Writer) error
}

// write writes the files of a result, all of them or none: a full disk has room again.
func write(ctx context.Context, folder string, job store.Job, photo image.Image, r *sam3d.Result) (summary store.Summary, err error) {
	defer func() {
		if err != nil {
			for _, file := range summary.Files {
				_ = os.Remove(filepath.Join(folder, file.Name))
			}
		}
	}()
	summary = store.Summary{Voxels: len(r.Voxels) / 3, Warnings: slices.Clone(r.Warnings), Files: []store.File{}}
	files := splatFiles(r, &summary)
	files = append(files, meshFiles(r, &summary)...)
	if r.PointMap != nil {
		files = append(files, output{PointsPLY, func(w io.Writer) error { return writePoints(w, *r.PointMap, photo) }})
	}
	files = append(files, output{PhotoJPEG, func(w io.Writer) error { return writePhoto(w, photo) }})
	for _, file := range files {
		if err := ctx.Err(); err != nil {
			return summary, err
		}
		info, err := writeFile(folder, file)
		if errors.Is(err, export.ErrEmptyMesh) || errors.Is(err, splat.ErrPose) {
			summary.Warnings = append(summary.Warnings, file.name+" was left out: "+err.Error())
			continue
		}
		if err != nil {
			return summary, err
		}
		summary.Files = append(summary.Files, info)
	}
	document := Document{Seed: job.Options.Seed, Pose: poseOf(r.Pose), Metric: r.Metric, Summary: summary}
	if r.PointMap != nil {
		document.Camera = cameraOf(*r.PointMap, photo.Bounds().Dx(), photo.Bounds().Dy())
	}
	info, err := writeFile(folder, output{ResultJSON, func(w io.Writer) error {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(document)
	}})
	summary.Files = append(summary.Files, info)
	return summary, err
}

func poseOf(p sam3d.Pose) Pose {
	return Pose{p.Rotation, p.Translation, p.Scale, "camera: +X left, +Y up, +Z forward"}
}

// splatFiles are the files of Gaussians.
func splatFiles(r *sam3d.Result, summary *store.Summary) (files []output) {
	if r.Gaussians4 != nil {
		summary.Gaussians = r.Gaussians4.Len()
		files = append(files, output{LightPLY, func(w io.Writer) error {
			return export.WritePLY(w, r.Gaussians4, export.PLYOptions{})
		}})
	}
	if r.Gaussians == nil {
		return files
	}
	summary.Gaussians = r.Gaussians.Len()
	return append(files, output{ResultPLY, func(w io.Writer) error {
		return export.WritePLY(w, r.Gaussians, export.PLYOptions{})
	}}, output{PosedPLY, func(w io.Writer) error {
		posed := r.Gaussians.Clone()
		if err := posed.Transform(r.Pose.Transform()); err != nil {
			return err
		}
		return export.WritePLY(w, posed, export.PLYOptions{})
	}})
}

// meshFiles are the files of the mesh.
func meshFiles(r *sam3d.Result, summary *store.Summary) []output {
	if r.Mesh == nil {
		return nil
	}
	summary.Vertices, summary.Faces = len(r.Mesh.Vertices)/3, len(r.Mesh.Faces)/3
	pose := r.Pose.Transform()
	return []output{
		{ResultGLB, func(w io.Writer) error {
			return export.WriteGLB(w, export.GLBOptions{}, export.Part{Name: "object", Mesh: r.Mesh})
		}},
		{ResultOBJ, func(w io.Writer) error { return export.WriteOBJ(w, r.Mesh) }},
		{ResultSTL, func(w io.Writer) error { return export.WriteSTL(w, r.Mesh) }},
		{PosedGLB, func(w io.Writer) error {
			return export.WriteGLB(w, export.GLBOptions{}, export.Part{Name: "object", Mesh: r.Mesh, Pose: &pose})
		}},
	}
}

// writeFile writes one file and tells its size and hash.
func writeFile(folder string, o output) (store.File, error) {
	hash := sha256.New()
	count := &counter{}
	err := export.File(filepath.Join(folder, o.name), true, func(w io.Writer) error {
		return o.encode(io.MultiWriter(w, hash, count))
	})
	return store.File{Name: o.name, Bytes: count.bytes, SHA256: hex.EncodeToString(hash.Sum(nil))}, err
}

type counter struct{ bytes int64 }

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	c.bytes += int64(len(p))
	return len(p), nil
}

// made returns the summary of a result that is complete: a crash between its last file and the job's record leaves one.
func made(folder string) (summary store.Summary, ok bool) {
	data, err := os.ReadFile(filepath.Join(folder, ResultJSON))
	if err != nil {
		return summary, false
	}
	var document Document
	if json.Unmarshal(data, &document) != nil {
		return summary, false
	}
	for _, file := range document.Summary.Files {
		if sum, err := hashOf(filepath.Join(folder, file.Name)); err != nil || sum != file.SHA256 {
			return summary, false
		}
	}
	hash := sha256.Sum256(data)
	own := store.File{Name: ResultJSON, Bytes: int64(len(data)), SHA256: hex.EncodeToString(hash[:])}
	document.Summary.Files = append(document.Summary.Files, own)
	return document.Summary, true
}

func hashOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
