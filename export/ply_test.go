// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package export

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/splat"
)

func plyBytes(t testing.TB, g *splat.Gaussians, opt PLYOptions) []byte {
	t.Helper()
	var buf bytes.Buffer
	require.NoError(t, WritePLY(&buf, g, opt))
	return buf.Bytes()
}

// Whatever a file holds, writing what was read yields its bytes again.
func TestPLYRoundTrip(t *testing.T) {
	inf := float32(math.Inf(1))
	odd := decoded(t, 3, 1)
	odd.OpacityLogits = []float32{inf, -inf, 20.25}
	odd.LogScales[4], odd.LogScales[5] = -inf, 0.12345678
	odd.Means[0], odd.Means[1] = float32(math.Copysign(0, -1)), 1e-44
	copy(odd.Rotations, []float32{0, 0, 0, 0})
	many := 3*bufferSize/68 + 17
	for name, g := range map[string]*splat.Gaussians{
		"empty": {}, "one": decoded(t, 1, 2), "odd": odd, "several buffers": decoded(t, many, 3),
	} {
		for _, opt := range []PLYOptions{{}, {PadRest: true}} {
			first := plyBytes(t, g, opt)
			for reader, r := range map[string]io.Reader{
				"seeker": bytes.NewReader(first), "pipe": io.MultiReader(bytes.NewReader(first)), "slow": &trickle{first},
			} {
				got, err := ReadPLY(r)
				require.NoError(t, err, "%s, %s", name, reader)
				require.Zero(t, got.Kernel)
				require.True(t, bytes.Equal(first, plyBytes(t, got, opt)), "%s, %s", name, reader)
			}
		}
	}
}

// trickle hands out a few bytes at a time.
type trickle struct{ rest []byte }

func (r *trickle) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.rest[:min(len(r.rest), 1000)])
	r.rest = r.rest[n:]
	return n, nil
}

func TestPLYPadding(t *testing.T) {
	g := decoded(t, 5, 4)
	plain, padded := plyBytes(t, g, PLYOptions{}), plyBytes(t, g, PLYOptions{PadRest: true})
	require.Contains(t, string(padded), "f_dc_2\nproperty float f_rest_0\n")
	require.Contains(t, string(padded), "f_rest_44\nproperty float opacity\n")
	_, plain, _ = bytes.Cut(plain, []byte("end_header\n"))
	_, padded, _ = bytes.Cut(padded, []byte("end_header\n"))
	require.Len(t, plain, 68*5)
	require.Len(t, padded, (68+180)*5)
	for i := range 5 {
		a, b := plain[68*i:68*i+68], padded[248*i:248*i+248]
		require.Equal(t, a[:36], b[:36])
		require.Equal(t, make([]byte, 180), b[36:216])
		require.Equal(t, a[36:], b[216:])
	}
}

func TestWritePLYRejects(t *testing.T) {
	g := decoded(t, 5, 5)
	g.SH = g.SH[1:]
	require.ErrorIs(t, WritePLY(io.Discard, g, PLYOptions{}), splat.ErrInvalid)
	g = decoded(t, 5, 5)
	g.Means[7] = float32(math.NaN())
	require.ErrorIs(t, WritePLY(io.Discard, g, PLYOptions{}), splat.ErrInvalid)
}

// fields are the columns that ReadPLY needs, in an order that no writer uses.
var fields = strings.Fields("rot_3 opacity z scale_1 f_dc_2 rot_0 y scale_0 f_dc_0 rot_2 x scale_2 f_dc_1 rot_1")

// value returns a small whole number that differs for each column and row: every type can hold it.
func value(field string, row int) float64 {
	for i, f := range fields {
		if f == field {
			return float64(3*i + row)
		}
	}
	return 99
}

