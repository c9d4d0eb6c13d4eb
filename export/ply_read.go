// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package export

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/gomlx3d/image3d/splat"
)

// ReadPLY reads a PLY file of Gaussian splats, this project's or another's: binary of either byte order or text, numbers
// of any type, properties in any order. It needs x, y, z, f_dc_0..2, opacity, scale_0..2 and rot_0..3 of the element
// "vertex". Other properties, coefficients of higher degree among them, are ignored, and so is what follows that element.
//
// Values are kept as they are, so writing float values again yields the same bytes. A file does not hold the kernel:
// it is 0. Memory grows with the data that arrives, not with what the header promises.
//
// The error wraps ErrFormat if the file is not such a file, and splat.ErrInvalid too if values are NaN or infinite
// (opacities may be infinite). Errors of r come back wrapped.
func ReadPLY(r io.Reader) (*splat.Gaussians, error) {
	known := remaining(r)
	br := bufio.NewReaderSize(r, 1<<16)
	h, err := readHeader(br)
	if err != nil {
		return nil, err
	}
	body := plyBody{r: br, encoding: h.encoding, known: known}
	if h.encoding == encodingASCII {
		body.words = bufio.NewScanner(br)
		body.words.Buffer(make([]byte, 4096), 4096)
		body.words.Split(bufio.ScanWords)
	}
	for _, e := range h.elements {
		if e.name == "vertex" {
			return body.splats(e)
		}
		if err := body.skip(e); err != nil {
			return nil, cutOff(err, "element "+strconv.Quote(e.name))
		}
	}
	return nil, fmt.Errorf("%w: PLY without an element \"vertex\"", ErrFormat)
}

// remaining returns how many bytes r still holds, or -1 if that is not known.
func remaining(r io.Reader) int64 {
	s, ok := r.(io.Seeker)
	if !ok {
		return -1
	}
	here, err := s.Seek(0, io.SeekCurrent)
	if err != nil {
		return -1
	}
	end, err := s.Seek(0, io.SeekEnd)
	if err != nil {
		return -1
	}
	if _, err := s.Seek(here, io.SeekStart); err != nil {
		return -1
	}
	return end - here
}

// plyBody is what follows the header.
type plyBody struct {
	r        *bufio.Reader
	words    *bufio.Scanner // of a text file
	encoding encoding
	known    int64 // bytes of the whole file, or -1
}

// column connects a property of a splat to its place in Gaussians.
type column struct {
	name  string
	field func(g *splat.Gaussians) *[]float32
	width int // numbers of that field for each splat
	index int // which of them
}

var columns = func() (all []column) {
	add := func(field func(g *splat.Gaussians) *[]float32, names ...string) {
		for i, name := range names {
			all = append(all, column{name, field, len(names), i})
		}
	}
	add(func(g *splat.Gaussians) *[]float32 { return &g.Means }, "x", "y", "z")
	add(func(g *splat.Gaussians) *[]float32 { return &g.SH }, "f_dc_0", "f_dc_1", "f_dc_2")
	add(func(g *splat.Gaussians) *[]float32 { return &g.OpacityLogits }, "opacity")
	add(func(g *splat.Gaussians) *[]float32 { return &g.LogScales }, "scale_0", "scale_1", "scale_2")
	add(func(g *splat.Gaussians) *[]float32 { return &g.Rotations }, "rot_0", "rot_1", "rot_2", "rot_3")
	return all
}()

// splats reads the element of the splats.
func (b *plyBody) splats(e element) (*splat.Gaussians, error) {
	stride, ok := e.rowSize()
	if !ok {
		return nil, fmt.Errorf("%w: vertices with lists are not splats", ErrFormat)
	}
	place := make(map[string]int, len(e.properties)) // name to index
	for i, p := range e.properties {
		if _, twice := place[p.name]; twice {
			return nil, fmt.Errorf("%w: property %.40q is declared twice", ErrFormat, p.name)
		}
		place[p.name] = i
	}
	for _, c := range columns {
		if _, ok := place[c.name]; !ok {
			return nil, fmt.Errorf("%w: vertices without %q are not Gaussian splats", ErrFormat, c.name)
		}
	}
	g := &splat.Gaussians{}
	read := b.readBinary
	if b.encoding == encodingASCII {
		read = b.readASCII
	}
	if err := read(g, e, place, stride); err != nil {
		return nil, cutOff(err, fmt.Sprintf("splat %d of %d", g.Len(), e.rows))
	}
	if err := g.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return g, nil
}

