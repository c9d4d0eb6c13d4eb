// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package testdata embeds a picture and a small model, so that the example and the tests run without a download.
package testdata

import (
	"embed"
	"io/fs"
)

//go:embed picture/image.png
var Image []byte // a rendered mug on a table, 320 x 240

//go:embed picture/mask.png
var Mask []byte // the mug's pixels

//go:embed reference/checkpoint_official_tiny/*.ckpt reference/checkpoint_official_tiny/*.yaml
//go:embed reference/checkpoint_official_tiny/moge-vitl
var model embed.FS

// Model returns the checkpoint folder of the small model, in the official layout. Its weights are random numbers: it
// runs every stage of the real architecture and shows the machinery, not the object.
func Model() fs.FS {
	sub, err := fs.Sub(model, "reference/checkpoint_official_tiny")
	if err != nil {
		panic(err) // the folder is embedded above
	}
	return sub
}
