// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package export

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/gomlx3d/image3d/flexicubes"
)

// ReadOBJ reads the triangles of a Wavefront OBJ file, with vertex colours where every vertex has them. Polygons are
// cut into triangles from their first corner; everything but lines "v" and "f" is ignored. Coordinates stay as they are.
//
// The error wraps ErrFormat, ErrEmptyMesh, or what r failed with.
func ReadOBJ(r io.Reader) (*flexicubes.Mesh, error) {
	m := &flexicubes.Mesh{}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 1<<16), 1<<20)
	for number := 1; lines.Scan(); number++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		var err error
		switch words[0] {
		case "v":
			err = addOBJVertex(m, words[1:])
		case "f":
			err = addOBJFace(m, words[1:])
		}
		if err != nil {
			return nil, fmt.Errorf("%w: OBJ line %d: %w", ErrFormat, number, err)
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("%w: OBJ with a line beyond any real one", ErrFormat)
	} else if err != nil {
		return nil, fmt.Errorf("export: read OBJ: %w", err)
	}
	if len(m.Colors) != len(m.Vertices) {
		m.Colors = nil
	}
	return checkRead(m)
}

// checkRead returns m if it is a mesh with triangles.
func checkRead(m *flexicubes.Mesh) (*flexicubes.Mesh, error) {
	switch err := checkFilledMesh(m); {
	case errors.Is(err, ErrEmptyMesh):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return m, nil
}

func addOBJVertex(m *flexicubes.Mesh, words []string) error {
	if len(words) < 3 {
		return errors.New("a vertex without three coordinates")
	}
	for i, word := range words[:min(len(words), 6)] {
		x, err := strconv.ParseFloat(word, 32)
		if err != nil {
			return fmt.Errorf("%.40q is not a number", word)
		}
		switch {
		case i < 3:
			m.Vertices = append(m.Vertices, float32(x))
		case len(words) >= 6: // a fourth number alone is a weight
			m.Colors = append(m.Colors, float32(x))
		}
	}
	return nil
}

func addOBJFace(m *flexicubes.Mesh, words []string) error {
	if len(words) < 3 {
		return errors.New("a face without three corners")
	}
	vertices := len(m.Vertices) / 3
	corner := func(word string) (uint32, error) {
		word, _, _ = strings.Cut(word, "/")
		i, err := strconv.Atoi(word)
		if i < 0 {
			i += vertices + 1 // counted from the last
		}
		if err != nil || i < 1 || i > vertices {
			return 0, fmt.Errorf("vertex %.40q of %d", word, vertices)
		}
		return uint32(i - 1), nil
	}
	first, err := corner(words[0])
	if err != nil {
		return err
	}
	last, err := corner(words[1])
	if err != nil {
		return err
	}
	for _, word := range words[2:] {
		next, err := corner(word)
		if err != nil {
			return err
		}
		m.Faces = append(m.Faces, first, last, next)
		last = next
	}
	return nil
}

// ReadSTL reads a binary STL file. Each triangle has vertices of its own; normals are ignored. Coordinates stay as they
// are. Memory grows with the data that arrives, not with what the header promises.
//
// The error wraps ErrFormat, ErrEmptyMesh, or what r failed with.
func ReadSTL(r io.Reader) (*flexicubes.Mesh, error) {
	br := bufio.NewReaderSize(r, 1<<16)
	var head [84]byte
	if _, err := io.ReadFull(br, head[:]); err != nil {
		return nil, cutOff(err, "STL header")
	}
	count := binary.LittleEndian.Uint32(head[80:])
	if count > math.MaxUint32/3 {
		return nil, fmt.Errorf("%w: STL of %d triangles", ErrFormat, count)
	}
	m := &flexicubes.Mesh{}
	var row [50]byte
	for i := range count {
		if _, err := io.ReadFull(br, row[:]); err != nil {
			if strings.HasPrefix(string(head[:]), "solid") {
				return nil, fmt.Errorf("%w: STL as text is not supported", ErrFormat)
			}
			return nil, cutOff(err, fmt.Sprintf("triangle %d of %d", i, count))
		}
		for at := 12; at < 48; at += 4 {
			m.Vertices = append(m.Vertices, math.Float32frombits(binary.LittleEndian.Uint32(row[at:])))
		}
		m.Faces = append(m.Faces, 3*i, 3*i+1, 3*i+2)
	}
	return checkRead(m)
}
