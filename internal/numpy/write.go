// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package numpy

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
)

// headerAlign is what the length of everything before the data is a multiple of.
const headerAlign = 64

// Write writes an array as a .npy file of float32, version 1.0, in C order. It fails with what w failed with, or if the
// shape is not that of the data.
func Write(w io.Writer, a *Array) error {
	size := 1
	dims := make([]string, len(a.Shape))
	for i, n := range a.Shape {
		size *= n
		dims[i] = fmt.Sprintf("%d,", n) // a comma after the only one too
	}
	if size != len(a.Data) {
		return fmt.Errorf("numpy: %d values for the shape %v", len(a.Data), a.Shape)
	}
	header := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }", strings.Join(dims, " "))
	const before = len(MagicNPY) + 4 // the version and the header's length
	header += strings.Repeat(" ", headerAlign-1-(before+len(header))%headerAlign) + "\n"
	if len(header) > math.MaxUint16 {
		return fmt.Errorf("numpy: a shape of %d axes", len(a.Shape))
	}
	out := bufio.NewWriterSize(w, 1<<16)
	start := append([]byte(MagicNPY), 1, 0)
	start = binary.LittleEndian.AppendUint16(start, uint16(len(header)))
	_, _ = out.Write(append(start, header...)) // Flush returns the first error
	var value [4]byte
	for _, v := range a.Data {
		binary.LittleEndian.PutUint32(value[:], math.Float32bits(v))
		if _, err := out.Write(value[:]); err != nil {
			return err
		}
	}
	return out.Flush()
}
