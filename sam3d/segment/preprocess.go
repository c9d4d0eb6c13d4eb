// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"fmt"
	"image"
)

// preprocess returns the picture as the image encoder takes it: size x size pixels, normalised to -1..1.
//
//	out [3, size, size]
func preprocess(picture image.Image, size int) ([]float32, error) {
	return nil, fmt.Errorf("%w: pictures are not read yet", ErrInput)
}
