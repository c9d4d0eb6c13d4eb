// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/gomlx/compute/dtypes"
)

// Entry is one tensor to be written.
type Entry struct {
	Name  string
	DType dtypes.DType
	Shape []int // empty for a scalar
	// Write writes the tensor's bytes, little-endian and row-major, as many as DType and Shape take. It is called once,
	// in the order of the file.
	Write func(w io.Writer) error
}

// EntryOf returns the entry of a tensor that is in memory.
func EntryOf(name string, t Tensor) Entry {
	return Entry{Name: name, DType: t.DType, Shape: t.Shape, Write: func(w io.Writer) error {
		_, err := w.Write(t.Data)
		return err
	}}
}

// WriteSafetensors writes a file in the safetensors format. Tensors are written one after the other, the widest
// elements first and then by name, so that all are aligned to their elements and no more than one need be in memory.
//
// The file appears at path complete or not at all. Without overwrite, a file that exists is an error that matches
// fs.ErrExist. It is an error too if two tensors have one name, or a tensor's Write gives another number of bytes.
func WriteSafetensors(path string, overwrite bool, entries []Entry) error {
	entries, sizes, err := sorted(entries)
	if err != nil {
		return fmt.Errorf("weights: write %s: %w", path, err)
	}
	header, err := safetensorsHeader(entries, sizes)
	if err != nil {
		return fmt.Errorf("weights: write %s: %w", path, err)
	}
	return writeWhole(path, overwrite, func(w io.Writer) error {
		if _, err := w.Write(header); err != nil {
			return err
		}
		for i, e := range entries {
			if err := e.write(w, sizes[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// safetensorsHeader returns what precedes the data section.
func safetensorsHeader(entries []Entry, sizes []int) ([]byte, error) {
	names := make(map[dtypes.DType]string)
	for name, dtype := range safetensorsDTypes {
		names[dtype] = name
	}
	type field struct {
		DType   string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}
	fields, end := make(map[string]field, len(entries)), 0
	for i, e := range entries {
		dtype, ok := names[e.DType]
		if !ok {
			return nil, fmt.Errorf("tensor %q: dtype %v has no safetensors name", e.Name, e.DType)
		}
		fields[e.Name] = field{dtype, append([]int{}, e.Shape...), [2]int{end, end + sizes[i]}}
		end += sizes[i]
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	if len(text) > maxSafetensorsHeader {
		return nil, fmt.Errorf("header of %d bytes is too long, at most %d", len(text), maxSafetensorsHeader)
	}
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), nil
}

// sorted returns the entries by name, with their sizes in bytes.
func sorted(entries []Entry) ([]Entry, []int, error) {
	entries = slices.Clone(entries)
	slices.SortFunc(entries, func(a, b Entry) int { // the widest first, so that all are aligned to their elements
		return cmp.Or(cmp.Compare(b.DType.Size(), a.DType.Size()), cmp.Compare(a.Name, b.Name))
	})
	sizes, seen := make([]int, len(entries)), make(map[string]bool)
	if len(entries) > maxTensors {
		return nil, nil, fmt.Errorf("%d tensors are too many, at most %d", len(entries), maxTensors)
	}
	for i, e := range entries {
		if seen[e.Name] {
			return nil, nil, fmt.Errorf("tensor %q is there twice", e.Name)
		}
		seen[e.Name] = true
		if len(e.Shape) > maxRank {
			return nil, nil, fmt.Errorf("tensor %q has %d axes, at most %d", e.Name, len(e.Shape), maxRank)
		}
		if e.Write == nil || slices.ContainsFunc(e.Shape, func(dim int) bool { return dim < 0 }) {
			return nil, nil, fmt.Errorf("tensor %q: no values, or a negative dimension in shape %v", e.Name, e.Shape)
		}
		var err error
		if sizes[i], err = byteSize(e.Name, e.Shape, e.DType); err != nil {
			return nil, nil, err
		}
	}
	return entries, sizes, nil
}

// write writes the tensor and checks that it has size bytes.
func (e Entry) write(w io.Writer, size int) error {
	counted := &countingWriter{to: w}
	if err := e.Write(counted); err != nil {
		return fmt.Errorf("tensor %q: %w", e.Name, err)
	}
	if counted.n != int64(size) {
		return fmt.Errorf("tensor %q: %d bytes were written, %d belong to shape %v of %v", e.Name, counted.n, size, e.Shape, e.DType)
	}
	return nil
}

// countingWriter counts the bytes that pass.
type countingWriter struct {
	to io.Writer
	n  int64
}

// Write implements io.Writer.
func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	return n, err
}

// writeWhole gives path the content that write makes, once it is complete.
func writeWhole(path string, overwrite bool, write func(io.Writer) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("weights: write %s: %w", path, err)
		}
	}()
	if _, err := os.Lstat(path); err == nil && !overwrite {
		return fs.ErrExist
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".weights-*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		_ = file.Close() // a second Close is harmless
		_ = os.Remove(file.Name())
	}()
	buffer := bufio.NewWriterSize(file, 1<<20)
	if err := errors.Join(write(buffer), buffer.Flush(), file.Chmod(0o644)); err != nil {
		return err
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
