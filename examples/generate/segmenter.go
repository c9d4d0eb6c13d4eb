// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"image"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gomlx3d/image3d/examples/internal/cli"
	"github.com/gomlx3d/image3d/examples/internal/objects"
	"github.com/gomlx3d/image3d/examples/internal/scenes"
	"github.com/gomlx3d/image3d/examples/internal/segmenter"
	"github.com/gomlx3d/image3d/sam3d"
	"github.com/gomlx3d/image3d/sam3d/segment"
)

// finder are the flags that find the object by words or clicks, in place of a mask.
type finder struct {
	segmenter.Flags
	all bool
}

// define adds the flags.
func (f *finder) define(flags *flag.FlagSet) {
	f.Flags.Define(flags, "segmenter", " to find the object with, in place of -mask", "point",
		"clicks on the object, or with -all one on each object; may be repeated")
	flags.BoolVar(&f.all, "all", false, "make every object that -segmenter finds, and a scene of them, as examples/scene does")
}

// on reports whether the object is to be looked for.
func (f *finder) on() bool { return f.Checkpoint != "" }

// check reports flags that do not go together.
func (f *finder) check(in *inputs) error {
	negative := slices.ContainsFunc(f.Points, func(p segment.Point) bool { return p.Label == segment.Background })
	switch {
	case (f.Given() || f.all || f.Vocabulary != "") && !f.on():
		return fmt.Errorf("%w: -text, -point, -boxes, -vocabulary and -all need a -segmenter", cli.ErrUsage)
	case !f.on():
		return nil
	case in.image == "":
		return fmt.Errorf("%w: -segmenter needs an -image", cli.ErrUsage)
	case in.mask != "":
		return fmt.Errorf("%w: -segmenter and -mask exclude each other", cli.ErrUsage)
	case !f.Given():
		return fmt.Errorf("%w: -segmenter needs -text, -boxes or -point", cli.ErrUsage)
	case len(f.Points) > 0 && !f.Clicks():
		return fmt.Errorf("%w: -point goes neither with -text nor with -boxes", cli.ErrUsage)
	case f.all && negative:
		return fmt.Errorf("%w: with -all each -point is on an object of its own", cli.ErrUsage)
	}
	return f.Check()
}

// mask looks for the object. The network is gone again when it returns.
func (f *finder) mask(ctx context.Context, backend string, picture image.Image, stderr io.Writer) (mask *image.Gray, err error) {
	err = f.Encoded(ctx, backend, picture, func(encoding *segment.Encoding) error {
		found, err := f.best(ctx, encoding)
		if err != nil {
			return err
		}
		fmt.Fprintf(stderr, "segmented the best of %d, score %.2f\n", len(found), found[0].Score)
		mask = found[0].Mask
		return nil
	})
	return mask, segmenter.Hint(err)
}

// best finds what the flags ask for, best score first.
func (f *finder) best(ctx context.Context, encoding *segment.Encoding) ([]segmenter.Object, error) {
	found, err := f.Find(ctx, encoding)
	if err != nil {
		return nil, err
	}
	return segmenter.Sorted(found)
}

// everything looks for all objects: what words and examples describe, best score first, or what is under each point.
func (f *finder) everything(ctx context.Context, backend string, picture image.Image) (found []segmenter.Object, err error) {
	err = f.Encoded(ctx, backend, picture, func(encoding *segment.Encoding) error {
		if !f.Clicks() {
			found, err = f.best(ctx, encoding)
			return err
		}
		for _, point := range f.Points {
			one, err := segmenter.Click(ctx, encoding, segment.ClickPrompt{Points: []segment.Point{point}})
			if err != nil {
				return err
			}
			found = append(found, one...)
		}
		if len(found) == 0 {
			return segmenter.ErrNothing
		}
		return nil
	})
	return found, segmenter.Hint(err)
}

// makeAll makes a scene of all objects that the segmenter finds.
func makeAll(ctx context.Context, s settings, stderr io.Writer) (*scenes.Record, error) {
	in := &s.inputs
	contents, err := scenes.Contents(in.image, in.points)
	if err != nil {
		return nil, err
	}
	if contents["prompt"], err = in.segmenter.hash(); err != nil {
		return nil, err
	}
	model, cleanUp, err := objects.Checkpoint(ctx, s.model, stderr)
	if err != nil {
		return nil, err
	}
	defer cleanUp()
	photo := sync.OnceValues(func() (r sam3d.Request, err error) { err = in.read(&r); return r, err })
	scene := scenes.Scene{
		Out: s.out, Force: s.force, Stderr: stderr, Image: in.image, Model: s.model, Checkpoint: model,
		Options:  s.options(),
		Sampling: s.sampling, Points: in.points, Loader: in.loader, FitMask: in.fitMask, Contents: contents, Photo: photo,
		Objects: func(ctx context.Context) ([]scenes.Object, error) {
			request, err := photo()
			if err != nil {
				return nil, err
			}
			found, err := in.segmenter.everything(ctx, s.backend, request.Image)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(stderr, "segmented %d objects\n", len(found))
			return in.segmenter.objects(found), nil
		},
	}
	return scene.Make(ctx)
}

// hash is of what is looked for, and of the names of the files that do. What they find is told apart by itself.
func (f *finder) hash() (string, error) {
	prompt, err := json.Marshal(f.Flags)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(prompt)
	return hex.EncodeToString(sum[:]), nil
}

// objects are those of the scene.
func (f *finder) objects(found []segmenter.Object) []scenes.Object {
	name := strings.Join(strings.Fields(f.Text), "-")
	if name == "" {
		name = "object"
	}
	var out []scenes.Object
	for i, o := range found {
		sum := sha256.Sum256(o.Mask.Pix)
		out = append(out, scenes.Object{
			Name: name + "-" + strconv.Itoa(i+1), Mask: fmt.Sprintf("segmented, score %.2f", o.Score),
			Content: hex.EncodeToString(sum[:]), KeepMask: true,
			Read: func(image.Image) (image.Image, error) { return o.Mask, nil },
		})
	}
	scenes.Distinguish(out)
	return out
}
