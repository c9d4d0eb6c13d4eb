// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package bounded limits what is read of a file that is not trusted.
package bounded

import (
	"errors"
	"io"
)

// Err is returned by a ReaderAt of which too much was read.
var Err = errors.New("too much to read")

// ReaderAt fails with Err when more than Left bytes are asked for.
type ReaderAt struct {
	From io.ReaderAt
	Left int
}

// ReadAt implements io.ReaderAt.
func (b *ReaderAt) ReadAt(p []byte, offset int64) (int, error) {
	if b.Left -= len(p); b.Left < 0 {
		return 0, Err
	}
	return b.From.ReadAt(p, offset)
}
