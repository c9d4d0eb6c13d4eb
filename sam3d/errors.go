// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import (
	"errors"
	"fmt"

	"github.com/gomlx3d/image3d/sam3d/decoder"
	"github.com/gomlx3d/image3d/sam3d/input"
	"github.com/gomlx3d/image3d/weights"
)

// Errors a caller may branch on with errors.Is. A cancelled call returns an error that is ctx.Err() under errors.Is.
var (
	// ErrRequest is a request that cannot be run: a wrong number of steps, an unknown output, an image without pixels.
	ErrRequest = errors.New("sam3d: bad request")
	// ErrBackend is a backend that cannot be used: unknown, its plugin missing or not matching.
	ErrBackend = errors.New("sam3d: backend")
	// ErrClosed is a call of a closed Pipeline.
	ErrClosed = errors.New("sam3d: pipeline is closed")
	// ErrConfig is a checkpoint whose configuration cannot be understood or does not fit together.
	ErrConfig = errors.New("sam3d: checkpoint configuration")
	// ErrNotFinite is a stage whose result holds NaN or an infinity.
	ErrNotFinite = errors.New("sam3d: result is not finite")

	// ErrEmptyMask is a mask without any foreground.
	ErrEmptyMask = input.ErrEmptyMask
	// ErrMaskTooSmall is a mask whose bounding box is under three pixels wide or high.
	ErrMaskTooSmall = input.ErrMaskTooSmall
	// ErrNoMask is a request without a mask whose image is opaque.
	ErrNoMask = input.ErrNoMask
	// ErrPointMap is a point map whose size does not fit its data.
	ErrPointMap = input.ErrPointMap
	// ErrNoPoints is a point map without a valid point below the mask.
	ErrNoPoints = input.ErrNoPoints
	// ErrFlatPoints is a point map whose points are all the same, so that it has no scale.
	ErrFlatPoints = input.ErrFlatPoints
	// ErrNoVoxels is an object for which the structure decoder found no occupied voxel.
	ErrNoVoxels = decoder.ErrNoVoxels
	// ErrWeights is a checkpoint whose tensors are not those of the model: the error lists each of them.
	ErrWeights = weights.ErrMismatch
)

// SizeMismatchError is a mask of the size Mask for an image of the size Picture; see FitMask. Errors hold a pointer to it.
type SizeMismatchError = input.SizeMismatchError

// guard turns a panic into an error, so that none leaves the API.
func guard(err *error) {
	switch r := recover().(type) {
	case nil:
	case error:
		*err = fmt.Errorf("sam3d: internal fault: %w", r)
	default:
		*err = fmt.Errorf("sam3d: internal fault: %v", r)
	}
}
