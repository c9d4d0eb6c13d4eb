// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/gomlx3d/image3d/examples/internal/objects"
	"github.com/gomlx3d/image3d/export"
	"github.com/gomlx3d/image3d/sam3d"
	"github.com/gomlx3d/image3d/splat"
)

// job is a scene on its way.
type job struct {
	settings *settings
	in       *inputs
	model    string // a folder
	stderr   io.Writer
	record   *record
}

// objectsFolder is where the files of all objects are, below the scene's.
const objectsFolder = "objects"

// begin makes the folder, finds out what is finished in it, and claims it by writing the record.
func (j *job) begin() error {
	out := j.settings.out
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	known := make(map[string]*object)
	old, err := readRecord(out)
	switch {
	case j.settings.force:
	case errors.Is(err, fs.ErrNotExist):
		for _, name := range []string{sceneSplats, sceneMeshes, objectsFolder} {
			if _, err := os.Lstat(filepath.Join(out, name)); err == nil {
				return fmt.Errorf("%s: %w, without a %s; -force overwrites it", filepath.Join(out, name), fs.ErrExist, recordName)
			}
		}
	case err != nil:
		return fmt.Errorf("%w; -force overwrites it", err)
	case old.Request != j.record.Request:
		return fmt.Errorf("%s: %w: it is of another photograph, model or setting; -force overwrites it", filepath.Join(out, recordName), fs.ErrExist)
	default:
		j.record.Camera, j.record.Metric, j.record.Seconds, j.record.Warnings = old.Camera, old.Metric, old.Seconds, old.Warnings
		for _, o := range old.Objects {
			if o != nil {
				known[o.Name] = o
			}
		}
	}
	for _, m := range j.in.objects {
		o := &object{Name: m.name, Mask: m.mask, Content: m.content, State: pending}
		if before := known[m.name]; before != nil && before.Content == m.content {
			whole, err := before.isWhole(out)
			if err != nil {
				return err
			}
			if whole {
				before.Mask, o = m.mask, before
			}
		}
		j.record.Objects = append(j.record.Objects, o)
	}
	return j.record.write(out)
}

// makeObjects makes the objects that are not done.
func (j *job) makeObjects(ctx context.Context) error {
	left := 0
	for _, o := range j.record.Objects {
		if o.State == pending {
			left++
		}
	}
	if left < len(j.record.Objects) {
		fmt.Fprintf(j.stderr, "%d of %d objects are there already\n", len(j.record.Objects)-left, len(j.record.Objects))
	}
	if left == 0 {
		return nil
	}
	shared, err := j.in.photo()
	if err != nil {
		return err
	}
	pipeline, err := sam3d.Open(ctx, j.model, sam3d.Options{
		Backend: j.settings.backend, DepthModel: j.settings.depthModel, Stream: j.settings.stream,
	})
	if err != nil {
		return err
	}
	defer pipeline.Close()
	bar := objects.NewProgress(j.stderr)
	defer bar.Close()
	shared.Progress = bar.Of("photograph")
	photo, err := pipeline.Prepare(ctx, shared)
	if err != nil {
		return err
	}
	j.record.see(photo)
	bar.Close()
	for _, warning := range photo.Warnings {
		fmt.Fprintln(j.stderr, "warning:", warning)
	}
	for i, o := range j.record.Objects {
		if o.State != pending {
			continue
		}
		request := j.settings.request(photo)
		request.Progress = bar.Of(fmt.Sprintf("[%d/%d] %s", i+1, len(j.record.Objects), o.Name))
		result, err := j.generate(ctx, pipeline, request, j.in.objects[i], shared)
		bar.Close()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			o.State, o.Error = failed, err.Error()
			j.record.Failed++
			fmt.Fprintf(j.stderr, "%s failed: %v\n", o.Name, err)
		} else if err := j.keep(o, result); err != nil {
			return err
		}
		if err := j.record.write(j.settings.out); err != nil {
			return err
		}
	}
	return nil
}

// generate makes one object.
func (j *job) generate(ctx context.Context, p *sam3d.Pipeline, r sam3d.Request, m marked, shared sam3d.Request) (*sam3d.Result, error) {
	var err error
	if r.Mask, err = m.read(shared.Image); err != nil {
		return nil, err
	}
	result, err := p.Generate(ctx, r)
	if errors.Is(err, sam3d.ErrNoVoxels) {
		return nil, fmt.Errorf("%w; the model sees no object there: check the mask, or try another -seed", err)
	}
	return result, err
}

// keep writes the files of an object and notes what it became.
func (j *job) keep(o *object, result *sam3d.Result) error {
	folder := path.Join(objectsFolder, o.Name)
	if err := os.MkdirAll(filepath.Join(j.settings.out, filepath.FromSlash(folder)), 0o777); err != nil {
		return err
	}
	o.Pose = &poseJSON{result.Pose.Rotation, result.Pose.Translation, result.Pose.Scale}
	o.Voxels, o.Seconds, o.Warnings = len(result.Voxels)/3, result.Took.Seconds(), result.Warnings
	var err error
	if o.Splats, err = j.keepSplats(o, path.Join(folder, "gaussians.ply"), result.Gaussians); err != nil {
		return err
	}
	if o.Splats4, err = j.keepSplats(o, path.Join(folder, "gaussians4.ply"), result.Gaussians4); err != nil {
		return err
	}
	if m := result.Mesh; m != nil {
		o.Vertices, o.Faces = len(m.Vertices)/3, len(m.Faces)/3
		err := j.write(o, path.Join(folder, objectMesh), func(w io.Writer) error {
			return export.WriteGLB(w, export.GLBOptions{}, export.Part{Name: o.Name, Mesh: m})
		})
		if errors.Is(err, export.ErrEmptyMesh) {
			o.Warnings = append(o.Warnings, "the mesh has no triangles: "+objectMesh+" was not written")
		} else if err != nil {
			return err
		}
	}
	for _, warning := range o.Warnings {
		if !slices.Contains(j.record.Warnings, warning) { // those were told
			fmt.Fprintf(j.stderr, "%s: warning: %s\n", o.Name, warning)
		}
	}
	o.State = done
	return nil
}

func (j *job) keepSplats(o *object, name string, g *splat.Gaussians) (*splatsJSON, error) {
	if g == nil {
		return nil, nil
	}
	err := j.write(o, name, func(w io.Writer) error { return export.WritePLY(w, g, export.PLYOptions{}) })
	return &splatsJSON{g.Len(), g.Kernel}, err
}

// write writes a file of an object, in the place of one that is not whole, and notes it.
func (j *job) write(o *object, name string, encode func(io.Writer) error) error {
	var size counter
	sum := sha256.New()
	err := export.File(filepath.Join(j.settings.out, filepath.FromSlash(name)), true, func(w io.Writer) error {
		return encode(io.MultiWriter(w, sum, &size))
	})
	if err == nil {
		o.Files = append(o.Files, objectFile{Path: name, Bytes: int64(size), SHA256: hexOf(sum)})
	}
	return err
}

// counter counts what is written to it.
type counter int64

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
