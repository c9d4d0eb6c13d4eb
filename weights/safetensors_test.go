// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights

import (
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/stretchr/testify/require"
)

func TestSafetensors(t *testing.T) {
	set, err := parseSafetensors(safetensorsFile(`{"__metadata__":{"format":"mlx"},`+
		`"b":{"dtype":"I16","shape":[2,1],"data_offsets":[13,17]},`+
		`"é":{"shape":[3],"dtype":"F32","data_offsets":[0,12],"new":[{}]},`+
		`"e":{"dtype":"F64","shape":[4,0],"data_offsets":[12,12]},"s":{"dtype":"BOOL","shape":[],"data_offsets":[12,13]}}  `,
		threeFloats+"\x01\x02\x00\x03\x00"))
	require.NoError(t, err)
	require.NoError(t, set.Verify())
	require.Equal(t, []string{"b", "e", "s", "é"}, set.Names())
	b, ok := set.Get("b")
	require.True(t, ok)
	require.Equal(t, Tensor{DType: dtypes.Int16, Shape: []int{2, 1}, Data: []byte{2, 0, 3, 0}}, b)
	e, _ := set.Get("e")
	require.Equal(t, []int{4, 0}, e.Shape)
	require.Empty(t, e.Data)
	_, ok = set.Get("x")
	require.False(t, ok)

	empty, err := parseSafetensors(safetensorsFile("{}", ""))
	require.NoError(t, err)
	require.Zero(t, empty.Len())
}

func TestSafetensorsFaults(t *testing.T) {
	entry := func(dtype, shape, offsets string) string {
		return `{"w":{"dtype":` + dtype + `,"shape":` + shape + `,"data_offsets":` + offsets + `}}`
	}
	two := func(first, second string) string {
		return `{"a":{"dtype":"U8","shape":[8],"data_offsets":` + first +
			`},"b":{"dtype":"U8","shape":[4],"data_offsets":` + second + `}}`
	}
	for name, c := range map[string]struct{ header, fault string }{
		"metadata of numbers":   {`{"__metadata__":{"a":1}}`, "__metadata__"},
		"entry is a number":     {`{"w":1}`, "entry is not an object"},
		"entry is null":         {`{"w":null}`, "entry is not an object"},
		"no dtype":              {`{"w":{"DType":"F32","shape":[3],"data_offsets":[0,12]}}`, "missing dtype"},
		"dtype is a number":     {entry(`1`, `[3]`, `[0,12]`), "dtype is not a string"},
		"dtype in lower case":   {entry(`"f32"`, `[3]`, `[0,12]`), "unknown dtype f32"},
		"8-bit floats":          {entry(`"F8_E4M3"`, `[12]`, `[0,12]`), `"w": unknown dtype F8_E4M3`},
		"name is no UTF-8":      {"{\"w\xff\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]}}", "UTF-8"},
		"shape is a number":     {entry(`"F32"`, `3`, `[0,12]`), "not an array"},
		"shape is null":         {entry(`"F32"`, `null`, `[0,12]`), "not an array"},
		"shape is fractional":   {entry(`"F32"`, `[3.5]`, `[0,12]`), "not an integer"},
		"shape has an exponent": {entry(`"F32"`, `[3e0]`, `[0,12]`), "not an integer"},
		"shape of text":         {entry(`"F32"`, `["3"]`, `[0,12]`), "not an integer"},
		"shape beyond 64 bits":  {entry(`"F32"`, `[18446744073709551619]`, `[0,12]`), "not an integer"},
		"too many axes":         {entry(`"F32"`, `[`+strings.Repeat("1,", 16)+`3]`, `[0,12]`), "too many"},
		"three offsets":         {entry(`"F32"`, `[3]`, `[0,12,24]`), "want 2"},
		"overflow to the size":  {entry(`"F32"`, `[4611686018427387907]`, `[0,12]`), "overflow"},
		"gap at the start":      {two("[1,9]", "[9,13]"), "gap of 1"},
		"inside another":        {two("[0,8]", "[2,6]"), "overlapping"},
		"same bytes":            {two("[0,8]", "[0,4]"), "overlapping"},
		"empty inside another": {`{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},` +
			`"b":{"dtype":"U8","shape":[0],"data_offsets":[4,4]}}`, "overlapping"},
		"nothing covers it":      {`{}`, "longer than the tensors: 12"},
		"duplicate field":        {`{"w":{"dtype":"F32","shape":[3],"shape":[3],"data_offsets":[0,12]}}`, "duplicate"},
		"duplicate by escape":    {`{"w":1,"\u0077":1}`, "duplicate"},
		"text after the object":  {`{} {}`, "invalid JSON"},
		"null":                   {`null`, "not an object"},
		"nested":                 {`{"w":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`, "too deep"},
		"values":                 {`{"w":[` + strings.Repeat("1,", maxJSONValues) + `1]}`, "values"},
		"string is cut":          {`{"w`, "invalid JSON"},
		"outside, and not large": {entry(`"F32"`, `[4]`, `[0,16]`), "outside the file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseSafetensors(safetensorsFile(c.header, threeFloats))
			require.ErrorContains(t, err, c.fault)
			require.ErrorIs(t, err, ErrFormat)
		})
	}
	long := safetensorsFile(`{`+strings.Repeat(" ", maxSafetensorsHeader)+`}`, "")
	_, err := parseSafetensors(long)
	require.ErrorContains(t, err, "at most")
}

// TestSafetensorsPrefixes refuses every prefix of a file, and every longer file.
func TestSafetensorsPrefixes(t *testing.T) {
	data := safetensorsFile(`{"w":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}}`, threeFloats)
	for n := range data {
		_, err := parseSafetensors(data[:n])
		require.ErrorIs(t, err, ErrFormat, "%d bytes", n)
	}
	_, err := parseSafetensors(append(data, 0))
	require.ErrorIs(t, err, ErrFormat)
}

func FuzzSafetensors(f *testing.F) {
	for _, seed := range seeds(f) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkParsed(t, data, parseSafetensors) })
}
