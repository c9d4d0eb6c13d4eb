// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package imageio

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	_ "image/gif" // formats that Decode knows
	_ "image/jpeg"
	_ "image/png"
	"io"

	_ "golang.org/x/image/bmp"
)

// Limits of a file beside the number of its pixels.
const (
	// maxFileBytes is what a file may hold in all, and maxExtraBytes what it may hold beside its pixels: metadata,
	// thumbnails, further pages. maxPixelBytes is what a pixel takes at most where nothing is compressed.
	maxFileBytes  = 1 << 29
	maxExtraBytes = 1 << 26
	maxPixelBytes = 8
)

// Decode reads a PNG, JPEG, GIF (its first frame), WebP, TIFF or BMP picture and turns it upright as its EXIF
// orientation says; EXIF data that cannot be read counts as none. The size in the header is checked before the pixels
// are read, let alone decoded: ErrTooLarge says that it is above maxPixels (0 means DefaultMaxPixels), or that the file
// is longer than such a picture can be. Unknown formats give image.ErrFormat.
// The string names the format, as image.Decode does.
func Decode(r io.Reader, maxPixels int) (img image.Image, format string, err error) {
	e, err := readEncoded(r, maxPixels)
	if err != nil {
		return nil, e.format, err
	}
	if img, _, err = e.decode(); err != nil {
		return nil, e.format, err
	}
	img, err = upright(img, orientation(e.data, e.format))
	return img, e.format, err
}

// MaskOptions change what DecodeMask reads.
type MaskOptions struct {
	// MaxPixels is the limit of Decode.
	MaxPixels int
	// NonZero takes every pixel in whole that is not zero, as the program around the original model does.
	NonZero bool
}

// DecodeMask reads a picture as Decode does and takes the mask it shows, as Mask does. A JPEG is cut at half
// brightness, because its compression leaves traces of grey where nothing was painted.
func DecodeMask(r io.Reader, o MaskOptions) (mask *image.Gray, err error) {
	e, err := readEncoded(r, o.MaxPixels)
	if err != nil {
		return nil, err
	}
	img, lossy, err := e.decode()
	if err != nil {
		return nil, err
	}
	values, err := valuesOf(img, lossy)
	if err != nil {
		return nil, err
	}
	if o.NonZero {
		mask = values.nonZero()
	} else {
		mask = values.mask()
	}
	turned, err := upright(mask, orientation(e.data, e.format))
	if err != nil {
		return nil, err
	}
	return turned.(*image.Gray), nil // grey stays grey
}

// encoded is a picture's file, whose header is known to be within the limits.
type encoded struct {
	data   []byte
	format string
	config image.Config
}

// readEncoded reads the header, checks the size it tells, and reads the rest.
func readEncoded(r io.Reader, maxPixels int) (e encoded, err error) {
	if maxPixels <= 0 {
		maxPixels = DefaultMaxPixels
	}
	defer func() { // as in decode
		if r := recover(); r != nil {
			err = fmt.Errorf("imageio: reading the header of a picture: %v", r)
		}
	}()
	var data bytes.Buffer
	if err := readUpTo(&data, r, len(tiffLittle)); err != nil {
		return e, err
	}
	if isTIFF(data.Bytes()) { // the header may be anywhere
		if err := readAll(&data, r, fileLimit(maxPixels)); err != nil {
			return e, err
		}
	}
	header := io.MultiReader(bytes.NewReader(bytes.Clone(data.Bytes())), io.TeeReader(io.LimitReader(r, maxExtraBytes), &data))
	if isTIFF(data.Bytes()) {
		header = bytes.NewReader(data.Bytes())
	}
	if e.config, e.format, err = image.DecodeConfig(header); err != nil {
		return e, undecodable(data.Bytes(), err)
	}
	if err := checkPixels(e.config.Width, e.config.Height, maxPixels); err != nil {
		return e, err
	}
	err = readAll(&data, r, fileLimit(e.config.Width*e.config.Height))
	e.data = data.Bytes()
	return e, err
}

// fileLimit is how long the file of a picture may be.
func fileLimit(pixels int) int {
	return min(maxExtraBytes+maxPixelBytes*min(pixels, maxFileBytes/maxPixelBytes), maxFileBytes)
}

// readUpTo appends at most n bytes.
func readUpTo(data *bytes.Buffer, r io.Reader, n int) error {
	if _, err := data.ReadFrom(io.LimitReader(r, int64(n))); err != nil {
		return fmt.Errorf("imageio: reading a picture: %w", err)
	}
	return nil
}

// readAll appends what is left, and fails if there are more than limit bytes in all.
func readAll(data *bytes.Buffer, r io.Reader, limit int) error {
	if err := readUpTo(data, r, max(limit-data.Len(), 0)+1); err != nil {
		return err
	}
	if data.Len() > limit {
		return fmt.Errorf("%w: the file has more than %d bytes", ErrTooLarge, limit)
	}
	return nil
}

// undecodable explains why a picture cannot be read.
func undecodable(data []byte, err error) error {
	if errors.Is(err, image.ErrFormat) && len(data) >= 12 && string(data[4:8]) == "ftyp" {
		return fmt.Errorf("imageio: HEIC, AVIF and videos (%q) cannot be read; save the picture as PNG or JPEG: %w", data[8:12], err)
	}
	return fmt.Errorf("imageio: decoding a picture: %w", err)
}

// decode decodes the pixels, as they are stored, and tells whether they were compressed with loss.
func (e encoded) decode() (img image.Image, lossy bool, err error) {
	defer func() {
		// The decoders are other people's and the data anybody's: a fault there must not end the program.
		if r := recover(); r != nil {
			img, err = nil, fmt.Errorf("imageio: decoding %s: %v", e.format, r)
		}
	}()
	switch e.format {
	case "png":
		img, _, err = image.Decode(pngPixels(e.data))
	case "jpeg":
		lossy = true
		img, err = decodeJPEG(e.data)
	case "webp":
		img, lossy, err = decodeWebP(e.data)
	case "tiff":
		img, err = decodeTIFF(e.data)
	default:
		img, _, err = image.Decode(bytes.NewReader(e.data))
	}
	if err != nil {
		return nil, false, fmt.Errorf("imageio: decoding %s: %w", e.format, err)
	}
	img, err = onCanvas(img, e.config.Width, e.config.Height)
	return img, lossy, err
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