// foreign writes a file as other programs do: any type, byte order and columns, with other elements around.
func foreign(format, kindName string, rows int, extra ...string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "ply\r\nformat %s 1.0\r\ncomment made by hand: element vertex 9\r\nobj_info none\r\n", format)
	fmt.Fprintf(&b, "element camera 2\nproperty %s focal\nproperty list uchar short sizes\n", kindName)
	fmt.Fprintf(&b, "element nothing 1000000000\nelement plain 2\nproperty uchar a\nproperty double b\n")
	fmt.Fprintf(&b, "element vertex %d\n", rows)
	all := append(append([]string{}, extra...), fields...)
	for _, f := range all {
		fmt.Fprintf(&b, "property %s %s\n", kindName, f)
	}
	fmt.Fprintf(&b, "element face 1\nproperty list uchar int vertex_indices\nend_header\n")

	put := func(kindName string, v float64) {
		if format == "ascii" {
			fmt.Fprintf(&b, "%v ", v)
			return
		}
		var order binary.ByteOrder = binary.LittleEndian
		if format == "binary_big_endian" {
			order = binary.BigEndian
		}
		var x any
		switch kinds[kindName] {
		case kindInt8:
			x = int8(v)
		case kindUint8:
			x = uint8(v)
		case kindInt16:
			x = int16(v)
		case kindUint16:
			x = uint16(v)
		case kindInt32:
			x = int32(v)
		case kindUint32:
			x = uint32(v)
		case kindFloat32:
			x = float32(v)
		case kindFloat64:
			x = v
		}
		_ = binary.Write(&b, order, x)
	}
	for i := range 2 { // cameras
		put(kindName, 7)
		put("uchar", float64(3*i))
		for range 3 * i {
			put("short", 300)
		}
	}
	for range 2 { // plain
		put("uchar", 1)
		put("double", 2)
	}
	for row := range rows {
		for _, f := range all {
			put(kindName, value(f, row))
		}
		if format == "ascii" {
			b.WriteString("\n")
		}
	}
	put("uchar", 3)
	for range 3 {
		put("int", 0)
	}
	return b.Bytes()
}

func TestReadForeignPLY(t *testing.T) {
	for format := range encodings {
		for kindName := range kinds {
			for _, extra := range [][]string{nil, {"nx", "f_rest_0", "f_rest_44", "filter_3D"}} {
				g, err := ReadPLY(bytes.NewReader(foreign(format, kindName, 3, extra...)))
				require.NoError(t, err, "%s %s", format, kindName)
				require.Equal(t, 3, g.Len())
				for row := range 3 {
					for _, c := range columns {
						require.Equal(t, float32(value(c.name, row)), (*c.field(g))[row*c.width+c.index], "%s %s %s", format, kindName, c.name)
					}
				}
			}
		}
	}
}

func TestReadASCIIInfinities(t *testing.T) {
	text := strings.Replace(string(foreign("ascii", "float", 1)), " 0 3 6 9 ", " 0 -inf 6 9 ", 1)
	g, err := ReadPLY(strings.NewReader(text))
	require.NoError(t, err)
	require.Equal(t, float32(0), g.Opacity(0))
}

