// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package scenes

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/gomlx3d/image3d/examples/internal/objects"
	"github.com/gomlx3d/image3d/export"
	"github.com/gomlx3d/image3d/sam3d"
	"github.com/gomlx3d/image3d/splat"
)

// makeObjects makes the objects that are not done.
func (j *job) makeObjects(ctx context.Context) error {
	left := 0
	for _, o := range j.record.Objects {
		if o.State == Pending {
			left++
		}
	}
	if left < len(j.record.Objects) {
		fmt.Fprintf(j.Stderr, "%d of %d objects are there already\n", len(j.record.Objects)-left, len(j.record.Objects))
	}
	if left == 0 {
		return nil
	}
	shared, err := j.Photo()
	if err != nil {
		return err
	}
	pipeline, err := sam3d.Open(ctx, j.Checkpoint, j.Options)
	if err != nil {
		return err
	}
	defer pipeline.Close()
	bar := objects.NewProgress(j.Stderr)
	defer bar.Close()
	shared.Progress = bar.Of("photograph")
	photo, err := pipeline.Prepare(ctx, shared)
	if err != nil {
		return err
	}
	j.record.see(photo)
	bar.Close()
	for _, warning := range photo.Warnings {
		fmt.Fprintln(j.Stderr, "warning:", warning)
	}
	for i, o := range j.record.Objects {
		if o.State != Pending {
			continue
		}
		if err := j.makeObject(ctx, pipeline, i, photo, shared.Image, bar); err != nil {
			return err
		}
		if err := j.record.write(j.Out); err != nil {
			return err
		}
	}
	return nil
}

// makeObject makes one object, and notes if it fails. An error ends the work.
func (j *job) makeObject(ctx context.Context, p *sam3d.Pipeline, i int, photo *sam3d.Photo, picture image.Image, bar *objects.Progress) error {
	o, request := j.record.Objects[i], j.Sampling.Request()
	request.Photo, request.Progress = photo, bar.Of(fmt.Sprintf("[%d/%d] %s", i+1, len(j.objects), o.Name))
	mask, err := j.objects[i].Read(picture)
	if err == nil && j.objects[i].KeepMask {
		if err := j.write(o, objectMask, func(w io.Writer) error { return png.Encode(w, mask) }); err != nil {
			return err
		}
	}
	var result *sam3d.Result
	if err == nil {
		request.Mask = mask
		result, err = p.Generate(ctx, request)
	}
	bar.Close()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, sam3d.ErrNoVoxels) {
		err = fmt.Errorf("%w; the model sees no object there: check the mask, or try another -seed", err)
	}
	if err != nil {
		o.State, o.Error = Failed, err.Error()
		j.record.Failed++
		fmt.Fprintf(j.Stderr, "%s failed: %v\n", o.Name, err)
		return nil
	}
	return j.keep(o, result)
}

// keep writes the files of an object and notes what it became.
func (j *job) keep(o *Made, result *sam3d.Result) error {
	o.Pose = &Pose{result.Pose.Rotation, result.Pose.Translation, result.Pose.Scale}
	o.Voxels, o.Seconds, o.Warnings = len(result.Voxels)/3, result.Took.Seconds(), result.Warnings
	var err error
	if o.Splats, err = j.keepSplats(o, "gaussians.ply", result.Gaussians); err != nil {
		return err
	}
	if o.Splats4, err = j.keepSplats(o, "gaussians4.ply", result.Gaussians4); err != nil {
		return err
	}
	if m := result.Mesh; m != nil {
		o.Vertices, o.Faces = len(m.Vertices)/3, len(m.Faces)/3
		err := j.write(o, objectMesh, func(w io.Writer) error {
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
			fmt.Fprintf(j.Stderr, "%s: warning: %s\n", o.Name, warning)
		}
	}
	o.State = Done
	return nil
}

func (j *job) keepSplats(o *Made, name string, g *splat.Gaussians) (*Splats, error) {
	if g == nil {
		return nil, nil
	}
	err := j.write(o, name, func(w io.Writer) error { return export.WritePLY(w, g, export.PLYOptions{}) })
	return &Splats{g.Len(), g.Kernel}, err
}

// write writes a file of an object, in the place of one that is not whole, and notes it.
func (j *job) write(o *Made, name string, encode func(io.Writer) error) error {
	path := j.fileOf(o, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	var size counter
	sum := sha256.New()
	err := export.File(path, true, func(w io.Writer) error { return encode(io.MultiWriter(w, sum, &size)) })
	if err == nil {
		o.Files = append(o.Files, File{Path: objectsFolder + "/" + o.Name + "/" + name, Bytes: int64(size), SHA256: hexOf(sum)})
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
