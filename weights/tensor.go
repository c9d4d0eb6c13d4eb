// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package weights reads model checkpoints: safetensors files, PyTorch archives and the folders made of them.
//
// Nothing in a file is trusted and nothing in it is run. Tensors keep the precision they are stored in, and their
// bytes are views of a memory-mapped file where the format allows it, so that opening a checkpoint costs no memory.
//
// Open reads one file of any of the formats. OpenCheckpoint reads a folder in the official layout or in that of the
// MLX bundle and gives its components under official names and layouts. Resolve turns a repository of the model hub
// into such a folder.
//
// A mapped file must not be truncated by another program while it is open: reading past its end is a fault that no
// program can handle.
package weights

import (
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"golang.org/x/sync/errgroup"
)

// maxRank bounds the number of axes of a tensor.
const maxRank = 16

// Tensor is one array of a checkpoint.
type Tensor struct {
	DType dtypes.DType
	Shape []int  // row-major; empty for a scalar
	Data  []byte // little-endian, possibly a view of a mapped file: read only, valid until its Set is closed

	axes   []int    // not nil: Data holds the transpose of the tensor by these axes, see permute
	parts  []Tensor // not nil: the tensor is made of their rows and Data is empty, see Join
	record *record  // not nil: Data is part of this record, whose checksum is known
}

// Set is a group of named tensors with the files they are read from.
//
// The zero Set is empty and usable. A Set is safe for concurrent reading.
type Set struct {
	// ModelConfig is the configuration that is stored beside the tensors: "model_config" of a MoGe file.
	// It holds nil, bool, int64, float64, string, []any and map[string]any; nil if the file has none.
	ModelConfig map[string]any

	tensors map[string]Tensor
	closers []io.Closer
}

// NewSet returns a Set of the given tensors, which own their bytes.
func NewSet(tensors map[string]Tensor) *Set { return &Set{tensors: tensors} }

// Names returns the tensor names in ascending order.
func (s *Set) Names() []string { return slices.Sorted(maps.Keys(s.tensors)) }

// Bytes is what the tensors take on a device.
func (s *Set) Bytes() (bytes int64) {
	for _, t := range s.tensors {
		size := int64(t.DType.Size())
		for _, d := range t.Shape {
			size *= int64(d)
		}
		bytes += size
	}
	return bytes
}

// Len returns the number of tensors.
func (s *Set) Len() int { return len(s.tensors) }

// Get returns the tensor called name. It does not check the checksum of its record; Verify does.
//
// The few tensors of an MLX bundle that are stored in another layout, and joined ones, are copied by every call.
func (s *Set) Get(name string) (Tensor, bool) {
	t, ok := s.tensors[name]
	if t.axes != nil || t.parts != nil {
		t.Data, t.axes, t.parts, t.record = t.bytes(), nil, nil, nil
	}
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

// Verify reads every tensor and compares it with the checksum stored in its file, where the format has one (ZIP
// archives of PyTorch). A record is checked once; Upload checks those it has not seen.
func (s *Set) Verify() error {
	for _, name := range s.Names() {
		if err := s.tensors[name].verify(); err != nil {
			return err
		}
	}
	return nil
}

// Forget gives back the memory that the tensors' pages of mapped files take, once they were read. They can be read again.
func (s *Set) Forget() {
	for _, t := range s.tensors {
		forget(t.Data)
	}
}

// Upload copies every tensor to the backend's first device in its own precision: one copy, from the file to the device.
// Several tensors are copied at a time. On an error nothing is left on the device.
func (s *Set) Upload(backend compute.Backend) (map[string]*tensors.Tensor, error) {
	device := make(map[string]*tensors.Tensor, len(s.tensors))
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(min(runtime.GOMAXPROCS(0), 8))
	for name := range s.tensors {
		group.Go(func() error {
			d, err := s.upload(backend, name)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			device[name] = d
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		for _, d := range device {
			_ = d.FinalizeAll()
		}
		return nil, err
	}
	return device, nil
}

// upload copies one tensor. The backend's panics become errors: this may run in a goroutine of its own.
func (s *Set) upload(backend compute.Backend, name string) (d *tensors.Tensor, err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case error:
			err = fmt.Errorf("weights: upload %q: %w", name, p)
		default:
			err = fmt.Errorf("weights: upload %q: %v", name, p)
		}
	}()
	if err := s.tensors[name].verify(); err != nil {
		return nil, err
	}
	t, _ := s.Get(name)
	shape, data := shapes.Make(t.DType, t.Shape...), t.Data
	if shape.Size() == 0 && len(data) == 0 {
		return tensors.FromShape(shape), nil // not every backend takes a buffer of nothing
	}
	if wrapper, ok := backend.(interface{ Unwrap() compute.Backend }); ok {
		backend = wrapper.Unwrap() // arrays belong to the backend inside
	}
	if backend != nil && !backend.HasSharedBuffers() {
		// Such a backend is given a typed slice of these bytes instead of a copy of them.
		data = aligned(data, t.DType.Size())
	}
	d, err = tensors.FromRaw(backend, 0, shape, data)
	if err != nil {
		return nil, fmt.Errorf("weights: upload %q: %w", name, err)
	}
	forget(data)
	return d, nil
}

// aligned returns data, or a copy of it if it does not start at a multiple of size.
func aligned(data []byte, size int) []byte {
	if len(data) == 0 || uintptr(unsafe.Pointer(unsafe.SliceData(data)))%uintptr(size) == 0 {
		return data
	}
	words := make([]uint64, (len(data)+7)/8)
	buffer := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(data))
	copy(buffer, data)
	return buffer
}