func TestReadPLYRejects(t *testing.T) {
	good := string(plyBytes(t, decoded(t, 4, 6), PLYOptions{}))
	ascii := string(foreign("ascii", "float", 3))
	swap := func(s, old, new string) string {
		require.Contains(t, s, old)
		return strings.Replace(s, old, new, 1)
	}
	for name, text := range map[string]string{
		"empty":            "",
		"html":             "<html><body>404</body></html>\n",
		"binary noise":     strings.Repeat("\x00\xff", 1000),
		"one long line":    strings.Repeat("ply", 100_000),
		"no end":           swap(good, "end_header", "comment"),
		"endless comments": "ply\n" + strings.Repeat("comment "+strings.Repeat("x", 1000)+"\n", 2000),
		"no format":        swap(good, "format binary_little_endian 1.0", "comment"),
		"format 2":         swap(good, "1.0", "2.0"),
		"middle endian":    swap(good, "little", "middle"),
		"no count":         swap(good, "vertex 4", "vertex"),
		"negative count":   swap(good, "vertex 4", "vertex -4"),
		"fraction":         swap(good, "vertex 4", "vertex 4.5"),
		"huge count":       swap(good, "vertex 4", "vertex 18446744073709551615"),
		"large count":      swap(good, "vertex 4", "vertex 1099511627776"),
		"one more":         swap(good, "vertex 4", "vertex 5"),
		"cut off":          good[:len(good)-1],
		"only header":      good[:strings.Index(good, "end_header\n")+len("end_header\n")],
		"unknown type":     swap(good, "float x", "float128 x"),
		"unknown line":     swap(good, "property float x", "property float x\nproprety float w"),
		"early property":   swap(good, "element vertex 4", "property float w\nelement vertex 4"),
		"twice":            swap(good, "float nx", "float x"),
		"no vertices":      swap(good, "element vertex", "element point"),
		"point cloud":      swap(good, "f_dc_1", "green"),
		"two scales":       swap(good, "scale_2", "size"),
		"list":             swap(good, "property float nx", "property list uchar float nx"),
		"list of floats":   swap(good, "element vertex 4", "element a 1\nproperty list float float b\nelement vertex 4"),
		"many properties":  swap(good, "end_header", strings.Repeat("property float q\n", 5000)+"end_header"),
		"list before":      swap(good, "element vertex 4", "element a 1\nproperty list int float b\nelement vertex 4"),
		"huge rows before": swap(good, "element vertex 4", "element a 1099511627776\nproperty double b\nelement vertex 4"),
		"NaN":              strings.Replace(good, good[len(good)-68:], "\x00\x00\xc0\x7f"+good[len(good)-64:], 1),
		"ascii words":      swap(ascii, " 6 9 12 ", " 6 nine 12 "),
		"ascii cut":        ascii[:strings.Index(ascii, "end_header")+60],
		"ascii long word":  swap(ascii, "end_header\n", "end_header\n"+strings.Repeat("1", 10_000)+" "),
		"ascii list":       swap(ascii, "end_header\n7 0 ", "end_header\n7 -1 "),
		"ascii huge":       swap(ascii, "end_header\n7 0 ", "end_header\n7 1e300 "),
	} {
		for _, r := range []io.Reader{strings.NewReader(text), io.MultiReader(strings.NewReader(text))} {
			g, err := ReadPLY(r)
			require.ErrorIs(t, err, ErrFormat, name)
			require.Nil(t, g)
		}
	}
}

// A header may promise anything: memory follows the data.
func TestReadPLYMemory(t *testing.T) {
	head, _, _ := strings.Cut(string(plyBytes(t, decoded(t, 4, 7), PLYOptions{})), "end_header\n")
	text := strings.Replace(head, "vertex 4", "vertex 1000000000000", 1) + "end_header\n" + strings.Repeat("\x00", 68*100)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := ReadPLY(strings.NewReader(text))
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, ErrFormat)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20))
}

func TestReadPLYPassesErrors(t *testing.T) {
	broken := errors.New("connection lost")
	good := plyBytes(t, decoded(t, 4, 8), PLYOptions{})
	for _, n := range []int{0, 100, len(good) - 5} {
		_, err := ReadPLY(io.MultiReader(bytes.NewReader(good[:n]), &failingReader{broken}))
		require.ErrorIs(t, err, broken)
		require.NotErrorIs(t, err, ErrFormat)
	}
}

type failingReader struct{ err error }

func (r *failingReader) Read([]byte) (int, error) { return 0, r.err }

func TestReadPLYFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.ply")
	g := decoded(t, 100, 9)
	require.NoError(t, os.WriteFile(path, plyBytes(t, g, PLYOptions{}), 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	got, err := ReadPLY(f)
	require.NoError(t, err)
	got.Kernel = g.Kernel
	require.Equal(t, g, got)
}

func FuzzReadPLY(f *testing.F) {
	f.Add(plyBytes(f, decoded(f, 3, 1), PLYOptions{}))
	f.Add(plyBytes(f, decoded(f, 1, 1), PLYOptions{PadRest: true}))
	for format := range encodings {
		f.Add(foreign(format, "short", 2, "nx"))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := ReadPLY(bytes.NewReader(data))
		if err != nil {
			require.ErrorIs(t, err, ErrFormat)
			return
		}
		first := plyBytes(t, g, PLYOptions{})
		again, err := ReadPLY(bytes.NewReader(first))
		require.NoError(t, err)
		require.Equal(t, first, plyBytes(t, again, PLYOptions{}))
	})
}