// readBinary appends the rows of e to g, a buffer at a time.
func (b *plyBody) readBinary(g *splat.Gaussians, e element, place map[string]int, stride int) error {
	offsets := make([]int, len(e.properties))
	for i := 1; i < len(offsets); i++ {
		offsets[i] = offsets[i-1] + e.properties[i-1].kind.size()
	}
	if b.known/int64(stride) >= e.rows { // the promised rows fit the file: no need to grow step by step
		extend(g, 0, e.rows, e.rows)
	}
	buf := make([]byte, min(int64(max(1, bufferSize/stride)), e.rows)*int64(stride))
	for done := int64(0); done < e.rows; {
		n := min(int64(len(buf)/stride), e.rows-done)
		rows := buf[:n*int64(stride)]
		if _, err := io.ReadFull(b.r, rows); err != nil {
			return err
		}
		extend(g, done+n, e.rows, 0)
		for _, c := range columns {
			i := place[c.name]
			out := (*c.field(g))[int(done)*c.width+c.index:]
			unpack(out, c.width, rows[offsets[i]:], stride, int(n), e.properties[i].kind, b.encoding == encodingBig)
		}
		done += n
	}
	return nil
}

// extend gives g the length n. Its memory doubles when it must grow, but never beyond limit splats; at least reserve
// splats are made room for.
func extend(g *splat.Gaussians, n, limit, reserve int64) {
	for _, c := range columns {
		if c.index > 0 {
			continue
		}
		s, w := c.field(g), int64(c.width)
		if n*w > int64(cap(*s)) || reserve > 0 {
			grown := make([]float32, n*w, max(n*w, reserve*w, min(2*int64(cap(*s)), limit*w)))
			copy(grown, *s)
			*s = grown
		}
		*s = (*s)[:n*w]
	}
}

// unpack reads one column: n numbers, stride bytes apart, go to every width-th place of out.
func unpack(out []float32, width int, rows []byte, stride, n int, k kind, big bool) {
	le := binary.LittleEndian
	if k == kindFloat32 && !big { // nearly every file
		for i := range n {
			out[i*width] = math.Float32frombits(le.Uint32(rows[i*stride:]))
		}
		return
	}
	for i := range n {
		out[i*width] = float32(number(rows[i*stride:], k, big))
	}
}

// number reads one number of a binary file.
func number(b []byte, k kind, big bool) float64 {
	var order binary.ByteOrder = binary.LittleEndian
	if big {
		order = binary.BigEndian
	}
	switch k {
	case kindInt8:
		return float64(int8(b[0]))
	case kindUint8:
		return float64(b[0])
	case kindInt16:
		return float64(int16(order.Uint16(b)))
	case kindUint16:
		return float64(order.Uint16(b))
	case kindInt32:
		return float64(int32(order.Uint32(b)))
	case kindUint32:
		return float64(order.Uint32(b))
	case kindFloat32:
		return float64(math.Float32frombits(order.Uint32(b)))
	}
	return math.Float64frombits(order.Uint64(b))
}

// readASCII appends the rows of e to g.
func (b *plyBody) readASCII(g *splat.Gaussians, e element, place map[string]int, _ int) error {
	target := make([]*column, len(e.properties))
	for i := range columns {
		target[place[columns[i].name]] = &columns[i]
	}
	for row := range e.rows {
		extend(g, row+1, e.rows, 0)
		for _, c := range target {
			x, err := b.word()
			if err != nil {
				return err
			}
			if c != nil {
				(*c.field(g))[int(row)*c.width+c.index] = float32(x)
			}
		}
	}
	return nil
}

// word reads the next number of a text file.
func (b *plyBody) word() (float64, error) {
	if !b.words.Scan() {
		switch err := b.words.Err(); err {
		case nil:
			return 0, io.ErrUnexpectedEOF
		case bufio.ErrTooLong:
			return 0, fmt.Errorf("%w: a word is longer than any number", ErrFormat)
		default:
			return 0, err
		}
	}
	x, err := strconv.ParseFloat(b.words.Text(), 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %.40q is not a number", ErrFormat, b.words.Text())
	}
	return x, nil
}

// skip reads over an element that is not wanted.
func (b *plyBody) skip(e element) error {
	size, fixed := e.rowSize()
	switch {
	case len(e.properties) == 0:
		return nil
	case fixed && b.encoding != encodingASCII:
		return b.discard(e.rows * int64(size))
	}
	for range e.rows {
		for _, p := range e.properties {
			if err := b.skipProperty(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// skipProperty reads over one number or one list.
func (b *plyBody) skipProperty(p property) error {
	count := int64(1)
	if p.isList {
		var x float64
		var err error
		if b.encoding == encodingASCII {
			x, err = b.word()
		} else {
			buf := make([]byte, p.count.size())
			if _, err = io.ReadFull(b.r, buf); err != nil {
				return err
			}
			x = number(buf, p.count, b.encoding == encodingBig)
		}
		if err != nil {
			return err
		}
		if !(x >= 0 && x <= math.MaxUint32) {
			return fmt.Errorf("%w: a list of %v values", ErrFormat, x)
		}
		count = int64(x)
	}
	if b.encoding != encodingASCII {
		return b.discard(count * int64(p.kind.size()))
	}
	for range count {
		if _, err := b.word(); err != nil {
			return err
		}
	}
	return nil
}

func (b *plyBody) discard(n int64) error {
	_, err := io.CopyN(io.Discard, b.r, n)
	return err
}
