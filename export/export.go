// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package export writes Gaussians and meshes to files that viewers, game engines and printers open, and reads them back.
//
//	WritePLY, ReadPLY  Gaussian splats         object frame (z up), or wherever the splats were moved to
//	WriteScenePLY      splats of many objects  camera frame, to which the poses lead
//	WriteGLB, JoinGLB  meshes, posed or not    y up, as glTF wants it: (x, y, z) becomes (x, z, -y)
//	ReadGLB            a mesh                  turned back to z up: (x, y, z) becomes (x, -z, y)
//	WriteOBJ, ReadOBJ  a mesh with colours     object frame (z up)
//	WriteSTL, ReadSTL  a mesh for printing     object frame (z up)
//	File               any of them to a file, completely or not at all
//
// WriteScenePLY and JoinGLB take the objects of a scene from files, and hold one at a time.
//
// Writers stream: they hold a buffer of fixed size, not a copy of the data (WriteGLB also holds one object's normals).
// Pass them a file or a connection as it is; another buffer gains nothing. An error of the io.Writer comes back wrapped.
//
// It is plain Go and builds without an inference backend.
package export

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/gomlx3d/image3d/flexicubes"
)

// ErrMesh is wrapped by errors about meshes that no file can hold: indices out of range, lengths that disagree, values
// that are not finite, sizes beyond the format's.
var ErrMesh = errors.New("export: invalid mesh")

// ErrEmptyMesh is wrapped by the error about a mesh without triangles. A file without geometry opens nowhere, or looks
// like a fault of the viewer.
var ErrEmptyMesh = errors.New("export: mesh has no triangles")

// checkMesh returns an error that wraps ErrMesh if m is inconsistent. A mesh without triangles passes.
func checkMesh(m *flexicubes.Mesh) error {
	switch {
	case m == nil:
		return fmt.Errorf("%w: it is nil", ErrMesh)
	case len(m.Vertices)%3 != 0 || len(m.Faces)%3 != 0:
		return fmt.Errorf("%w: %d coordinates and %d indices, want multiples of 3", ErrMesh, len(m.Vertices), len(m.Faces))
	case m.Colors != nil && len(m.Colors) != len(m.Vertices):
		return fmt.Errorf("%w: %d colour channels for %d coordinates", ErrMesh, len(m.Colors), len(m.Vertices))
	case uint64(len(m.Vertices)/3) > math.MaxUint32:
		return fmt.Errorf("%w: %d vertices", ErrMesh, len(m.Vertices)/3)
	}
	for i, x := range m.Vertices {
		if x-x != 0 {
			return fmt.Errorf("%w: vertex %d is at %v", ErrMesh, i/3, x)
		}
	}
	for i, x := range m.Colors {
		if x-x != 0 {
			return fmt.Errorf("%w: vertex %d has colour %v", ErrMesh, i/3, x)
		}
	}
	count := uint32(len(m.Vertices) / 3)
	for i, index := range m.Faces {
		if index >= count {
			return fmt.Errorf("%w: face %d has vertex %d of %d", ErrMesh, i/3, index, count)
		}
	}
	return nil
}

// checkFilledMesh is checkMesh, and wraps ErrEmptyMesh for a mesh without triangles.
func checkFilledMesh(m *flexicubes.Mesh) error {
	if err := checkMesh(m); err != nil {
		return err
	}
	if len(m.Faces) == 0 {
		return fmt.Errorf("%w (%d vertices)", ErrEmptyMesh, len(m.Vertices)/3)
	}
	return nil
}

// bufferSize is how much writers collect before they write.
const bufferSize = 1 << 20

// stream collects what is written in one buffer of fixed size. It keeps the first error and drops all that follows.
type stream struct {
	w   io.Writer
	buf []byte
	err error
}

func newStream(w io.Writer) *stream { return &stream{w: w, buf: make([]byte, 0, bufferSize)} }

// next returns the next n bytes of the stream, to be filled before any other call. n is at most bufferSize.
func (s *stream) next(n int) []byte {
	if len(s.buf)+n > cap(s.buf) {
		s.flush()
	}
	s.buf = s.buf[:len(s.buf)+n]
	return s.buf[len(s.buf)-n:]
}

// bytes writes p, of any length.
func (s *stream) bytes(p []byte) {
	for len(p) > 0 {
		n := min(len(p), bufferSize)
		copy(s.next(n), p)
		p = p[n:]
	}
}

// uint32s writes little-endian numbers.
func (s *stream) uint32s(values ...uint32) {
	for _, v := range values {
		binary.LittleEndian.PutUint32(s.next(4), v)
	}
}

// flush passes on what is buffered and returns the first error of the stream.
func (s *stream) flush() error {
	if s.err == nil {
		s.err = writeAll(s.w, s.buf)
	}
	s.buf = s.buf[:0]
	return s.err
}

func writeAll(w io.Writer, p []byte) error {
	n, err := w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return err
}
