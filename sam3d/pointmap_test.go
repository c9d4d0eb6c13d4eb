// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d_test

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x448/float16"

	"github.com/gomlx3d/image3d/sam3d"
)

// array is a .npy file.
func array(major byte, header string, data []byte) []byte {
	file := append([]byte("\x93NUMPY"), major, 0)
	header += strings.Repeat(" ", 63-(len(header)+10)%64) + "\n"
	if major == 1 {
		file = binary.LittleEndian.AppendUint16(file, uint16(len(header)))
	} else {
		file = binary.LittleEndian.AppendUint32(file, uint32(len(header)))
	}
	return append(append(file, header...), data...)
}

func header(descr, order, shape string) string {
	return fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", descr, order, shape)
}

func loadPoints(t *testing.T, file []byte) (*sam3d.PointMap, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "points.npy")
	require.NoError(t, os.WriteFile(path, file, 0o666))
	return sam3d.LoadPointMap(path)
}

func TestLoadPointMap(t *testing.T) {
	values := []float32{0, 1, 2.5, -3, float32(math.NaN()), float32(math.Inf(1))} // 1 x 2 points
	data := map[string][]byte{}
	for _, v := range values {
		data["<f2"] = binary.LittleEndian.AppendUint16(data["<f2"], float16.Fromfloat32(v).Bits())
		data["<f4"] = binary.LittleEndian.AppendUint32(data["<f4"], math.Float32bits(v))
		data["<f8"] = binary.LittleEndian.AppendUint64(data["<f8"], math.Float64bits(float64(v)))
	}
	for descr, bytes := range data {
		for _, major := range []byte{1, 2} {
			m, err := loadPoints(t, array(major, header(descr, "False", "(1, 2, 3)"), bytes))
			require.NoError(t, err, descr)
			require.Equal(t, [2]int{2, 1}, [2]int{m.Width, m.Height})
			for i, v := range values {
				require.Equal(t, math.IsNaN(float64(v)), math.IsNaN(float64(m.Points[i])))
				if v == v {
					require.Equal(t, v, m.Points[i], "%s %d", descr, i)
				}
			}
		}
	}
}

func TestLoadPointMapErrors(t *testing.T) {
	_, err := sam3d.LoadPointMap(filepath.Join(t.TempDir(), "none.npy"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	points := make([]byte, 24)
	huge := array(2, header("<f4", "False", "(1, 2, 3)"), points)
	binary.LittleEndian.PutUint32(huge[8:], 1<<31)
	for name, file := range map[string][]byte{
		"empty":          nil,
		"text":           []byte("this is no array, though it is long enough"),
		"other version":  array(9, header("<f4", "False", "(1, 2, 3)"), points),
		"no keys":        array(1, "{}", points),
		"no header":      array(1, "", points),
		"cut header":     array(1, header("<f4", "False", "(1, 2, 3)"), points)[:40],
		"huge header":    huge,
		"fortran":        array(1, header("<f4", "True", "(1, 2, 3)"), points),
		"two axes":       array(1, header("<f4", "False", "(2, 3)"), points),
		"four values":    array(1, header("<f4", "False", "(1, 2, 4)"), points),
		"no pixels":      array(1, header("<f4", "False", "(0, 2, 3)"), nil),
		"negative":       array(1, header("<f4", "False", "(-1, 2, 3)"), points),
		"huge shape":     array(1, header("<f4", "False", "(1000000000, 1000000000, 3)"), points),
		"integers":       array(1, header("<i4", "False", "(1, 2, 3)"), points),
		"big endian":     array(1, header(">f4", "False", "(1, 2, 3)"), points),
		"objects":        array(1, header("|O", "False", "(1, 2, 3)"), points),
		"data end early": array(1, header("<f4", "False", "(1, 2, 3)"), points[:20]),
		"more data":      array(1, header("<f4", "False", "(1, 2, 3)"), append(points, 0)),
	} {
		_, err := loadPoints(t, file)
		require.ErrorIs(t, err, sam3d.ErrPointMapFile, name)
		require.ErrorContains(t, err, "points.npy", name)
	}
}
