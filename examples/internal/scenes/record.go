// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package scenes

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gomlx3d/image3d/examples/internal/cli"
	"github.com/gomlx3d/image3d/export"
	"github.com/gomlx3d/image3d/sam3d"
	"github.com/gomlx3d/image3d/splat"
)

// RecordName is the file of the record.
const RecordName = "scene.json"

// States of an object.
const (
	Pending = "pending" // not made yet, or not whole
	Done    = "done"
	Failed  = "failed"
)

// Record is scene.json: what the scene is of and how far it is.
type Record struct {
	Image   string `json:"image"`
	Model   string `json:"model"`
	Seed    uint64 `json:"seed"`
	Request string `json:"request"` // Scene.Request
	// Frame is that of poses and of the scene's files.
	Frame   string   `json:"frame"`
	Metric  bool     `json:"metric"` // the unit is the metre
	Camera  *Camera  `json:"camera,omitempty"`
	Objects []*Made  `json:"objects"`
	Failed  int      `json:"failed"`
	Files   []string `json:"files,omitempty"` // of the whole scene
	// Seconds are what the work for all objects took.
	Seconds  float64  `json:"seconds"`
	Warnings []string `json:"warnings,omitempty"`
}

// Camera is the camera of the photograph, in pixels; the centre of the first pixel is (0, 0).
type Camera struct {
	Width  int     `json:"width"`
	Height int     `json:"height"`
	FX     float64 `json:"fx"`
	FY     float64 `json:"fy"`
	CX     float64 `json:"cx"`
	CY     float64 `json:"cy"`
	YFOV   float64 `json:"yfov"` // radians
}

// Made is what scene.json tells of one object.
type Made struct {
	Name     string   `json:"name"`
	Mask     string   `json:"mask"`
	Content  string   `json:"mask_hash"`
	State    string   `json:"state"`
	Error    string   `json:"error,omitempty"`
	Pose     *Pose    `json:"pose,omitempty"`
	Voxels   int      `json:"voxels,omitempty"`
	Splats   *Splats  `json:"gaussians,omitempty"`
	Splats4  *Splats  `json:"gaussians4,omitempty"`
	Vertices int      `json:"vertices,omitempty"`
	Faces    int      `json:"faces,omitempty"`
	Seconds  float64  `json:"seconds,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	Files    []File   `json:"files,omitempty"`
}

// Splats are a set's number and its Kernel, which its file does not hold.
type Splats struct {
	Count  int     `json:"count"`
	Kernel float64 `json:"kernel"`
}

// File is a file below the folder of the scene.
type File struct {
	Path   string `json:"path"` // with slashes
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Pose maps a point p of the object frame, as a row, to p*scale*R(rotation) + translation.
type Pose struct {
	Rotation    [4]float64 `json:"rotation_wxyz"`
	Translation [3]float64 `json:"translation"`
	Scale       float64    `json:"scale"`
}

// Transform returns the object's pose for the files of the scene.
func (o *Made) Transform() splat.Pose {
	return splat.NewPose(o.Pose.Rotation, o.Pose.Translation, o.Pose.Scale)
}

// see notes what is known of the photograph.
func (r *Record) see(photo *sam3d.Photo) {
	r.Metric, r.Warnings, r.Seconds = photo.Metric, photo.Warnings, photo.Took.Seconds()
	if c := photo.Camera; c != nil {
		_, fov := c.FOV(photo.Width, photo.Height)
		r.Camera = &Camera{photo.Width, photo.Height, c.FX, c.FY, c.CX, c.CY, fov}
	}
}

// maxRecord bounds scene.json: what is longer is not ours.
const maxRecord = 64 << 20

// readRecord reads the record in a folder. The error matches fs.ErrNotExist if there is none.
func readRecord(folder string) (*Record, error) {
	file, err := os.Open(filepath.Join(folder, RecordName))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r := new(Record)
	if err := json.NewDecoder(io.LimitReader(file, maxRecord)).Decode(r); err != nil {
		return nil, fmt.Errorf("%s: %w", file.Name(), err)
	}
	return r, nil
}

// write replaces the record in a folder, in one step.
func (r *Record) write(folder string) error {
	return export.File(filepath.Join(folder, RecordName), true, r.encode)
}

func (r *Record) encode(w io.Writer) error {
	return cli.WriteJSON(w, r)
}

// Print writes the record for people.
func (r *Record) Print(w io.Writer, folder string) error {
	var errs []error
	line := func(format string, args ...any) {
		_, err := fmt.Fprintf(w, format+"\n", args...)
		errs = append(errs, err)
	}
	for _, o := range r.Objects {
		if o.State == Failed {
			line("%s failed: %s", o.Name, o.Error)
			continue
		}
		splats := 0
		for _, s := range []*Splats{o.Splats, o.Splats4} {
			if s != nil {
				splats += s.Count
			}
		}
		took := time.Duration(o.Seconds * float64(time.Second)).Round(10 * time.Millisecond)
		line("%s: %d voxels, %d Gaussians, %d vertices, %d triangles in %s", o.Name, o.Voxels, splats, o.Vertices, o.Faces, took)
	}
	for _, name := range append(r.Files, RecordName) {
		line("%s", filepath.Join(folder, name))
	}
	return errors.Join(errs...)
}

// exitObjects is the exit status if some objects failed.
const exitObjects = 3

// Status returns the exit status of a program that made a scene: that of its report, unless objects failed.
func (r *Record) Status(reported int) int {
	if reported == cli.Done && r.Failed > 0 {
		return exitObjects
	}
	return reported
}

// isWhole reports whether the files of a finished object are there as the record has them.
func (o *Made) isWhole(folder string) (bool, error) {
	if o.State != Done || o.Pose == nil || len(o.Files) == 0 || splat.CheckPose(o.Transform()) != nil {
		return false, nil
	}
	for _, f := range o.Files {
		if !filepath.IsLocal(filepath.FromSlash(f.Path)) {
			return false, nil
		}
		path := filepath.Join(folder, filepath.FromSlash(f.Path))
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() != f.Bytes {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if sum, err := HashFile(path); err != nil || sum != f.SHA256 {
			return false, err
		}
	}
	return true, nil
}
