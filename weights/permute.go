// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights

// permute undoes a transpose: stored = tensor.transpose(axes), so that axis i of stored is axis axes[i] of tensor.
// shape is that of the tensor, size the bytes of an element. The result is the tensor in row-major order.
func permute(stored []byte, size int, shape, axes []int) []byte {
	// Strides of the stored array, listed by the axes of the tensor.
	strides := make([]int, len(shape))
	stride := size
	for i := len(axes) - 1; i >= 0; i-- {
		strides[axes[i]] = stride
		stride *= shape[axes[i]]
	}
	out := make([]byte, len(stored))
	if len(out) > 0 {
		shape, strides = merge(shape, strides)
		gather(out, stored, size, shape, strides)
	}
	return out
}

// merge joins neighbouring axes that are one axis in memory, so that the innermost loop is long.
func merge(shape, strides []int) (merged, steps []int) {
	for i, dim := range shape {
		if last := len(merged) - 1; last >= 0 && steps[last] == strides[i]*dim {
			merged[last] *= dim
			steps[last] = strides[i]
			continue
		}
		merged, steps = append(merged, dim), append(steps, strides[i])
	}
	return merged, steps
}

// gather fills out with the elements of src at the given strides, in row-major order of shape, and returns what is
// left of out.
func gather(out, src []byte, size int, shape, strides []int) []byte {
	if len(shape) == 0 {
		return out[copy(out, src[:size]):]
	}
	if len(shape) > 1 {
		for i := range shape[0] {
			out = gather(out, src[i*strides[0]:], size, shape[1:], strides[1:])
		}
		return out
	}
	switch n, step := shape[0], strides[0]; {
	case step == size:
		return out[copy(out, src[:n*size]):]
	case size == 2: // the released bundle is bfloat16: keep its loop free of calls
		for i := range n {
			out[2*i], out[2*i+1] = src[i*step], src[i*step+1]
		}
	default:
		for i := range n {
			copy(out[i*size:(i+1)*size], src[i*step:])
		}
	}
	return out[shape[0]*size:]
}
