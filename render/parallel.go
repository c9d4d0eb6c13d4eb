// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package render

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
		return fmt.Errorf("render: %w", err)
	}
	return nil
}

// inChunks calls work for consecutive ranges that together cover [0, n), as parallel does.
func inChunks(ctx context.Context, n, size int, work func(start, end int)) error {
	return parallel(ctx, (n+size-1)/size, func(i int) { work(i*size, min(n, (i+1)*size)) })
}
