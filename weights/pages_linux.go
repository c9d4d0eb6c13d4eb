// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights

import "golang.org/x/sys/unix"

// dropPages takes whole pages of a mapped file out of memory. It is advice: that it fails does no harm.
func dropPages(pages []byte) {
	if len(pages) > 0 {
		_ = unix.Madvise(pages, unix.MADV_DONTNEED)
	}
}
