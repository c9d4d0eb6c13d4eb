// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"io"
	"math"

	"github.com/gomlx3d/image3d/internal/imageio"
	"github.com/gomlx3d/image3d/internal/numpy"
	"github.com/gomlx3d/image3d/sam3d/input"
)

// ErrPointMapFile is a file that is not a point map or a depth map: of an unknown format, damaged, or an array of
// another shape or kind.
var ErrPointMapFile = errors.New("sam3d: not a point map file")

// Axes are the directions of a camera's coordinates.
type Axes int

const (
	// LibraryAxes are those of a PointMap: +X left, +Y up, +Z forward, as in PyTorch3D.
	LibraryAxes Axes = iota
	// OpenCVAxes are those of OpenCV and of most depth models: +X right, +Y down, +Z forward.
	OpenCVAxes
)

// Intrinsics are the focal lengths FX, FY and the principal point CX, CY of a picture or a depth map, in its pixels, the
// centre of the first being (0, 0).
type Intrinsics = input.Intrinsics

// PointMap reads a point map from a .npy or .npz file: an array [height, width, 3] of float16, float32 or float64 in C
// order, in the camera frame that Axes tells. A pixel without a point is NaN or infinite.
// The error wraps ErrPointMapFile, ErrTooLarge, or what r failed with.
func (l Loader) PointMap(r io.Reader) (*PointMap, error) {
	if l.Axes != LibraryAxes && l.Axes != OpenCVAxes {
		return nil, fmt.Errorf("%w: unknown axes %d", ErrRequest, l.Axes)
	}
	source := &reader{r: r}
	array, err := l.array(source, []string{"pointmap", "point_map", "points"}, func(shape []int) error {
		if len(shape) != 3 || shape[2] != 3 {
			return fmt.Errorf("shape %.64s, not [height, width, 3]", fmt.Sprint(shape))
		}
		return l.checkSize(shape)
	})
	if err != nil {
		return nil, source.explain(err, ErrPointMapFile)
	}
	points := PointMap{Width: array.Shape[1], Height: array.Shape[0], Points: array.Data}
	if l.Axes == OpenCVAxes {
		if points, err = input.FromDepthCamera(points.Width, points.Height, points.Points); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrPointMapFile, err)
		}
	}
	return &points, nil
}

// DepthMap reads a depth map and returns the points that a pinhole camera sees there: a grey picture of 16 bits (PNG or
// TIFF), or an array [height, width] as PointMap reads them. Depths are along the viewing direction and are multiplied
// by scale, for example 0.001 for millimetres. Depths that are zero, negative or not finite are invalid.
// The error wraps ErrRequest for wrong intrinsics, or is that of PointMap.
func (l Loader) DepthMap(r io.Reader, camera Intrinsics, scale float64) (*PointMap, error) {
	if err := camera.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	if !(scale > 0) || scale > math.MaxFloat32 {
		return nil, fmt.Errorf("%w: a depth scale of %g", ErrRequest, scale)
	}
	source := &reader{r: r}
	width, height, depth, err := l.depth(source)
	if err != nil {
		return nil, source.explain(err, ErrPointMapFile)
	}
	for i, z := range depth {
		depth[i] = float32(float64(z) * scale)
	}
	points, err := input.FromDepth(width, height, depth, camera)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPointMapFile, err)
	}
	return &points, nil
}

// LoadPointMap reads a point map from a .npy or .npz file with the library's axes, as Loader.PointMap does.
func LoadPointMap(path string) (*PointMap, error) { return FromFile(path, Loader{}.PointMap) }

// depth reads the values of a depth map of any kind.
func (l Loader) depth(r *reader) (width, height int, depth []float32, err error) {
	start := make([]byte, len(numpy.MagicNPY))
	n, err := io.ReadFull(r, start)
	if err != nil && r.err != nil {
		return 0, 0, nil, err
	}
	all := &reader{r: io.MultiReader(bytes.NewReader(start[:n]), r)}
	if string(start[:n]) == numpy.MagicNPY || bytes.HasPrefix(start[:n], []byte(numpy.MagicNPZ)) {
		array, err := l.array(all, []string{"depth"}, func(shape []int) error {
			if len(shape) != 2 {
				return fmt.Errorf("shape %.64s, not [height, width]", fmt.Sprint(shape))
			}
			return l.checkSize(shape)
		})
		if err != nil {
			return 0, 0, nil, err
		}
		return array.Shape[1], array.Shape[0], array.Data, nil
	}
	img, format, err := imageio.Decode(all, l.MaxPixels)
	if err != nil {
		return 0, 0, nil, err
	}
	grey, ok := img.(*image.Gray16)
	if !ok {
		return 0, 0, nil, fmt.Errorf("a %s picture that is not grey of 16 bits holds no depths", format)
	}
	size := grey.Rect.Size()
	depth = make([]float32, 0, size.X*size.Y)
	for y := range size.Y {
		for x := range size.X {
			depth = append(depth, float32(grey.Gray16At(grey.Rect.Min.X+x, grey.Rect.Min.Y+y).Y))
		}
	}
	return size.X, size.Y, depth, nil
}

// checkSize checks the height and the width of an array.
func (l Loader) checkSize(shape []int) error {
	limit := l.maxPixels()
	if shape[0] < 1 || shape[1] < 1 {
		return fmt.Errorf("shape %v has no pixels", shape)
	}
	if shape[0] > limit/shape[1] {
		return fmt.Errorf("%w: shape %v, the limit is %d pixels", ErrTooLarge, shape, limit)
	}
	return nil
}

func (l Loader) maxPixels() int {
	if l.MaxPixels <= 0 {
		return DefaultMaxPixels
	}
	return l.MaxPixels
}

// array reads an array from a file of either kind.
func (l Loader) array(r *reader, preferred []string, check numpy.Check) (*numpy.Array, error) {
	start := make([]byte, len(numpy.MagicNPZ))
	n, err := io.ReadFull(r, start)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	all := io.MultiReader(bytes.NewReader(start[:n]), r)
	if string(start[:n]) != numpy.MagicNPZ {
		return numpy.Read(all, check)
	}
	// The directory of an archive is at its end.
	const extra, most = 1 << 20, 24 // for the directory and small arrays, and the bytes of a point
	limit := extra + most*int64(l.maxPixels())
	data, err := io.ReadAll(io.LimitReader(all, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%w: the file has more than %d bytes", ErrTooLarge, limit)
	}
	return numpy.ReadZip(bytes.NewReader(data), int64(len(data)), l.Array, preferred, check)
}
