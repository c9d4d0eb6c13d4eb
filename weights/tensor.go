// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package weights reads model checkpoints: safetensors files, PyTorch archives and the folders made of them.
//
// Nothing in a file is trusted and nothing in it is run. Tensors keep the precision they are stored in, and their
// bytes are views of a memory-mapped file where the format allows it, so that opening a checkpoint costs no memory.
package weights

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx/compute"
)

// Tensor is one array of a checkpoint.
type Tensor struct {
	DType dtypes.DType
	Shape []int  // row-major; empty for a scalar
	Data  []byte // little-endian, possibly a view of a mapped file: read only, valid until its Set is closed
}

// Set is a group of named tensors with the files they are read from.
//
// The zero Set is empty and usable. A Set is safe for concurrent reading.
type Set struct {
	tensors map[string]Tensor
	closers []io.Closer
}

// NewSet returns a Set of the given tensors, which own their bytes.
func NewSet(tensors map[string]Tensor) *Set { return &Set{tensors: tensors} }

// Names returns the tensor names in ascending order.
func (s *Set) Names() []string { return slices.Sorted(maps.Keys(s.tensors)) }

// Len returns the number of tensors.
func (s *Set) Len() int { return len(s.tensors) }

// Get returns the tensor called name.
func (s *Set) Get(name string) (Tensor, bool) {
	t, ok := s.tensors[name]
	return t, ok
}

// Sub returns the tensors whose names start with prefix, under the rest of their names.
// It shares the files of s and must not be used after s is closed; closing it does nothing.
func (s *Set) Sub(prefix string) *Set {
	sub := &Set{tensors: make(map[string]Tensor)}
	for name, t := range s.tensors {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			sub.tensors[rest] = t
		}
	}
	return sub
}

// Close releases the files. Tensors of the Set must not be used afterwards.
func (s *Set) Close() error {
	var first error
	for _, c := range s.closers {
		if err := c.Close(); err != nil && first == nil {
			first = err
		}
	}
	s.closers, s.tensors = nil, nil
	return first
}

// Upload copies every tensor to the backend's first device in its own precision: one copy, from the file to the device.
// On an error nothing is left on the device.
func (s *Set) Upload(backend compute.Backend) (map[string]*tensors.Tensor, error) {
	device := make(map[string]*tensors.Tensor, len(s.tensors))
	for name, t := range s.tensors {
		d, err := tensors.FromRaw(backend, 0, shapes.Make(t.DType, t.Shape...), t.Data)
		if err != nil {
			for _, other := range device {
				_ = other.FinalizeAll()
			}
			return nil, fmt.Errorf("weights: upload %q: %w", name, err)
		}
		device[name] = d
	}
	return device, nil
}
