// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Command render draws a turntable of Gaussians or of a mesh: PNG frames and an animated GIF.
//
//	go run ./examples/render
//	go run ./examples/render -in out/gaussians.ply -out turntable
//	go run ./examples/render -in out/mesh.glb -out turntable -frames 60 -elevation 30 -background transparent
//
// Without -in it draws three arrows of splats: red to +x, green to +y, blue to +z.
package main

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/gomlx3d/image3d/examples/internal/cli"
	"github.com/gomlx3d/image3d/export"
	"github.com/gomlx3d/image3d/render"
)

func main() { cli.Main(run) }

// run is the program. It returns the exit status: 0, 1 for a failure, 2 for a wrong command line.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p := cli.Program{Name: "render", Stdout: stdout, Stderr: stderr}
	s, err := parse(args, stderr)
	if err != nil {
		return p.Refuse(err)
	}
	return p.End(turntable(ctx, s, stdout, stderr))
}

// turntable draws and writes all files. If it fails, those it has written are removed again.
func turntable(ctx context.Context, s settings, stdout, stderr io.Writer) (err error) {
	if err := prepareFolder(s); err != nil {
		return err
	}
	subject, err := load(s)
	if err != nil {
		return err
	}
	var written []string
	defer func() {
		if err != nil {
			for _, path := range written {
				err = errors.Join(err, os.Remove(path))
			}
		}
	}()
	write := func(name string, encode func(io.Writer) error) error {
		path := filepath.Join(s.out, name)
		err := export.File(path, s.force, encode)
		if err == nil {
			written = append(written, path)
		}
		return err
	}

	turn := time.Duration(s.seconds * float64(time.Second))
	animation := render.Animation{Delay: turn / time.Duration(s.frames)}
	bar := newProgress(stderr, s.frames)
	defer bar.close()
	began := time.Now()
	for i := range s.frames {
		picture, err := s.frame(ctx, subject, i)
		if err != nil {
			return err
		}
		if err := write(frameName(i), func(w io.Writer) error { return png.Encode(w, picture) }); err != nil {
			return err
		}
		if s.gif {
			animation.Frames = append(animation.Frames, picture)
		}
		bar.done(i + 1)
	}
	bar.close()
	if s.gif {
		if err := write(gifName, func(w io.Writer) error { return animation.Write(ctx, w) }); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(stdout, "%s, %d frames of %dx%d in %s\n%s\n", subject.what, s.frames, s.size, s.size,
		time.Since(began).Round(10*time.Millisecond), written[len(written)-1])
	return err
}

// frame draws frame i of the turn.
func (s settings) frame(ctx context.Context, what *subject, i int) (*image.RGBA, error) {
	orbit := render.Orbit{Target: what.bounds, Elevation: s.elevation, FOV: s.fov, Distance: s.distance}
	azimuth := s.azimuth + 360*float64(i)/float64(s.frames)
	frame, err := what.draw(ctx, orbit.Camera(azimuth, s.size, s.size))
	if err != nil {
		return nil, err
	}
	return frame.Over(s.background), nil
}

const gifName = "turntable.gif"

func frameName(i int) string { return fmt.Sprintf("frame-%04d.png", i) }

// prepareFolder makes the folder and finds out, before any work, whether something would be overwritten.
func prepareFolder(s settings) error {
	names := []string{gifName}
	if !s.gif {
		names = nil
	}
	for i := range s.frames {
		names = append(names, frameName(i))
	}
	return cli.MakeFolder(s.out, s.force, names...)
}
