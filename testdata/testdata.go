// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package testdata embeds a picture and a small model, so that the example and the tests run without a download.
package testdata

import (
	"bytes"
	"embed"
	"fmt"
	"image"
	"image/png"
	"io/fs"
	"os"
)

//go:embed picture/image.png
var Image []byte // a rendered mug on a table, 320 x 240

//go:embed picture/mask.png
var Mask []byte // the mug's pixels

//go:embed reference/checkpoint_official_tiny/*.yaml
//go:embed reference/checkpoint_official_tiny/ss_generator.ckpt
//go:embed reference/checkpoint_official_tiny/slat_*.ckpt
var reference embed.FS

//go:embed model
var model embed.FS

// WriteModel writes a small checkpoint in the official layout into an empty folder. Its weights are random numbers: it
// runs every stage of the real architecture and shows the machinery, not the object. It is the reference's small
// checkpoint with higher output biases of occupancy (3 for -7.5) and depth mask (1.5 for 0.149), so that every picture
// leads to some voxels.
func WriteModel(folder string) error {
	for _, part := range []struct {
		files embed.FS
		root  string
	}{{reference, "reference/checkpoint_official_tiny"}, {model, "model"}} {
		files, err := fs.Sub(part.files, part.root)
		if err != nil {
			return err
		}
		if err := os.CopyFS(folder, files); err != nil {
			return err
		}
	}
	return nil
}

// TempModel writes the small checkpoint into a temporary folder, which remove removes again.
func TempModel() (folder string, remove func(), err error) {
	if folder, err = os.MkdirTemp("", "image3d-model-"); err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(folder) }
	if err := WriteModel(folder); err != nil {
		remove()
		return "", nil, fmt.Errorf("unpack the embedded model: %w", err)
	}
	return folder, remove, nil
}

// Picture returns the embedded picture and its mask.
func Picture() (picture, mask image.Image, err error) {
	if picture, err = png.Decode(bytes.NewReader(Image)); err == nil {
		mask, err = png.Decode(bytes.NewReader(Mask))
	}
	return picture, mask, err
}
