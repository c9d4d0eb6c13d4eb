// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package export

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// ErrFormat is wrapped by errors about files that are not what they should be: not PLY, without splats, damaged or
// cut off.
var ErrFormat = errors.New("export: malformed file")

// Limits of what a PLY header may declare. They are far above any real file and bound the work before its first value.
const (
	maxHeaderBytes = 1 << 20
	maxProperties  = 4096
	maxRows        = 1 << 40
)

// kind is the type of a number in a PLY file.
type kind int

const (
	kindInt8 kind = iota
	kindUint8
	kindInt16
	kindUint16
	kindInt32
	kindUint32
	kindFloat32
	kindFloat64
)

// kinds holds both names that files use for each type.
var kinds = map[string]kind{
	"char": kindInt8, "uchar": kindUint8, "short": kindInt16, "ushort": kindUint16,
	"int": kindInt32, "uint": kindUint32, "float": kindFloat32, "double": kindFloat64,
	"int8": kindInt8, "uint8": kindUint8, "int16": kindInt16, "uint16": kindUint16,
	"int32": kindInt32, "uint32": kindUint32, "float32": kindFloat32, "float64": kindFloat64,
}

// size returns the number of bytes of a number in a binary file.
func (k kind) size() int { return [...]int{1, 1, 2, 2, 4, 4, 4, 8}[k] }

// encoding is how the numbers of a PLY file are written.
type encoding int

const (
	encodingASCII encoding = iota
	encodingLittle
	encodingBig
)

var encodings = map[string]encoding{
	"ascii": encodingASCII, "binary_little_endian": encodingLittle, "binary_big_endian": encodingBig,
}

// property is one column of an element, or a list of any length if isList.
type property struct {
	name   string
	kind   kind
	isList bool
	count  kind // of the length of a list
}

// element is one table of a PLY file.
type element struct {
	name       string
	rows       int64
	properties []property
}

// rowSize returns the bytes of a row in a binary file; ok is false if rows hold lists and so differ in size.
func (e element) rowSize() (size int, ok bool) {
	for _, p := range e.properties {
		if p.isList {
			return 0, false
		}
		size += p.kind.size()
	}
	return size, true
}

// plyHeader is what stands before the numbers.
type plyHeader struct {
	encoding encoding
	elements []element
}

// readHeader reads up to and including the line end_header.
func readHeader(r *bufio.Reader) (*plyHeader, error) {
	h := &plyHeader{encoding: -1}
	left := maxHeaderBytes
	properties := 0
	for number := 1; ; number++ {
		line, err := r.ReadSlice('\n')
		left -= len(line)
		if errors.Is(err, bufio.ErrBufferFull) || left < 0 {
			return nil, fmt.Errorf("%w: PLY header has a line or a length beyond any real one", ErrFormat)
		}
		if err != nil {
			return nil, cutOff(err, "PLY header")
		}
		text := strings.TrimRight(string(line), "\r\n")
		if number == 1 {
			if text != "ply" {
				return nil, fmt.Errorf("%w: first line is %.40q, want \"ply\"", ErrFormat, text)
			}
			continue
		}
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "comment", "obj_info":
		case "end_header":
			if h.encoding < 0 {
				return nil, fmt.Errorf("%w: PLY header without a format", ErrFormat)
			}
			return h, nil
		default:
			if properties++; properties > maxProperties {
				return nil, fmt.Errorf("%w: more than %d elements and properties", ErrFormat, maxProperties)
			}
			if err := h.add(words); err != nil {
				return nil, fmt.Errorf("%w: PLY header line %d, %.80q: %w", ErrFormat, number, text, err)
			}
		}
	}
}

// add takes in one line of a header.
func (h *plyHeader) add(words []string) error {
	switch {
	case words[0] == "format" && len(words) == 3:
		var ok bool
		if h.encoding, ok = encodings[words[1]]; !ok || words[2] != "1.0" {
			return errors.New("unknown format")
		}
		return nil
	case words[0] == "element" && len(words) == 3:
		rows, err := strconv.ParseUint(words[2], 10, 63)
		if err != nil || rows > maxRows {
			return errors.New("impossible number of rows")
		}
		h.elements = append(h.elements, element{name: words[1], rows: int64(rows)})
		return nil
	case words[0] == "property" && len(h.elements) > 0:
		p, err := parseProperty(words[1:])
		if err != nil {
			return err
		}
		last := &h.elements[len(h.elements)-1]
		last.properties = append(last.properties, p)
		return nil
	}
	return errors.New("not understood")
}

// parseProperty reads "float x" or "list uchar int vertex_indices".
func parseProperty(words []string) (property, error) {
	var p property
	var ok bool
	if len(words) == 4 && words[0] == "list" {
		p.isList = true
		if p.count, ok = kinds[words[1]]; !ok || p.count >= kindFloat32 {
			return p, errors.New("lengths of lists are integers")
		}
		words = words[2:]
	}
	if len(words) != 2 {
		return p, errors.New("not understood")
	}
	if p.kind, ok = kinds[words[0]]; !ok {
		return p, errors.New("unknown type")
	}
	p.name = words[1]
	return p, nil
}

// cutOff adds the place where a file is damaged or ends too early; other errors of the reader are only wrapped.
func cutOff(err error, where string) error {
	if errors.Is(err, ErrFormat) {
		return fmt.Errorf("%w, in %s", err, where)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: file ends in its %s: %w", ErrFormat, where, io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("export: read %s: %w", where, err)
}
