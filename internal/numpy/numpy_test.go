// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package numpy

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x448/float16"
)

// file is a .npy file.
func file(major byte, header string, data []byte) []byte {
	out := append([]byte(MagicNPY), major, 0)
	header += strings.Repeat(" ", 63-(len(header)+10)%64) + "\n"
	if major == 1 {
		out = binary.LittleEndian.AppendUint16(out, uint16(len(header)))
	} else {
		out = binary.LittleEndian.AppendUint32(out, uint32(len(header)))
	}
	return append(append(out, header...), data...)
}

func header(descr, order, shape string) string {
	return fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", descr, order, shape)
}

func anyShape([]int) error { return nil }

// values are of all kinds; data are they in the three types.
var values = []float32{0, 1, 2.5, -3, float32(math.NaN()), float32(math.Inf(1))}

func data() map[string][]byte {
	data := map[string][]byte{}
	for _, v := range values {
		data["<f2"] = binary.LittleEndian.AppendUint16(data["<f2"], float16.Fromfloat32(v).Bits())
		data["<f4"] = binary.LittleEndian.AppendUint32(data["<f4"], math.Float32bits(v))
		data["<f8"] = binary.LittleEndian.AppendUint64(data["<f8"], math.Float64bits(float64(v)))
	}
	return data
}

func requireValues(t *testing.T, got []float32) {
	t.Helper()
	require.Len(t, got, len(values))
	for i, v := range values {
		require.True(t, v == got[i] || v != v && got[i] != got[i], "value %d is %g", i, got[i])
	}
}

func TestRead(t *testing.T) {
	for descr, bytes := range data() {
		for shape, want := range map[string][]int{"(1, 2, 3)": {1, 2, 3}, "(6,)": {6}, "(2, 3)": {2, 3}} {
			for _, major := range []byte{1, 2} {
				a, err := Read(strings.NewReader(string(file(major, header(descr, "False", shape), bytes))), anyShape)
				require.NoError(t, err)
				require.Equal(t, want, a.Shape)
				requireValues(t, a.Data)
			}
		}
	}
	a, err := Read(bytes.NewReader(file(1, header("<f4", "False", "(0, 3)"), nil)), anyShape)
	require.NoError(t, err)
	require.Empty(t, a.Data)
	many := make([]byte, 4*10000)
	a, err = Read(bytes.NewReader(file(1, header("<f4", "False", "(100, 100)"), many)), anyShape)
	require.NoError(t, err)
	require.Len(t, a.Data, 10000)
}

// hostile are files that must be refused, and what their error says.
func hostile() map[string][2]string {
	points := string(make([]byte, 24))
	npy := func(major byte, header string) string { return string(file(major, header, []byte(points))) }
	long := file(2, header("<f4", "False", "(1, 2, 3)"), nil)
	binary.LittleEndian.PutUint32(long[8:], 1<<31)
	return map[string][2]string{
		"empty":          {"", "does not start"},
		"text":           {"this is no array, though it is long enough", "does not start"},
		"other version":  {npy(9, header("<f4", "False", "(1, 2, 3)")), "version"},
		"no keys":        {npy(1, "{}"), "dictionary"},
		"no header":      {npy(1, ""), "dictionary"},
		"no end":         {npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 3)"), "malformed"},
		"other order":    {npy(1, "{'shape': (1,), 'fortran_order': False, 'descr': '<f4'}"), "malformed"},
		"cut header":     {npy(1, header("<f4", "False", "(1, 2, 3)"))[:40], ""},
		"long header":    {string(long), "longer than"},
		"fortran":        {npy(1, header("<f4", "True", "(1, 2, 3)")), "Fortran"},
		"negative":       {npy(1, header("<f4", "False", "(-1, 2, 3)")), "shape"},
		"huge axis":      {npy(1, header("<f4", "False", "(99999999999999999999, 2)")), ""},
		"huge shape":     {npy(1, header("<f4", "False", "(1000000000, 1000000000, 3)")), "shape"},
		"overflow":       {npy(1, header("<f4", "False", "(4294967296, 4294967296, 4294967296)")), "shape"},
		"no shape":       {npy(1, header("<f4", "False", "(a, b)")), ""},
		"many axes":      {npy(1, header("<f4", "False", "("+strings.Repeat("9, ", 5000)+")")), "more axes"},
		"integers":       {npy(1, header("<i4", "False", "(1, 2, 3)")), "'<i4'"},
		"big endian":     {npy(1, header(">f4", "False", "(1, 2, 3)")), "'>f4'"},
		"objects":        {npy(1, header("|O", "False", "(1, 2, 3)")), "'|O'"},
		"records":        {npy(1, "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (6,), }"), "elements"},
		"data end early": {npy(1, header("<f4", "False", "(1, 2, 3)"))[:100], ""},
		"one byte short": {npy(1, header("<f4", "False", "(1, 2, 3)"))[:128+23], "end early"},
		"more data":      {npy(1, header("<f4", "False", "(1, 2, 3)")) + "x", "more data"},
		"large promise":  {npy(1, header("<f8", "False", "(10000, 10000, 3)")), "end early"},
	}
}

