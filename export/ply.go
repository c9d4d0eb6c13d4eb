// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package export

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/gomlx3d/image3d/splat"
)

// PLYOptions changes what WritePLY writes. Its zero value is the file of SAM 3D Objects.
type PLYOptions struct {
	// PadRest adds the 45 coefficients of spherical harmonics of degree 1 to 3, all zero, for viewers that know no
	// other file. It makes the file 3.6 times as long.
	PadRest bool
}

// restCount is the number of coefficients of degrees 1 to 3.
const restCount = 45

// plyColumns returns the names of the properties in the order of the file.
func plyColumns(opt PLYOptions) []string {
	columns := strings.Fields("x y z nx ny nz f_dc_0 f_dc_1 f_dc_2")
	if opt.PadRest {
		for i := range restCount {
			columns = append(columns, fmt.Sprintf("f_rest_%d", i))
		}
	}
	return append(columns, strings.Fields("opacity scale_0 scale_1 scale_2 rot_0 rot_1 rot_2 rot_3")...)
}

// WritePLY writes splats as the binary little-endian PLY that splat viewers read, byte for byte the layout of
// SAM 3D Objects (gaussian_model.py, save_ply): one element "vertex" of float properties, normals zero. Values are
// those of g as they are: scales as logarithms, opacities as logits, rotations w, x, y, z not normalised.
//
// The error wraps splat.ErrInvalid if g is not valid.
func WritePLY(w io.Writer, g *splat.Gaussians, opt PLYOptions) error {
	if err := g.Validate(); err != nil {
		return fmt.Errorf("export: write PLY: %w", err)
	}
	columns := plyColumns(opt)
	if err := writePLYHeader(w, columns, g.Len()); err != nil {
		return fmt.Errorf("export: write PLY: %w", err)
	}
	if err := writePLYRows(w, 4*len(columns), g); err != nil {
		return fmt.Errorf("export: write PLY: %w", err)
	}
	return nil
}

func writePLYHeader(w io.Writer, columns []string, splats int) error {
	var header strings.Builder
	fmt.Fprintf(&header, "ply\nformat binary_little_endian 1.0\nelement vertex %d\n", splats)
	for _, name := range columns {
		header.WriteString("property float " + name + "\n")
	}
	header.WriteString("end_header\n")
	return writeAll(w, []byte(header.String()))
}

// writePLYRows writes splats as rows of stride bytes.
func writePLYRows(w io.Writer, stride int, g *splat.Gaussians) error {
	// Bytes of columns that packPLY leaves alone stay zero.
	rows := max(1, min(bufferSize/stride, g.Len()))
	buf := make([]byte, rows*stride)
	for start := 0; start < g.Len(); start += rows {
		end := min(start+rows, g.Len())
		packPLY(buf, stride, g, start, end)
		if err := writeAll(w, buf[:(end-start)*stride]); err != nil {
			return err
		}
	}
	return nil
}

// packPLY writes splats start to end into rows of stride bytes.
func packPLY(buf []byte, stride int, g *splat.Gaussians, start, end int) {
	for i := start; i < end; i++ {
		row := buf[:stride]
		buf = buf[stride:]
		put3(row[0:12], g.Means[3*i:3*i+3])
		put3(row[24:36], g.SH[3*i:3*i+3])
		tail := row[stride-32:]
		binary.LittleEndian.PutUint32(tail, math.Float32bits(g.OpacityLogits[i]))
		put3(tail[4:16], g.LogScales[3*i:3*i+3])
		q := g.Rotations[4*i : 4*i+4]
		put3(tail[16:28], q[:3])
		binary.LittleEndian.PutUint32(tail[28:32], math.Float32bits(q[3]))
	}
}

// put3 writes three floats to 12 bytes.
func put3(b []byte, v []float32) {
	_, _ = b[11], v[2] // one bounds check instead of six
	binary.LittleEndian.PutUint32(b[0:], math.Float32bits(v[0]))
	binary.LittleEndian.PutUint32(b[4:], math.Float32bits(v[1]))
	binary.LittleEndian.PutUint32(b[8:], math.Float32bits(v[2]))
}
