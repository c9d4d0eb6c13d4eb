// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package imageio

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// ForRows calls f for consecutive ranges [lo, hi) that together cover 0..n, on all processors at once. A range holds at
// most chunk rows. A panic of f is raised again in the caller, where it can be recovered.
func ForRows(n, chunk int, f func(lo, hi int)) {
	chunk = max(chunk, 1)
	workers := min(runtime.GOMAXPROCS(0), (n+chunk-1)/chunk)
	if workers <= 1 {
		for lo := 0; lo < n; lo += chunk {
			f(lo, min(lo+chunk, n))
		}
		return
	}
	var next atomic.Int64
	var failure atomic.Value
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			defer func() {
				if r := recover(); r != nil {
					failure.CompareAndSwap(nil, panicked{r})
				}
			}()
			for failure.Load() == nil {
				hi := int(next.Add(int64(chunk)))
				lo := hi - chunk
				if lo >= n {
					return
				}
				f(lo, min(hi, n))
			}
		})
	}
	wg.Wait()
	if r, ok := failure.Load().(panicked); ok {
		panic(r.value)
	}
}

// panicked gives the values of different panics one type, as atomic.Value demands.
type panicked struct{ value any }
