// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package scenes makes the objects of one photograph, each marked by a mask, and puts them together.
//
// A scene's folder holds
//
//	objects/NAME/gaussians.ply, gaussians4.ply, mesh.glb   each object in its own frame
//	scene.ply    the splats of all objects in the frame of the camera
//	scene.glb    the meshes, one named node an object, placed where its splats are, and the photograph's camera
//	scene.json   the Record
//
// One object is made after the other; depth and whatever else is the same for all is found once. An object that fails
// does not stop the others. What was interrupted goes on where it stopped: objects are finished if scene.json says so and
// their files are as it says.
package scenes

import (
	"context"
	"errors"
	"fmt"
	"image"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/gomlx3d/image3d/examples/internal/objects"
	"github.com/gomlx3d/image3d/sam3d"
)

// Scene is what is to be made, and where.
type Scene struct {
	Out    string // the folder
	Force  bool   // make all objects again, and overwrite another scene
	Stderr io.Writer

	Image, Model string // names for people
	Checkpoint   string // folder of the model
	Options      sam3d.Options
	Sampling     objects.Sampling
	Points       objects.Points
	Loader       sam3d.Loader
	FitMask      bool
	// Contents are hashes, by role, of the photograph and of all else that decides what the scene becomes, but for the
	// fields above and the masks.
	Contents map[string]string

	// Photo reads the photograph and its point map. It is called if there is something to do.
	Photo func() (sam3d.Request, error)
	// Objects finds what marks the objects. It is called when the folder is known to be fit for the scene.
	Objects func(ctx context.Context) ([]Object, error)
}

// Object is an object that is to be made.
type Object struct {
	Name    string // of its folder; see Distinguish
	Mask    string // where it is, for people
	Content string // what it is: a hash
	Read    func(picture image.Image) (image.Image, error)
	// KeepMask writes the mask beside the object, as mask.png.
	KeepMask bool
}

// Make finds what is to be done, makes the objects that are missing, and puts the scene together.
func (s *Scene) Make(ctx context.Context) (*Record, error) {
	request, err := s.request()
	if err != nil {
		return nil, err
	}
	j := &job{Scene: s, record: &Record{
		Image: s.Image, Model: s.Model, Seed: s.Sampling.Seed, Request: request, Objects: []*Made{},
		Frame: "camera: +X left, +Y up, +Z forward",
	}}
	if err := j.begin(ctx); err != nil {
		return nil, err
	}
	if err := j.makeObjects(ctx); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w; the same command goes on from here", err)
		}
		return nil, err
	}
	if err := j.assemble(ctx); err != nil {
		return nil, err
	}
	return j.record, nil
}

// request is a hash of all that decides what the objects become but for their masks. The backend does not: objects of
// different ones may stand in one scene. Neither does the order of the formats.
func (s *Scene) request() (string, error) {
	checkpoint, err := Fingerprint(s.Checkpoint)
	if err != nil {
		return "", err
	}
	depth := s.Options.DepthModel
	if _, err := os.Stat(depth); depth != "" && err == nil { // else a repository
		if depth, err = Fingerprint(depth); err != nil {
			return "", err
		}
	}
	return hashOf(map[string]any{
		"version": 1, "inputs": s.Contents, "camera": s.Points.Camera, "depth scale": s.Points.Scale,
		"model": checkpoint, "depth model": depth, "axes": s.Loader.Axes, "nonzero": s.Loader.NonZeroMask,
		"fit": s.FitMask, "seed": s.Sampling.Seed, "steps": s.Sampling.Steps, "latent steps": s.Sampling.LatentSteps,
		"distilled": s.Sampling.Distilled, "formats": slices.Sorted(slices.Values(s.Sampling.Formats)),
	})
}

// Contents returns the hashes of a photograph's file and of what is known of its space.
func Contents(image string, points objects.Points) (map[string]string, error) {
	contents := make(map[string]string)
	for role, path := range map[string]string{"image": image, "pointmap": points.PointMap, "depth": points.Depth} {
		if path == "" {
			continue
		}
		var err error
		if contents[role], err = HashFile(path); err != nil {
			return nil, err
		}
	}
	return contents, nil
}

// job is a scene on its way.
type job struct {
	*Scene
	objects []Object
	record  *Record
}

// objectsFolder is where the files of all objects are, below the scene's.
const objectsFolder = "objects"

// has reports whether a format was asked for.
func (s *Scene) has(format string) bool { return slices.Contains(s.Sampling.Formats, format) }

// begin makes the folder, finds out what is finished in it, and claims it by writing the record.
func (j *job) begin(ctx context.Context) error {
	if err := os.MkdirAll(j.Out, 0o777); err != nil {
		return err
	}
	known, err := j.known()
	if err != nil {
		return err
	}
	if j.objects, err = j.Objects(ctx); err != nil {
		return err
	}
	for _, m := range j.objects {
		o := &Made{Name: m.Name, Mask: m.Mask, Content: m.Content, State: Pending}
		if before := known[m.Name]; before != nil && before.Content == m.Content {
			whole, err := before.isWhole(j.Out)
			if err != nil {
				return err
			}
			if whole {
				before.Mask, o = m.Mask, before
			}
		}
		j.record.Objects = append(j.record.Objects, o)
	}
	return j.record.write(j.Out)
}

// known returns the objects of an earlier run. It fails if the folder is another scene's, or none.
func (j *job) known() (map[string]*Made, error) {
	known := make(map[string]*Made)
	if j.Force {
		return known, nil
	}
	path := filepath.Join(j.Out, RecordName)
	old, err := readRecord(j.Out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		for _, name := range []string{sceneSplats, sceneMeshes, objectsFolder} {
			if _, err := os.Lstat(filepath.Join(j.Out, name)); err == nil {
				return nil, fmt.Errorf("%s: %w, without a %s; -force overwrites it", filepath.Join(j.Out, name), fs.ErrExist, RecordName)
			}
		}
		return known, nil
	case err != nil:
		return nil, fmt.Errorf("%w; -force overwrites it", err)
	case old.Request != j.record.Request:
		return nil, fmt.Errorf("%s: %w: it is of another photograph, model or setting; -force overwrites it", path, fs.ErrExist)
	}
	j.record.Camera, j.record.Metric, j.record.Seconds, j.record.Warnings = old.Camera, old.Metric, old.Seconds, old.Warnings
	for _, o := range old.Objects {
		if o != nil {
			known[o.Name] = o
		}
	}
	return known, nil
}
