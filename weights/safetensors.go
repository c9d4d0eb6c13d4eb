// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/compute/dtypes"
)

// Limits of a safetensors file. The header of the largest released shard has 0.3 MB.
const (
	maxSafetensorsHeader = 8 << 20
	maxTensors           = 1 << 16
)

var safetensorsDTypes = map[string]dtypes.DType{
	"F64": dtypes.Float64, "F32": dtypes.Float32, "F16": dtypes.Float16, "BF16": dtypes.BFloat16,
	"I64": dtypes.Int64, "I32": dtypes.Int32, "I16": dtypes.Int16, "I8": dtypes.Int8,
	"U64": dtypes.Uint64, "U32": dtypes.Uint32, "U16": dtypes.Uint16, "U8": dtypes.Uint8, "BOOL": dtypes.Bool,
	"C64": dtypes.Complex64,
}

// OpenSafetensors maps a safetensors file.
//
// It is strict: the tensors must cover the data section exactly, without overlap or gap. Data may lie at any file
// offset, aligned or not. Errors about the content match ErrFormat.
func OpenSafetensors(path string) (*Set, error) { return openWith(path, parseSafetensors) }

// looksLikeSafetensors reports whether data starts with a plausible header length and a JSON object.
func looksLikeSafetensors(data []byte) bool {
	return len(data) > 8 && data[8] == '{' && binary.LittleEndian.Uint64(data) <= maxSafetensorsHeader
}

// entry is one tensor of a header.
type entry struct {
	name       string
	dtype      dtypes.DType
	shape      []int
	begin, end int // in the data section
}

