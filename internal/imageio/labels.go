// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package imageio

import (
	"errors"
	"fmt"
	"image"
	"io"
	"maps"
	"slices"
	"strconv"
)

// ErrLabels says that a picture does not mark objects by values or colours: it was compressed with loss, which changes
// them, or shows no object or more than MaxLabels.
var ErrLabels = errors.New("imageio: not a label image")

// MaxLabels is how many objects a label image may show.
const MaxLabels = 4096

// Labels are the objects of a label image, in which all pixels of an object have the same value or colour.
type Labels struct {
	// Names are the values in decimal, or the colours in hexadecimal (ff8000), in ascending order.
	Names         []string
	width, height int
	index         []uint16 // of each pixel: 0 is no object, i+1 is object i
}

// Mask returns the mask of object i, 0 outside and 255 inside.
func (l *Labels) Mask(i int) *image.Gray {
	mask := image.NewGray(image.Rect(0, 0, l.width, l.height))
	ForRows(l.height, rowsPerTask, func(lo, hi int) {
		for at := lo * l.width; at < hi*l.width; at++ {
			if int(l.index[at]) == i+1 {
				mask.Pix[at] = 255
			}
		}
	})
	return mask
}

// DecodeLabels reads a picture as Decode does and finds the objects that it labels. The values are the indices of a
// palette, or the greys of a grey picture, 0 being no object; otherwise the colours, black and transparent pixels being
// no object. The errors are those of Decode, or wrap ErrLabels.
func DecodeLabels(r io.Reader, maxPixels int) (*Labels, error) {
	e, err := readEncoded(r, maxPixels)
	if err != nil {
		return nil, err
	}
	img, lossy, err := e.decode()
	if err != nil {
		return nil, err
	}
	if lossy {
		return nil, fmt.Errorf("%w: a %s picture compressed with loss", ErrLabels, e.format)
	}
	if img, err = upright(img, orientation(e.data, e.format)); err != nil {
		return nil, err
	}
	return labelsOf(img)
}

func labelsOf(img image.Image) (*Labels, error) {
	b := img.Bounds()
	l := &labeller{seen: make(map[uint32]uint16), index: make([]uint16, 0, b.Dx()*b.Dy())}
	name := func(v uint32) string { return strconv.Itoa(int(v)) }
	switch m := img.(type) {
	case *image.Paletted:
		for y := range b.Dy() {
			l.bytes(m.Pix[y*m.Stride:][:b.Dx()])
		}
	case *image.Gray:
		for y := range b.Dy() {
			l.bytes(m.Pix[y*m.Stride:][:b.Dx()])
		}
	case *image.Gray16:
		for y := range b.Dy() {
			for line := m.Pix[y*m.Stride:][:2*b.Dx()]; len(line) > 0; line = line[2:] {
				l.add(uint32(line[0])<<8 | uint32(line[1]))
			}
		}
	default:
		pixels, err := NRGBA(img)
		if err != nil {
			return nil, err
		}
		name = func(v uint32) string { return fmt.Sprintf("%06x", v) }
		for p := pixels.Pix; len(p) > 0; p = p[4:] {
			if p[3] == 0 {
				l.add(0)
			} else {
				l.add(uint32(p[0])<<16 | uint32(p[1])<<8 | uint32(p[2]))
			}
		}
	}
	return l.labels(b, name)
}

// labeller numbers values in the order they come.
type labeller struct {
	seen      map[uint32]uint16
	index     []uint16
	last      uint32
	lastIndex uint16
	tooMany   bool
}

func (l *labeller) bytes(line []uint8) {
	for _, v := range line {
		l.add(uint32(v))
	}
}

func (l *labeller) add(v uint32) {
	if v != l.last { // at first both are 0, which is no object
		i, known := l.seen[v]
		switch {
		case v == 0 || known:
		case len(l.seen) == MaxLabels:
			l.tooMany = true
		default:
			i = uint16(len(l.seen) + 1)
			l.seen[v] = i
		}
		l.last, l.lastIndex = v, i
	}
	l.index = append(l.index, l.lastIndex)
}

// labels brings the objects into the order of their values.
func (l *labeller) labels(b image.Rectangle, name func(uint32) string) (*Labels, error) {
	if l.tooMany {
		return nil, fmt.Errorf("%w: more than %d values or colours", ErrLabels, MaxLabels)
	}
	if len(l.seen) == 0 {
		return nil, fmt.Errorf("%w: nothing in it is marked", ErrLabels)
	}
	out := &Labels{width: b.Dx(), height: b.Dy(), index: l.index}
	order := make([]uint16, len(l.seen)+1)
	for i, v := range slices.Sorted(maps.Keys(l.seen)) {
		order[l.seen[v]] = uint16(i + 1)
		out.Names = append(out.Names, name(v))
	}
	for i, at := range out.index {
		out.index[i] = order[at]
	}
	return out, nil
}
