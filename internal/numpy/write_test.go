// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package numpy

import (
	"bytes"
	"errors"
	"io"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWrite(t *testing.T) {
	for _, shape := range [][]int{{2, 3, 2}, {12}, {1, 12}, {}, {0, 5}} {
		size := 1
		for _, n := range shape {
			size *= n
		}
		a := &Array{Shape: shape, Data: make([]float32, size)}
		for i := range a.Data {
			a.Data[i] = float32(i) - 1.5
		}
		if size > 2 {
			a.Data[1], a.Data[2] = float32(math.Inf(1)), float32(math.Copysign(0, -1))
		}
		var file bytes.Buffer
		require.NoError(t, Write(&file, a))
		require.Zero(t, (file.Len()-4*size)%headerAlign)
		back, err := Read(&file, func([]int) error { return nil })
		require.NoError(t, err, shape)
		require.Equal(t, len(a.Shape), len(back.Shape))
		require.ElementsMatch(t, a.Shape, back.Shape)
		require.Len(t, back.Data, size)
		for i, v := range a.Data {
			require.Equal(t, math.Float32bits(v), math.Float32bits(back.Data[i]))
		}
	}
}

// broken fails after some bytes.
type broken struct{ left int }

var errDisk = errors.New("disk full")

func (b *broken) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errDisk
	}
	return len(p), nil
}

func TestWriteErrors(t *testing.T) {
	require.Error(t, Write(io.Discard, &Array{Shape: []int{2, 2}, Data: make([]float32, 5)}))
	for _, left := range []int{0, 1 << 16} {
		err := Write(&broken{left}, &Array{Shape: []int{1 << 16}, Data: make([]float32, 1<<16)})
		require.ErrorIs(t, err, errDisk)
	}
}
