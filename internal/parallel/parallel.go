// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package parallel runs independent calls on all processors.
package parallel

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// For calls work(0), ..., work(n-1) from at most GOMAXPROCS goroutines and waits for them. Calls must not depend on each
// other. It starts no further call once ctx is done, and then returns ctx.Err().
func For(ctx context.Context, n int, work func(i int)) error {
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
	return ctx.Err()
}
