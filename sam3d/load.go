// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import (
	"errors"
	"fmt"
	"image"
	"io"
	"os"

	"github.com/gomlx3d/image3d/internal/imageio"
)

var (
	// ErrImageFile is a file that cannot be read as a picture: of an unknown format (then the error is image.ErrFormat
	// too), or damaged.
	ErrImageFile = errors.New("sam3d: not a picture file")
	// ErrLabels is a picture that is no label image; see Loader.Labels.
	ErrLabels = imageio.ErrLabels
	// ErrTooLarge is a picture or a point map of more pixels, or a file of more bytes, than the limit.
	ErrTooLarge = imageio.ErrTooLarge
)

// DefaultMaxPixels is how many pixels a picture or a point map may have unless a Loader says otherwise.
const DefaultMaxPixels = imageio.DefaultMaxPixels

// Loader reads pictures, masks and point maps from files or uploads of anybody. What a header promises is checked
// before anything of that size is allocated or read. The zero value is ready to use; a Loader may be used concurrently.
type Loader struct {
	// MaxPixels bounds a picture, a mask and a point map. 0 means DefaultMaxPixels.
	MaxPixels int
	// NonZeroMask takes every pixel of a mask in whole that is not zero, as the program around the original model does.
	// Without it soft edges stay soft, and a JPEG is cut at half brightness.
	NonZeroMask bool
	// Axes are those of point map files.
	Axes Axes
	// Array is the name of the array to take from a .npz file. Empty takes the only one, or else the one named
	// pointmap, point_map or points (for a depth map: depth).
	Array string
}

// Image reads a PNG, JPEG, GIF, WebP, TIFF or BMP picture and turns it upright as its EXIF orientation says. Colours
// under transparent pixels are kept. The error wraps ErrImageFile, ErrTooLarge, or what r failed with.
func (l Loader) Image(r io.Reader) (image.Image, error) {
	source := &reader{r: r}
	img, _, err := imageio.Decode(source, l.MaxPixels)
	return img, source.explain(err, ErrImageFile)
}

// Mask reads a mask from a picture, upright as Image: its alpha where that varies; else the index above 0 of a palette
// that is no ramp of greys; else greys as they are and other colours in full, on black. JPEG masks are cut at half
// brightness. The errors are those of Image.
func (l Loader) Mask(r io.Reader) (*image.Gray, error) {
	source := &reader{r: r}
	mask, err := imageio.DecodeMask(source, imageio.MaskOptions{MaxPixels: l.MaxPixels, NonZero: l.NonZeroMask})
	return mask, source.explain(err, ErrImageFile)
}

// Labels are the objects of a label image: Names are their values or colours, and Mask(i) is the mask of the i-th.
type Labels = imageio.Labels

// Labels reads a label image, in which all pixels of an object have the same value, upright as Image. The values are the
// indices of a palette or the greys of a grey picture, 0 being no object; else the colours, black and transparent pixels
// being no object. Soft edges would be objects of their own, and JPEG changes values: both are no label images.
// The error wraps ErrLabels, or is that of Image.
func (l Loader) Labels(r io.Reader) (*Labels, error) {
	source := &reader{r: r}
	labels, err := imageio.DecodeLabels(source, l.MaxPixels)
	return labels, source.explain(err, ErrImageFile)
}

// FitMask returns a mask at the size of another picture: each pixel is that of the nearest one. A mask of another size
// is a *SizeMismatchError otherwise, as it mostly belongs to another picture. The error wraps ErrRequest.
func FitMask(mask, picture image.Image) (image.Image, error) {
	values, err := imageio.Mask(mask)
	if err != nil {
		return nil, fmt.Errorf("%w: the mask: %w", ErrRequest, err)
	}
	size := picture.Bounds().Size()
	if values, err = imageio.FitMask(values, size.X, size.Y); err != nil {
		return nil, fmt.Errorf("%w: the mask: %w", ErrRequest, err)
	}
	return values, nil
}

// FromFile reads a file with a method of a Loader:
//
//	mask, err := sam3d.FromFile("mask.png", sam3d.Loader{}.Mask)
//
// Its error names the file.
func FromFile[T any](path string, read func(io.Reader) (T, error)) (value T, err error) {
	file, err := os.Open(path)
	if err != nil {
		return value, fmt.Errorf("sam3d: %w", err)
	}
	defer file.Close()
	if value, err = read(file); err != nil {
		return value, fmt.Errorf("%s: %w", path, err)
	}
	return value, nil
}

// LoadImage reads a picture file of at most maxPixels (0 means DefaultMaxPixels), as Loader.Image does.
func LoadImage(path string, maxPixels int) (image.Image, error) {
	return FromFile(path, Loader{MaxPixels: maxPixels}.Image)
}

// LoadMask reads a mask file of at most maxPixels (0 means DefaultMaxPixels), as Loader.Mask does.
func LoadMask(path string, maxPixels int) (image.Image, error) {
	mask, err := FromFile(path, Loader{MaxPixels: maxPixels}.Mask)
	if err != nil {
		return nil, err // not a nil mask in an image.Image
	}
	return mask, nil
}

// reader remembers the error of the reader it reads from, so that it can be told from errors of the data.
type reader struct {
	r   io.Reader
	err error
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}

// explain returns the reader's error if it failed, and otherwise gives an error of the data its kind.
func (r *reader) explain(err, kind error) error {
	switch {
	case err == nil:
		return nil
	case r.err != nil:
		return fmt.Errorf("sam3d: %w", r.err)
	case errors.Is(err, ErrTooLarge):
		return fmt.Errorf("sam3d: %w", err)
	}
	return fmt.Errorf("%w: %w", kind, err)
}
