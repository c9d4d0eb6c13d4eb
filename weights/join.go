// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights

import (
	"fmt"
	"slices"
)

// Join returns the tensor of the rows of parts, one part after the other along the first axis. It is for checkpoints
// that split what a model keeps together, such as queries, keys and values. Nothing is copied before Set.Get or
// Set.Upload need the bytes, so that of a large checkpoint only the tensors in transit are in memory twice.
//
// Parts must agree in precision and in all axes but the first.
func Join(parts ...Tensor) (Tensor, error) {
	if len(parts) == 0 {
		return Tensor{}, fmt.Errorf("weights: nothing to join")
	}
	joined := Tensor{DType: parts[0].DType, Shape: slices.Clone(parts[0].Shape), parts: parts}
	if len(joined.Shape) == 0 {
		return Tensor{}, fmt.Errorf("weights: scalars cannot be joined")
	}
	joined.Shape[0] = 0
	for _, p := range parts {
		if p.DType != joined.DType || len(p.Shape) != len(joined.Shape) || !slices.Equal(p.Shape[1:], joined.Shape[1:]) {
			return Tensor{}, fmt.Errorf("weights: %v %v and %v %v do not join", parts[0].DType, parts[0].Shape, p.DType, p.Shape)
		}
		joined.Shape[0] += p.Shape[0]
	}
	return joined, nil
}

// Rows returns rows lo to hi-1 of a tensor's first axis, without copying.
func (t Tensor) Rows(lo, hi int) (Tensor, error) {
	if len(t.Shape) == 0 || lo < 0 || hi < lo || hi > t.Shape[0] || t.axes != nil || t.parts != nil {
		return Tensor{}, fmt.Errorf("weights: no rows %d to %d of a tensor %v", lo, hi, t.Shape)
	}
	row := t.DType.Size()
	for _, dim := range t.Shape[1:] {
		row *= dim
	}
	t.Data = t.Data[lo*row : hi*row : hi*row]
	t.Shape = slices.Clone(t.Shape)
	t.Shape[0] = hi - lo
	return t, nil
}

// bytes returns the content in row-major order: a copy if it is stored otherwise.
func (t Tensor) bytes() []byte {
	switch {
	case t.axes != nil:
		return permute(t.Data, t.DType.Size(), t.Shape, t.axes)
	case t.parts != nil:
		var all []byte
		size := 0
		for _, p := range t.parts {
			size += len(p.Data)
		}
		all = make([]byte, 0, size)
		for _, p := range t.parts {
			all = append(all, p.bytes()...)
		}
		return all
	}
	return t.Data
}

// verify compares the checksums of the records that the tensor is read from.
func (t Tensor) verify() error {
	for _, p := range t.parts {
		if err := p.verify(); err != nil {
			return err
		}
	}
	return t.record.verify()
}
