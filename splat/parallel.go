// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package splat

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// grain is the smallest number of elements worth a goroutine of their own.
const grain = 4096

// inParallel calls f on consecutive ranges that together cover [0, n), at the same time, and returns when all are done.
func inParallel(n int, f func(start, end int)) {
	workers := min(runtime.GOMAXPROCS(0), n/grain)
	if workers < 2 {
		f(0, n)
		return
	}
	var done sync.WaitGroup
	for k := range workers {
		done.Go(func() { f(n*k/workers, n*(k+1)/workers) })
	}
	done.Wait()
}

// firstOutside returns the index of the first value that is NaN, below lo or above hi, or -1.
func firstOutside(values []float32, lo, hi float32) int {
	var first atomic.Int64
	first.Store(int64(len(values)))
	inParallel(len(values), func(start, end int) {
		for i, x := range values[start:end] {
			if x >= lo && x <= hi {
				continue
			}
			at := int64(start + i)
			for old := first.Load(); at < old && !first.CompareAndSwap(old, at); old = first.Load() {
			}
			return
		}
	})
	if at := int(first.Load()); at < len(values) {
		return at
	}
	return -1
}
