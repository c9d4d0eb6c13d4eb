// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/hex"
	"flag"
	"fmt"
	"image"
	"image/color"
	"io"
	"strings"

	"github.com/gomlx3d/image3d/examples/internal/cli"
)

// Limits of what is asked for. All frames of an animation are in memory, 4 bytes a pixel.
const (
	maxFrames    = 3600
	maxSize      = 4096
	maxGIFPixels = 1 << 27
)

// settings are the flags.
type settings struct {
	in, out                                    string
	frames, size                               int
	azimuth, elevation, distance, fov, seconds float64
	background                                 image.Image
	gif, posed, unlit, force                   bool
}

func parse(args []string, stderr io.Writer) (settings, error) {
	var s settings
	var background string
	flags := flag.NewFlagSet("render", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&s.in, "in", "", "Gaussians as .ply, or a mesh as .glb, .obj or .stl (default: three arrows along the axes)")
	flags.StringVar(&s.out, "out", "turntable", "folder of the pictures")
	flags.IntVar(&s.frames, "frames", 36, "of one turn")
	flags.IntVar(&s.size, "size", 512, "width and height of the pictures in pixels")
	flags.Float64Var(&s.azimuth, "azimuth", 0, "of the first frame in degrees: 0 sees the object from -y, with +x on the right")
	flags.Float64Var(&s.elevation, "elevation", 20, "of the camera in degrees")
	flags.Float64Var(&s.distance, "distance", 0, "of the camera from the middle of the object, in its units (default: as near as it stays in the picture)")
	flags.Float64Var(&s.fov, "fov", 40, "field of view in degrees")
	flags.Float64Var(&s.seconds, "seconds", 3, "that a turn takes in the animation")
	flags.StringVar(&background, "background", "white", "white, black, transparent or #rrggbb")
	flags.BoolVar(&s.gif, "gif", true, "write "+gifName+" too")
	flags.BoolVar(&s.posed, "posed", false, "the file is in the camera frame, +Y up, as scenes of posed objects are; the first frame sees it from the camera's side")
	flags.BoolVar(&s.unlit, "unlit", false, "draw the colours of a mesh without a light")
	flags.BoolVar(&s.force, "force", false, "overwrite pictures that exist")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("%w: unexpected argument %q", cli.ErrUsage, flags.Arg(0))
	}
	var err error
	if s.background, err = parseBackground(background); err != nil {
		return s, err
	}
	return s, s.check()
}

// check reports a value out of range.
func (s settings) check() error {
	for _, c := range []struct {
		ok   bool
		text string
	}{
		{s.frames >= 1 && s.frames <= maxFrames, fmt.Sprintf("-frames %d, want 1 to %d", s.frames, maxFrames)},
		{s.size >= 1 && s.size <= maxSize, fmt.Sprintf("-size %d, want 1 to %d", s.size, maxSize)},
		{s.azimuth >= -360 && s.azimuth <= 360, fmt.Sprintf("-azimuth %v, want -360 to 360", s.azimuth)},
		{s.elevation >= -90 && s.elevation <= 90, fmt.Sprintf("-elevation %v, want -90 to 90", s.elevation)},
		{s.distance >= 0 && s.distance < 1e30, fmt.Sprintf("-distance %v, want more than 0", s.distance)},
		{s.fov >= 0.1 && s.fov <= 170, fmt.Sprintf("-fov %v, want 0.1 to 170", s.fov)},
		{s.seconds > 0 && s.seconds <= 600, fmt.Sprintf("-seconds %v, want more than 0 and at most 600", s.seconds)},
		{!s.gif || s.frames*s.size*s.size <= maxGIFPixels, fmt.Sprintf("%d frames of %dx%d do not fit an animation: -gif=false, or fewer", s.frames, s.size, s.size)},
	} {
		if !c.ok {
			return fmt.Errorf("%w: %s", cli.ErrUsage, c.text)
		}
	}
	return nil
}

func parseBackground(text string) (image.Image, error) {
	switch text {
	case "white":
		return image.White, nil
	case "black":
		return image.Black, nil
	case "transparent":
		return image.Transparent, nil
	}
	digits, ok := strings.CutPrefix(text, "#")
	rgb, err := hex.DecodeString(digits)
	if !ok || err != nil || len(rgb) != 3 {
		return nil, fmt.Errorf("%w: -background %q, want white, black, transparent or #rrggbb", cli.ErrUsage, text)
	}
	return image.NewUniform(color.RGBA{rgb[0], rgb[1], rgb[2], 255}), nil
}
