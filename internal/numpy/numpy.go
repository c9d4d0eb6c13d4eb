// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package numpy reads arrays of floats from NumPy's files, .npy and .npz, of anybody: nothing is allocated for what a
// header promises, only for what the file holds.
package numpy

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"codeberg.org/sbinet/npyio/npy"
	"github.com/x448/float16"
)

// ErrFormat says that data is no array that can be read: no NumPy file, damaged, or of another kind or shape.
var ErrFormat = errors.New("numpy: not a readable array")

// Array is an array of floats in C order: the last axis varies fastest.
type Array struct {
	Shape []int
	Data  []float32
}

// Check says what is wrong with the shape of an array, before the data are read. The sizes are not negative, and their
// product is that of an array that fits in memory.
type Check func(shape []int) error

// The first bytes of the files.
const (
	MagicNPY = "\x93NUMPY"
	MagicNPZ = "PK\x03\x04"
)

const (
	maxHeader = 1 << 16
	maxValues = math.MaxInt32
)

// Read reads a .npy file to its end: an array of float16, float32 or float64, little-endian and in C order, of a shape
// that check accepts. Values become float32. The error wraps ErrFormat, what check returned, or what r failed with.
func Read(r io.Reader, check Check) (*Array, error) {
	buffered := bufio.NewReaderSize(r, 2*maxHeader)
	header, err := readHeader(buffered)
	if err != nil {
		return nil, err
	}
	shape, count := header.Descr.Shape, 1
	for _, size := range shape {
		if size < 0 || size > 0 && count > maxValues/size {
			return nil, fmt.Errorf("%w: shape %s", ErrFormat, describe(shape))
		}
		count *= size
	}
	if header.Descr.Fortran {
		return nil, fmt.Errorf("%w: it is in Fortran order; save it with numpy.ascontiguousarray", ErrFormat)
	}
	size, value, err := element(header.Descr.Type)
	if err != nil {
		return nil, err
	}
	if err := check(shape); err != nil {
		return nil, err
	}
	a := &Array{Shape: shape}
	if a.Data, err = readValues(buffered, count, size, value); err != nil {
		return nil, fmt.Errorf("shape %s: %w", describe(shape), err)
	}
	return a, nil
}

// describe writes a shape, which may have any number of axes.
func describe(shape []int) string {
	if len(shape) > 8 {
		return fmt.Sprintf("%v and %d more axes", shape[:8], len(shape)-8)
	}
	return fmt.Sprint(shape)
}

// readHeader reads the header. Its length is checked before the library allocates it, and a panic of the library,
// which trusts what it reads, becomes an error.
func readHeader(r *bufio.Reader) (header npy.Header, err error) {
	const magic, fixed = len(MagicNPY), 12
	start, err := r.Peek(fixed)
	if err != nil && err != io.EOF {
		return header, fmt.Errorf("numpy: %w", err)
	}
	if len(start) < fixed || string(start[:magic]) != MagicNPY {
		return header, fmt.Errorf("%w: it does not start as a .npy file", ErrFormat)
	}
	length := fixed - 2 + int(binary.LittleEndian.Uint16(start[8:]))
	if start[magic] >= 2 {
		long := binary.LittleEndian.Uint32(start[8:])
		if long > maxHeader {
			return header, fmt.Errorf("%w: its header is longer than %d bytes", ErrFormat, maxHeader)
		}
		length = fixed + int(long)
	}
	if _, err := r.Peek(length); err == io.EOF {
		return header, fmt.Errorf("%w: the header is cut off", ErrFormat)
	} else if err != nil {
		return header, fmt.Errorf("numpy: %w", err)
	}
	defer func() {
		if recover() != nil {
			err = fmt.Errorf("%w: malformed header", ErrFormat)
		}
	}()
	reader, err := npy.NewReader(r)
	if err != nil {
		return header, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return reader.Header, nil
}

// readValues reads count elements and makes sure that none follows. What it allocates grows with what there is.
func readValues(r *bufio.Reader, count, size int, value func([]byte) float32) ([]float32, error) {
	const block = 1 << 12
	var out []float32
	if count <= block {
		out = make([]float32, 0, count)
	}
	buffer := make([]byte, size*min(count, block))
	for len(out) < count {
		part := buffer[:size*min(count-len(out), block)]
		if _, err := io.ReadFull(r, part); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, fmt.Errorf("%w: the data end early", ErrFormat)
		} else if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFormat, err)
		}
		for at := 0; at < len(part); at += size {
			out = append(out, value(part[at:]))
		}
	}
	switch _, err := r.ReadByte(); {
	case err == nil:
		return nil, fmt.Errorf("%w: there are more data", ErrFormat)
	case err != io.EOF: // a wrong checksum, for one
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return out, nil
}

// element returns the size and the reading of an element type, as the header spells it: '<f4'.
func element(descr string) (size int, value func([]byte) float32, err error) {
	switch descr {
	case "'<f2'":
		return 2, func(b []byte) float32 { return float16.Frombits(binary.LittleEndian.Uint16(b)).Float32() }, nil
	case "'<f4'":
		return 4, func(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }, nil
	case "'<f8'":
		return 8, func(b []byte) float32 { return float32(math.Float64frombits(binary.LittleEndian.Uint64(b))) }, nil
	}
	return 0, nil, fmt.Errorf("%w: elements of type %.40s; float16, float32 and float64 in little-endian order can be read",
		ErrFormat, descr)
}
