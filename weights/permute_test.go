// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// transpose is the plain definition: out = tensor.transpose(axes).
func transpose(tensor []byte, size int, shape, axes []int) []byte {
	stored := make([]int, len(shape))
	for i, axis := range axes {
		stored[i] = shape[axis]
	}
	out := make([]byte, 0, len(tensor))
	index := make([]int, len(shape)) // of the transposed array
	for range len(tensor) / size {
		at := make([]int, len(shape))
		for i, axis := range axes {
			at[axis] = index[i]
		}
		flat := 0
		for i := range shape {
			flat = flat*shape[i] + at[i]
		}
		out = append(out, tensor[flat*size:(flat+1)*size]...)
		for i := len(index) - 1; i >= 0; i-- {
			if index[i]++; index[i] < stored[i] {
				break
			}
			index[i] = 0
		}
	}
	return out
}

func TestPermuteUndoesTranspose(t *testing.T) {
	for _, c := range []struct{ shape, axes []int }{
		{[]int{5, 3, 2, 4}, conv2d},
		{[]int{5, 3, 1, 1}, conv2d},
		{[]int{2, 3, 2, 2}, conv2dTranspose},
		{[]int{4, 2, 3, 3, 3}, conv3d},
		{[]int{0, 2, 3, 3, 3}, conv3d},
		{[]int{1, 3, 1, 1}, conv2d},
	} {
		for _, size := range []int{1, 2, 4, 8} {
			tensor := make([]byte, size)
			for _, dim := range c.shape {
				tensor = slices.Repeat(tensor, dim)
			}
			for i := range tensor {
				tensor[i] = byte(i*7 + i>>8)
			}
			require.Equal(t, tensor, permute(transpose(tensor, size, c.shape, c.axes), size, c.shape, c.axes), "%v", c)
		}
	}
}

// BenchmarkPermute undoes the transpose of the largest convolution of the released structure decoder.
func BenchmarkPermute(b *testing.B) {
	shape := []int{1024, 512, 3, 3, 3}
	stored := make([]byte, 2*1024*512*27)
	b.SetBytes(int64(len(stored)))
	for b.Loop() {
		permute(stored, 2, shape, conv3d)
	}
}
