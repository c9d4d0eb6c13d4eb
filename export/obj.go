// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package export

import (
	"fmt"
	"io"
	"strconv"

	"github.com/gomlx3d/image3d/flexicubes"
)

// WriteOBJ writes a mesh as Wavefront OBJ with vertex colours: lines "v x y z r g b" and "f a b c". Coordinates are
// those of the mesh (z up), colours those of the picture (sRGB, 0 to 1), numbers have 8 significant digits. A mesh
// without colours gets lines "v x y z". The bytes are those of the MLX port (mlx-vlm, sam3d_objects, write_obj).
//
// The error wraps ErrMesh for an inconsistent mesh and ErrEmptyMesh for one without triangles.
func WriteOBJ(w io.Writer, m *flexicubes.Mesh) error {
	if err := checkFilledMesh(m); err != nil {
		return fmt.Errorf("export: write OBJ: %w", err)
	}
	s := newStream(w)
	line := make([]byte, 0, 128)
	for i := 0; i < len(m.Vertices) && s.err == nil; i += 3 {
		line = appendFloats(append(line[:0], 'v'), m.Vertices[i:i+3])
		if m.Colors != nil {
			line = appendFloats(line, m.Colors[i:i+3])
		}
		s.bytes(append(line, '\n'))
	}
	for i := 0; i < len(m.Faces) && s.err == nil; i += 3 {
		line = append(line[:0], 'f')
		for _, index := range m.Faces[i : i+3] {
			line = strconv.AppendUint(append(line, ' '), uint64(index)+1, 10)
		}
		s.bytes(append(line, '\n'))
	}
	if err := s.flush(); err != nil {
		return fmt.Errorf("export: write OBJ: %w", err)
	}
	return nil
}

// appendFloats appends each value after a space, as C's %.8g would.
func appendFloats(line []byte, values []float32) []byte {
	for _, x := range values {
		line = strconv.AppendFloat(append(line, ' '), float64(x), 'g', 8, 64)
	}
	return line
}
