// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flexicubes

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// parallel calls work(0), ..., work(n-1) from at most GOMAXPROCS goroutines and waits for them. Calls must not depend
// on each other. It starts no further call once ctx is done, and then returns an error that wraps ctx.Err().
func parallel(ctx context.Context, n int, work func(i int)) error {
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n) {
		group.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				work(i)
			}
		})
	}
	group.Wait()
	if err := ctx.Err(); err != nil {
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
	return parallel(ctx, across*down, func(i int) {
		fromX, fromY := i%across*width, i/across*height
		for x := fromX; x < min(side, fromX+width); x++ {
			for y := fromY; y < min(side, fromY+height); y++ {
				work(x, y)
			}
		}
	})
}
