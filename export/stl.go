// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package export

import (
	"fmt"
	"io"
	"math"

	"github.com/gomlx3d/image3d/flexicubes"
)

// stlHeader is the 80 bytes before the triangles. They must not start with "solid", which marks text files.
const stlHeader = "image3d, binary STL, z up"

// WriteSTL writes a mesh as binary STL, for printing: triangles with their normals, no colours, z up. The format has no
// unit; a decoded object is about 1 large. A triangle without area gets the normal zero.
//
// The error wraps ErrMesh for an inconsistent mesh and ErrEmptyMesh for one without triangles.
func WriteSTL(w io.Writer, m *flexicubes.Mesh) error {
	err := checkFilledMesh(m)
	if err == nil && uint64(len(m.Faces)/3) > math.MaxUint32 {
		err = fmt.Errorf("%w: %d triangles", ErrMesh, len(m.Faces)/3)
	}
	if err != nil {
		return fmt.Errorf("export: write STL: %w", err)
	}
	s := newStream(w)
	header := make([]byte, 80)
	copy(header, stlHeader)
	s.bytes(header)
	s.uint32s(uint32(len(m.Faces) / 3))
	for i := 0; i < len(m.Faces) && s.err == nil; i += 3 {
		b := s.next(50)
		n := unit(faceNormal(m, i), [3]float32{})
		put3(b, n[:])
		for k, index := range m.Faces[i : i+3] {
			put3(b[12+12*k:], m.Vertices[3*int(index):3*int(index)+3])
		}
		b[48], b[49] = 0, 0 // attributes: none
	}
	if err := s.flush(); err != nil {
		return fmt.Errorf("export: write STL: %w", err)
	}
	return nil
}