func TestReadRefuses(t *testing.T) {
	for name, test := range hostile() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Read(strings.NewReader(test[0]), anyShape)
		runtime.ReadMemStats(&after)
		require.ErrorIs(t, err, ErrFormat, name)
		require.ErrorContains(t, err, test[1], name)
		require.Less(t, len(err.Error()), 300, name)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(2<<20), name)
	}
	refused := errors.New("refused")
	_, err := Read(bytes.NewReader(file(1, header("<f4", "False", "(5,)"), nil)), func(shape []int) error {
		require.Equal(t, []int{5}, shape)
		return refused
	})
	require.ErrorIs(t, err, refused)
	require.NotErrorIs(t, err, ErrFormat)
}

type member struct {
	name   string
	method uint16
	data   []byte
}

// archive is a .npz file.
func archive(t testing.TB, members ...member) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, m := range members {
		entry, err := w.CreateHeader(&zip.FileHeader{Name: m.name, Method: m.method})
		require.NoError(t, err)
		_, err = entry.Write(m.data)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func readZip(file []byte, name string, preferred ...string) (*Array, error) {
	return ReadZip(bytes.NewReader(file), int64(len(file)), name, preferred, anyShape)
}

func TestReadZip(t *testing.T) {
	points := file(1, header("<f4", "False", "(6,)"), data()["<f4"])
	other := file(1, header("<f4", "False", "(1,)"), make([]byte, 4))
	for _, method := range []uint16{zip.Store, zip.Deflate} {
		one := archive(t, member{"readme.txt", method, []byte("text")}, member{"arr_0.npy", method, points})
		two := archive(t, member{"a.npy", method, other}, member{"b.npy", method, points})
		for _, test := range []struct {
			file      []byte
			name      string
			preferred []string
		}{{one, "", nil}, {one, "arr_0", nil}, {two, "b", []string{"a"}}, {two, "", []string{"x", "b", "a"}}} {
			a, err := readZip(test.file, test.name, test.preferred...)
			require.NoError(t, err)
			requireValues(t, a.Data)
		}
		_, err := readZip(two, "")
		require.ErrorIs(t, err, ErrFormat)
		require.ErrorContains(t, err, `"a", "b"`)
		_, err = readZip(two, "c", "a")
		require.ErrorContains(t, err, `"c"`)
	}
	_, err := readZip(archive(t), "")
	require.ErrorContains(t, err, "none")
}

func TestReadZipRefuses(t *testing.T) {
	for name, test := range hostile() {
		_, err := readZip(archive(t, member{"a.npy", zip.Deflate, []byte(test[0])}), "")
		require.ErrorIs(t, err, ErrFormat, name)
	}
	good := archive(t, member{"a.npy", zip.Store, file(1, header("<f4", "False", "(6,)"), data()["<f4"])})
	for n := range len(good) {
		_, err := readZip(good[:n], "")
		require.ErrorIs(t, err, ErrFormat)
	}
	damaged := bytes.Clone(good)
	damaged[bytes.Index(good, []byte("\n"))+3] ^= 1
	_, err := readZip(damaged, "")
	require.ErrorIs(t, err, zip.ErrChecksum)
	cut := archive(t, member{"a.npy", zip.Deflate, nil}) // compressed data that end early
	copy(cut[bytes.Index(cut, []byte("a.npy"))+5:], "\x00")
	_, err = readZip(cut, "")
	require.ErrorIs(t, err, ErrFormat)
	// An array that is far larger than its file, and a directory of that kind.
	bomb := archive(t, member{"a.npy", zip.Deflate, file(1, header("<f4", "False", "(6,)"), make([]byte, 16<<20))})
	_, err = readZip(bomb, "")
	require.ErrorContains(t, err, "more data")
	var many []member
	for range 1 << 14 {
		many = append(many, member{strings.Repeat("x", 40), zip.Store, nil})
	}
	_, err = readZip(archive(t, many...), "")
	require.ErrorContains(t, err, "directory")
}

type failing struct{}

var errLine = errors.New("broken line")

func (failing) Read([]byte) (int, error) { return 0, errLine }

func TestReaderFails(t *testing.T) {
	whole := file(1, header("<f4", "False", "(6,)"), data()["<f4"])
	for _, n := range []int{0, 5, 20, 140} {
		_, err := Read(io.MultiReader(bytes.NewReader(whole[:n]), failing{}), anyShape)
		require.ErrorIs(t, err, errLine, "%d", n)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(file(1, header("<f4", "False", "(6,)"), data()["<f4"]))
	f.Add(file(2, header("<f2", "False", "(1, 2, 3)"), data()["<f2"]))
	f.Add(archive(f, member{"points.npy", zip.Deflate, file(1, header("<f8", "False", "(2, 3)"), data()["<f8"])}))
	f.Add(archive(f, member{"a.npy", zip.Store, nil}, member{"points.npy", zip.Store, file(1, "{}", nil)}))
	for _, test := range hostile() {
		f.Add([]byte(test[0]))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		small := func(shape []int) error {
			total := 1
			for _, size := range shape {
				if total *= size; total > 1<<20 {
					return ErrFormat
				}
			}
			return nil
		}
		a, err := Read(bytes.NewReader(input), small)
		if bytes.HasPrefix(input, []byte(MagicNPZ)) {
			a, err = ReadZip(bytes.NewReader(input), int64(len(input)), "", []string{"points"}, small)
		}
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatalf("error %v", err)
			}
			return
		}
		total := 1
		for _, size := range a.Shape {
			total *= size
		}
		if total != len(a.Data) {
			t.Fatalf("%d values of shape %v", len(a.Data), a.Shape)
		}
	})
}
