// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package imageio

import (
	"bytes"
	"fmt"
	"image"
	_ "image/gif" // formats that Decode knows
	_ "image/jpeg"
	_ "image/png"
	"io"
	"os"

	_ "golang.org/x/image/bmp"
	_ "golang.org/x/image/tiff"
	_ "golang.org/x/image/webp"
)

// maxFileBytes bounds how much of a file is read.
const maxFileBytes = 1 << 29

// Decode reads a PNG, JPEG, GIF (its first frame), WebP, TIFF or BMP picture and turns it upright as its EXIF
// orientation says; EXIF data that cannot be read counts as none. The size in the header is checked before anything is
// decoded: ErrTooLarge says that it is above maxPixels (0 means DefaultMaxPixels). Unknown formats give image.ErrFormat.
// The string names the format, as image.Decode does.
func Decode(r io.Reader, maxPixels int) (img image.Image, format string, err error) {
	if maxPixels <= 0 {
		maxPixels = DefaultMaxPixels
	}
	data, err := io.ReadAll(io.LimitReader(r, maxFileBytes+1))
	if err != nil {
		return nil, "", fmt.Errorf("imageio: reading a picture: %w", err)
	}
	if len(data) > maxFileBytes {
		return nil, "", fmt.Errorf("%w: the file has more than %d bytes", ErrTooLarge, maxFileBytes)
	}
	defer func() {
		// The decoders are other people's and the data anybody's: a fault there must not end the program.
		if r := recover(); r != nil {
			img, err = nil, fmt.Errorf("imageio: decoding %s: %v", format, r)
		}
	}()
	config, format, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, format, fmt.Errorf("imageio: decoding a picture: %w", err)
	}
	if err := checkPixels(config.Width, config.Height, maxPixels); err != nil {
		return nil, format, err
	}
	img, _, err = image.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, format, fmt.Errorf("imageio: decoding %s: %w", format, err)
	}
	img, err = onCanvas(img, config.Width, config.Height)
	if err != nil {
		return nil, format, err
	}
	img, err = upright(img, orientation(data, format))
	return img, format, err
}

// DecodeFile is Decode of a file.
func DecodeFile(path string, maxPixels int) (image.Image, string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, "", fmt.Errorf("imageio: %w", err)
	}
	defer file.Close()
	img, format, err := Decode(file, maxPixels)
	if err != nil {
		return nil, format, fmt.Errorf("%s: %w", path, err)
	}
	return img, format, nil
}

// DecodeMask reads a picture with Decode and takes the mask it shows, as Mask does. A JPEG is cut at half brightness,
// because its compression leaves traces of grey where nothing was painted.
func DecodeMask(r io.Reader, maxPixels int) (*image.Gray, error) {
	img, format, err := Decode(r, maxPixels)
	if err != nil {
		return nil, err
	}
	mask, err := Mask(img)
	if err == nil && format == "jpeg" {
		binarise(mask)
	}
	return mask, err
}

// DecodeMaskFile is DecodeMask of a file.
func DecodeMaskFile(path string, maxPixels int) (*image.Gray, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("imageio: %w", err)
	}
	defer file.Close()
	mask, err := DecodeMask(file, maxPixels)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return mask, nil
}

// onCanvas places a picture that covers a part of its canvas only, as a GIF's first frame may; the rest is transparent.
func onCanvas(img image.Image, width, height int) (image.Image, error) {
	canvas := image.Rect(0, 0, width, height)
	part := img.Bounds()
	if part == canvas {
		return img, nil
	}
	frame, err := NRGBA(img)
	if err != nil {
		return nil, err
	}
	out := image.NewNRGBA(canvas)
	shown := part.Intersect(canvas)
	for y := shown.Min.Y; y < shown.Max.Y; y++ {
		from := row(frame, y-part.Min.Y)[4*(shown.Min.X-part.Min.X):]
		copy(row(out, y)[4*shown.Min.X:4*shown.Max.X], from)
	}
	return out, nil
}
