// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"image"
	"image/png"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/gomlx3d/image3d/examples/internal/cli"
	"github.com/gomlx3d/image3d/examples/internal/segmenter"
	"github.com/gomlx3d/image3d/export"
)

const (
	overlayFile    = "overlay.png"
	detectionsFile = "detections.json"
)

func maskFile(i int) string { return fmt.Sprintf("mask_%03d.png", i) }

// ours are the names of the files that the program writes.
var ours = regexp.MustCompile(`^(mask_\d{3,}\.png|overlay\.png|detections\.json)$`)

// earlier returns the results of an earlier run in a folder.
func earlier(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, entry := range entries {
		if ours.MatchString(entry.Name()) {
			paths = append(paths, filepath.Join(folder, entry.Name()))
		}
	}
	return paths, nil
}

// prepareFolder makes the folder of the results and finds out, before any work, whether files can be made in it.
func prepareFolder(s settings) error {
	if err := cli.MakeFolder(s.out, s.force); err != nil {
		return err
	}
	paths, err := earlier(s.out)
	if err != nil {
		return err
	}
	if len(paths) > 0 && !s.force {
		return fmt.Errorf("%s: %w; -force overwrites it", paths[0], fs.ErrExist)
	}
	return cli.CheckWritable(s.out)
}

// report is detections.json, and what -json prints.
type report struct {
	Image      string      `json:"image"`
	Width      int         `json:"width"`
	Height     int         `json:"height"`
	Text       string      `json:"text,omitempty"`
	Detections []detection `json:"detections"`

	folder string
}

// detection is one object.
type detection struct {
	Mask   string     `json:"mask"` // a file in the same folder
	Box    [4]float64 `json:"box"`  // x0, y0, x1, y1 in pixels
	Score  float32    `json:"score"`
	Pixels int        `json:"pixels"` // inside the mask
}

// write writes the files, detections.json last, and takes away what is left of an earlier run.
func write(ctx context.Context, s settings, picture image.Image, objects []segmenter.Object) (*report, error) {
	size := picture.Bounds().Size()
	out := &report{
		Image: s.image, Width: size.X, Height: size.Y, Text: s.look.Text, Detections: []detection{}, folder: s.out,
	}
	old, err := earlier(s.out)
	if err != nil {
		return nil, err
	}
	stale := make(map[string]bool)
	for _, path := range old {
		stale[path] = true
	}
	save := func(name string, encode func(w io.Writer) error) error {
		path := filepath.Join(s.out, name)
		delete(stale, path)
		if err := ctx.Err(); err != nil {
			return err
		}
		return export.File(path, s.force, encode)
	}
	for i, object := range objects {
		b := object.Box
		out.Detections = append(out.Detections, detection{
			Mask: maskFile(i), Box: [4]float64{b.X0, b.Y0, b.X1, b.Y1}, Score: object.Score, Pixels: inside(object.Mask),
		})
		if err := save(maskFile(i), func(w io.Writer) error { return png.Encode(w, object.Mask) }); err != nil {
			return nil, err
		}
	}
	drawn := overlay(picture, objects)
	if err := save(overlayFile, func(w io.Writer) error { return png.Encode(w, drawn) }); err != nil {
		return nil, err
	}
	err = save(detectionsFile, func(w io.Writer) error { return cli.WriteJSON(w, out) })
	for path := range stale {
		if err == nil {
			err = os.Remove(path)
		}
	}
	return out, err
}

func inside(mask *image.Gray) (n int) {
	for _, v := range mask.Pix {
		if v != 0 {
			n++
		}
	}
	return n
}

// print writes the report for people.
func (r *report) print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%d found\n", len(r.Detections))
	for _, d := range r.Detections {
		if err == nil {
			_, err = fmt.Fprintf(w, "%s: score %.2f, %d pixels, box %.0f,%.0f,%.0f,%.0f\n", filepath.Join(r.folder, d.Mask), d.Score,
				d.Pixels, d.Box[0], d.Box[1], d.Box[2], d.Box[3])
		}
	}
	for _, name := range []string{overlayFile, detectionsFile} {
		if err == nil {
			_, err = fmt.Fprintln(w, filepath.Join(r.folder, name))
		}
	}
	return err
}
