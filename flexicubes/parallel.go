// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flexicubes

import (
	"context"
	"fmt"

	"github.com/gomlx3d/image3d/internal/parallel"
)

// inParallel is parallel.For, and names the package in its error.
func inParallel(ctx context.Context, n int, work func(i int)) error {
	if err := parallel.For(ctx, n, work); err != nil {
		return fmt.Errorf("flexicubes: %w", err)
	}
	return nil
}

// eachRow calls work for every row (x, y) of a square of rows. Calls are made in tiles, so that what neighbouring rows
// share is still in the cache.
func eachRow(ctx context.Context, side int, work func(x, y int)) error {
	const width, height = 32, 8
	across := (side + width - 1) / width
	down := (side + height - 1) / height
	return inParallel(ctx, across*down, func(i int) {
		fromX, fromY := i%across*width, i/across*height
		for x := fromX; x < min(side, fromX+width); x++ {
			for y := fromY; y < min(side, fromY+height); y++ {
				work(x, y)
			}
		}
	})
}
