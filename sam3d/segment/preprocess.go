// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"fmt"
	"image"

	"github.com/gomlx3d/image3d/internal/imageio"
)

// preprocess returns the picture as the image encoder takes it: squeezed to size x size pixels whatever its shape,
// normalised to -1..1 (transform of the original's Sam3Processor).
//
//	out [3, size, size]
func preprocess(picture image.Image, size int) ([]float32, error) {
	img, err := imageio.NRGBA(picture)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	if img, err = imageio.ResizeBytes(img, size, size); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	planes := imageio.RGB(img)
	for i, v := range planes.Data {
		planes.Data[i] = (v - 0.5) / 0.5
	}
	return planes.Data, nil
}
