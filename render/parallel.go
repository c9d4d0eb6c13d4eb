// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package render

import (
	"context"
	"fmt"

	"github.com/gomlx3d/image3d/internal/parallel"
)

// inParallel is parallel.For, and names the package in its error.
func inParallel(ctx context.Context, n int, work func(i int)) error {
	if err := parallel.For(ctx, n, work); err != nil {
		return fmt.Errorf("render: %w", err)
	}
	return nil
}

// inChunks calls work for consecutive ranges that together cover [0, n), as inParallel does.
func inChunks(ctx context.Context, n, size int, work func(start, end int)) error {
	return inParallel(ctx, (n+size-1)/size, func(i int) { work(i*size, min(n, (i+1)*size)) })
}
