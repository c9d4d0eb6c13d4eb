// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"io"
	"math"
	"os"

	"codeberg.org/sbinet/npyio/npy"
	"github.com/x448/float16"

	"github.com/gomlx3d/image3d/internal/imageio"
)

// ErrPointMapFile is a file that is not a NumPy array of points.
var ErrPointMapFile = errors.New("sam3d: not a point map file")

// LoadImage reads a PNG, JPEG, GIF, WebP, TIFF or BMP file, turned upright as its EXIF orientation says. Its size is
// checked before it is decoded: at most maxPixels, or 100 million if maxPixels is 0.
func LoadImage(path string, maxPixels int) (image.Image, error) {
	img, _, err := imageio.DecodeFile(path, maxPixels)
	if err != nil {
		return nil, fmt.Errorf("sam3d: %w", err)
	}
	return img, nil
}

// LoadMask reads a mask from a picture file: alpha where it varies, else brightness, and the index above 0 of a palette
// that is no grey ramp. JPEG masks are cut at half brightness.
func LoadMask(path string, maxPixels int) (image.Image, error) {
	mask, err := imageio.DecodeMaskFile(path, maxPixels)
	if err != nil {
		return nil, fmt.Errorf("sam3d: %w", err)
	}
	return mask, nil
}

const (
	maxPointMapHeader = 1 << 16
	maxPointMapPixels = imageio.DefaultMaxPixels
)

// LoadPointMap reads a point map from a NumPy .npy file: an array [height, width, 3] of float16, float32 or float64
// in C order, in the camera frame, with NaN where there is no point.
// The error wraps ErrPointMapFile, or is the operating system's.
func LoadPointMap(path string) (*PointMap, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("sam3d: %w", err)
	}
	defer file.Close()
	points, err := readPointMap(bufio.NewReaderSize(file, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrPointMapFile, path, err)
	}
	return points, nil
}

func readPointMap(r *bufio.Reader) (*PointMap, error) {
	header, err := readArrayHeader(r)
	if err != nil {
		return nil, err
	}
	shape := header.Descr.Shape
	if len(shape) != 3 || shape[2] != 3 || shape[0] < 1 || shape[1] < 1 || shape[0] > maxPointMapPixels/shape[1] {
		return nil, fmt.Errorf("shape %v, not [height, width, 3]", shape)
	}
	if header.Descr.Fortran {
		return nil, errors.New("the array is in Fortran order")
	}
	size, value, err := element(header.Descr.Type)
	if err != nil {
		return nil, err
	}
	m := &PointMap{Width: shape[1], Height: shape[0]}
	row := make([]byte, 3*m.Width*size)
	for range m.Height { // grows with what the file really holds, whatever its header says
		if _, err := io.ReadFull(r, row); err != nil {
			return nil, fmt.Errorf("shape %v, but the data end early: %w", shape, err)
		}
		for at := 0; at < len(row); at += size {
			m.Points = append(m.Points, value(row[at:]))
		}
	}
	if _, err := r.ReadByte(); err != io.EOF {
		return nil, fmt.Errorf("shape %v, but there are more data", shape)
	}
	return m, nil
}

// readArrayHeader reads the header of a .npy file. Its length is checked before the library allocates it, and a panic
// of the library, which trusts what it reads, becomes an error.
func readArrayHeader(r *bufio.Reader) (header npy.Header, err error) {
	start, err := r.Peek(12)
	if err != nil {
		return npy.Header{}, fmt.Errorf("too short: %w", err)
	}
	if start[6] >= 2 && binary.LittleEndian.Uint32(start[8:]) > maxPointMapHeader {
		return npy.Header{}, errors.New("the header is too long")
	}
	defer func() {
		if recover() != nil {
			err = errors.New("malformed header")
		}
	}()
	array, err := npy.NewReader(r)
	if err != nil {
		return npy.Header{}, err
	}
	return array.Header, nil
}

// element returns the size and the reading of a NumPy element type, as the header spells it: '<f4'.
func element(descr string) (size int, value func([]byte) float32, err error) {
	switch descr {
	case "'<f2'":
		return 2, func(b []byte) float32 { return float16.Frombits(binary.LittleEndian.Uint16(b)).Float32() }, nil
	case "'<f4'":
		return 4, func(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }, nil
	case "'<f8'":
		return 8, func(b []byte) float32 { return float32(math.Float64frombits(binary.LittleEndian.Uint64(b))) }, nil
	}
	return 0, nil, fmt.Errorf("elements of type %s; float16, float32 and float64 in little-endian order can be read", descr)
}