func parseSafetensors(data []byte) (*Set, error) {
	header, body, err := splitSafetensors(data)
	if err != nil {
		return nil, err
	}
	if err := checkJSON(header); err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(header, &fields); err != nil {
		return nil, faultf("invalid JSON header: %v", err)
	}
	if len(fields) > maxTensors {
		return nil, faultf("%d tensors are too many, at most %d", len(fields), maxTensors)
	}
	entries := make([]entry, 0, len(fields))
	for name, raw := range fields {
		if name == "__metadata__" {
			var metadata map[string]string
			if json.Unmarshal(raw, &metadata) != nil {
				return nil, faultf("__metadata__ is not an object of strings")
			}
			continue
		}
		e, err := parseEntry(name, raw)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	if err := checkCoverage(entries, len(body)); err != nil {
		return nil, err
	}
	set := &Set{tensors: make(map[string]Tensor, len(entries))}
	for _, e := range entries {
		set.tensors[e.name] = Tensor{DType: e.dtype, Shape: e.shape, Data: body[e.begin:e.end:e.end]}
	}
	return set, nil
}

// splitSafetensors returns the header and the data section.
func splitSafetensors(data []byte) (header, body []byte, err error) {
	if len(data) < 8 {
		if len(data) == 0 {
			return nil, nil, errUnknownContent(data)
		}
		return nil, nil, faultf("file too short: %d bytes, a safetensors file has at least 8", len(data))
	}
	n := binary.LittleEndian.Uint64(data)
	rest := data[8:]
	switch {
	case n > uint64(len(rest)):
		if head := data[:min(len(data), 64)]; strings.HasPrefix(strings.TrimSpace(string(head)), "<") ||
			strings.HasPrefix(string(head), "version http") {
			return nil, nil, errUnknownContent(data)
		}
		if n > math.MaxInt64 {
			return nil, nil, faultf("header length %d is invalid", n)
		}
		return nil, nil, faultf("header length %d: header longer than the file", n)
	case n > maxSafetensorsHeader:
		return nil, nil, faultf("header length %d is invalid, at most %d", n, maxSafetensorsHeader)
	case n == 0:
		return nil, nil, faultf("header length 0 is invalid")
	}
	return rest[:n], rest[n:], nil
}

func parseEntry(name string, raw json.RawMessage) (entry, error) {
	e := entry{name: name}
	var fields map[string]json.RawMessage // not a struct: its names would match in any case
	if json.Unmarshal(raw, &fields) != nil || fields == nil {
		return e, tensorFaultf(name, "entry is not an object")
	}
	for _, field := range []string{"dtype", "shape", "data_offsets"} {
		if fields[field] == nil {
			return e, tensorFaultf(name, "missing %s", field)
		}
	}
	var dtype string
	if json.Unmarshal(fields["dtype"], &dtype) != nil {
		return e, tensorFaultf(name, "dtype is not a string")
	}
	var ok bool
	if e.dtype, ok = safetensorsDTypes[dtype]; !ok {
		return e, tensorFaultf(name, "unknown dtype %s", printable(dtype))
	}
	var err error
	if e.shape, err = parseInts(name, "dimension", fields["shape"]); err != nil {
		return e, err
	}
	size, err := byteSize(name, e.shape, e.dtype)
	if err != nil {
		return e, err
	}
	offsets, err := parseInts(name, "offset", fields["data_offsets"])
	if err != nil {
		return e, err
	}
	if len(offsets) != 2 {
		return e, tensorFaultf(name, "data_offsets has %d numbers, want 2", len(offsets))
	}
	e.begin, e.end = offsets[0], offsets[1]
	if e.end < e.begin {
		return e, tensorFaultf(name, "end offset %d before begin offset %d", e.end, e.begin)
	}
	if e.end-e.begin != size {
		return e, tensorFaultf(name, "byte length %d does not match shape %v and dtype %s: %d bytes expected",
			e.end-e.begin, e.shape, dtype, size)
	}
	return e, nil
}

// parseInts reads an array of non-negative integers. What names one of them in an error.
func parseInts(tensor, what string, raw json.RawMessage) ([]int, error) {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil || items == nil {
		return nil, tensorFaultf(tensor, "%ss are not an array", what)
	}
	if len(items) > maxRank {
		return nil, tensorFaultf(tensor, "%d %ss are too many, at most %d", len(items), what, maxRank)
	}
	ints := make([]int, len(items))
	for i, item := range items {
		text := string(item)
		n, err := strconv.ParseUint(text, 10, 63)
		switch {
		case err == nil && n <= math.MaxInt:
			ints[i] = int(n)
		case strings.HasPrefix(text, "-"):
			return nil, tensorFaultf(tensor, "negative %s %.32s", what, text)
		default:
			return nil, tensorFaultf(tensor, "%s %.32s is not an integer in range", what, text)
		}
	}
	return ints, nil
}

// byteSize returns the size of a tensor in bytes, whose dimensions are not negative.
func byteSize(tensor string, shape []int, dtype dtypes.DType) (int, error) {
	size := uint64(dtype.Size())
	zero := slices.Contains(shape, 0)
	for _, dim := range shape {
		high, low := bits.Mul64(size, uint64(dim))
		if size = low; (high != 0 || low > math.MaxInt) && !zero {
			return 0, tensorFaultf(tensor, "size overflow: shape %v of %v is too large", shape, dtype)
		}
	}
	return int(size), nil
}

// checkCoverage sorts entries by offset and demands that they cover n bytes, each once.
func checkCoverage(entries []entry, n int) error {
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end), cmp.Compare(a.name, b.name))
	})
	end := 0
	for _, e := range entries {
		switch {
		case e.end > n:
			return tensorFaultf(e.name, "bytes %d to %d are outside the file, whose data section has %d", e.begin, e.end, n)
		case e.begin < end:
			return tensorFaultf(e.name, "overlapping tensors: begins at %d, the one before ends at %d", e.begin, end)
		case e.begin > end:
			return tensorFaultf(e.name, "gap of %d bytes in the data section before it", e.begin-end)
		}
		end = e.end
	}
	if end != n {
		return faultf("data section is longer than the tensors: %d trailing bytes", n-end)
	}
	return nil
}
