// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"image"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx3d/image3d/examples/internal/scenes"
	"github.com/gomlx3d/image3d/sam3d"
	"github.com/gomlx3d/image3d/testdata"
)

// inputs are the photograph and what marks its objects. Pictures are read when they are needed.
type inputs struct {
	photo    func() (sam3d.Request, error) // with Image and PointMap
	objects  []scenes.Object
	contents map[string]string // what the photograph and the point map are: hashes by role
}

// inputs finds the objects.
func (s *settings) inputs() (*inputs, error) {
	if s.image == "" {
		return embedded()
	}
	contents, err := scenes.Contents(s.image, s.points)
	if err != nil {
		return nil, err
	}
	in := &inputs{contents: contents, photo: func() (r sam3d.Request, err error) {
		if r.Image, err = sam3d.FromFile(s.image, s.loader.Image); err == nil {
			r.PointMap, err = s.points.Read(s.loader)
		}
		return r, err
	}}
	if s.labels != "" {
		in.objects, err = s.labelled()
	} else {
		in.objects, err = s.masked()
	}
	if err != nil {
		return nil, err
	}
	scenes.Distinguish(in.objects)
	return in, nil
}

// masked returns the objects of the mask files.
func (s *settings) masked() (objects []scenes.Object, err error) {
	var files []string
	for _, path := range s.masks {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		inside, err := s.masksIn(path)
		if err != nil {
			return nil, err
		}
		files = append(files, inside...)
	}
	for _, path := range files {
		content, err := scenes.HashFile(path)
		if err != nil {
			return nil, err
		}
		base := filepath.Base(path)
		objects = append(objects, scenes.Object{
			Name: strings.TrimSuffix(base, filepath.Ext(base)), Mask: path, Content: content,
			Read: func(picture image.Image) (image.Image, error) {
				mask, err := sam3d.FromFile(path, s.loader.Mask)
				if err != nil {
					return nil, err
				}
				return s.fitted(mask, picture)
			},
		})
	}
	return objects, nil
}

// pictureFiles are the endings of files that are taken from a folder.
var pictureFiles = []string{".png", ".jpg", ".jpeg", ".gif", ".webp", ".tif", ".tiff", ".bmp"}

// overlay is a picture that the program segment leaves beside its masks.
const overlay = "overlay.png"

// masksIn lists the pictures in a folder, but for the photograph, an overlay and hidden files, with numbers in their
// order.
func (s *settings) masksIn(folder string) (files []string, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	photo, err := os.Stat(s.image)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		path := filepath.Join(folder, entry.Name())
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if info.IsDir() || os.SameFile(info, photo) || entry.Name() == overlay || strings.HasPrefix(entry.Name(), ".") ||
			!slices.Contains(pictureFiles, strings.ToLower(filepath.Ext(path))) {
			continue
		}
		files = append(files, path)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: there is no mask in this folder", folder)
	}
	slices.SortStableFunc(files, byNumbers)
	return files, nil
}

// byNumbers compares names so that mask2 comes before mask10.
func byNumbers(a, b string) int {
	for a != "" && b != "" {
		headA, numberA, restA := cutNumber(a)
		headB, numberB, restB := cutNumber(b)
		if c := cmp.Or(strings.Compare(headA, headB), cmp.Compare(len(numberA), len(numberB)), strings.Compare(numberA, numberB)); c != 0 {
			return c
		}
		a, b = restA, restB
	}
	return cmp.Compare(len(a), len(b))
}

// cutNumber cuts a text at its first number, which loses its leading zeros.
func cutNumber(text string) (head, number, rest string) {
	const digits = "0123456789"
	start := strings.IndexAny(text, digits)
	if start < 0 {
		return text, "", ""
	}
	rest = strings.TrimLeft(text[start:], digits)
	return text[:start], strings.TrimLeft(text[start:len(text)-len(rest)], "0"), rest
}

// labelled returns the objects of the label image.
func (s *settings) labelled() (objects []scenes.Object, err error) {
	content, err := scenes.HashFile(s.labels)
	if err != nil {
		return nil, err
	}
	labels, err := sam3d.FromFile(s.labels, s.loader.Labels)
	if err != nil {
		return nil, err
	}
	for i, name := range labels.Names {
		objects = append(objects, scenes.Object{
			Name: "label-" + name, Mask: s.labels + " " + name, Content: content + " " + name,
			Read: func(picture image.Image) (image.Image, error) { return s.fitted(labels.Mask(i), picture) },
		})
	}
	return objects, nil
}

// fitted returns a mask at the size of the photograph if that was asked for.
func (s *settings) fitted(mask, picture image.Image) (image.Image, error) {
	if !s.fitMask {
		return mask, nil
	}
	return sam3d.FitMask(mask, picture)
}

// embedded is a picture with a mug, and the table that it stands on.
func embedded() (*inputs, error) {
	picture, mug, err := testdata.Picture()
	if err != nil {
		return nil, err
	}
	b := picture.Bounds()
	table := image.NewGray(b)
	for y := b.Min.Y + b.Dy()*3/4; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			if r, _, _, _ := mug.At(x, y).RGBA(); r == 0 {
				table.SetGray(x, y, color.Gray{Y: 255})
			}
		}
	}
	known := func(mask image.Image) func(image.Image) (image.Image, error) {
		return func(image.Image) (image.Image, error) { return mask, nil }
	}
	return &inputs{
		photo: func() (sam3d.Request, error) { return sam3d.Request{Image: picture}, nil },
		objects: []scenes.Object{
			{Name: "mug", Mask: "embedded", Content: "mug", Read: known(mug)},
			{Name: "table", Mask: "embedded", Content: "table", Read: known(table)},
		},
		contents: map[string]string{"image": "embedded"},
	}, nil
}
