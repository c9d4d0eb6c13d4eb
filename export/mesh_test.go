// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package export

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/flexicubes"
)

func TestOBJ(t *testing.T) {
	m := &flexicubes.Mesh{
		Vertices: []float32{0, 0.5, -1, 1e-5, 123456.78, 1e9, 0.1, float32(math.Copysign(0, -1)), 100000000},
		Faces:    []uint32{0, 1, 2},
	}
	var buf bytes.Buffer
	require.NoError(t, WriteOBJ(&buf, m))
	require.Equal(t, "v 0 0.5 -1\nv 9.9999997e-06 123456.78 1e+09\nv 0.1 -0 1e+08\nf 1 2 3\n", buf.String())
	m.Colors = []float32{0, 0.25, 1, 0, 0, 0, 1, 1, 1. / 3}
	buf.Reset()
	require.NoError(t, WriteOBJ(&buf, m))
	require.Contains(t, buf.String(), "v 0 0.5 -1 0 0.25 1\n")
	require.Contains(t, buf.String(), "v 0.1 -0 1e+08 1 1 0.33333334\n")
}

func TestSTL(t *testing.T) {
	m := hook()
	m.Faces = append(m.Faces, 1, 2, 2) // without area
	var buf bytes.Buffer
	require.NoError(t, WriteSTL(&buf, m))
	b := buf.Bytes()
	require.Len(t, b, 84+50*5)
	require.False(t, bytes.HasPrefix(b, []byte("solid")))
	require.Equal(t, uint32(5), binary.LittleEndian.Uint32(b[80:]))
	for i := range 5 {
		var triangle [12]float32
		row := b[84+50*i:]
		for k := range triangle {
			triangle[k] = math.Float32frombits(binary.LittleEndian.Uint32(row[4*k:]))
		}
		for k, index := range m.Faces[3*i : 3*i+3] {
			require.Equal(t, m.Vertices[3*index:3*index+3], triangle[3+3*k:6+3*k])
		}
		require.Zero(t, binary.LittleEndian.Uint16(row[48:]))
		length := 0.0
		outward := 0.0 // from the middle of the tetrahedron
		for k := range 3 {
			length += float64(triangle[k]) * float64(triangle[k])
			middle := (m.Vertices[k] + m.Vertices[3+k] + m.Vertices[6+k] + m.Vertices[9+k]) / 4
			outward += float64(triangle[k]) * float64(triangle[3+k]-middle)
		}
		if i == 4 {
			require.Zero(t, length)
			continue
		}
		require.InDelta(t, 1, length, 1e-6)
		require.Positive(t, outward)
	}
}
