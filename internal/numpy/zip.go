// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package numpy

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/gomlx3d/image3d/internal/bounded"
)

// maxDirectory bounds the directory of an archive, whose entries take several times its size in memory.
const maxDirectory = 1 << 20

// ReadZip reads one array of a .npz file of the given size, as Read does. It is the array with the given name or, if
// name is empty, the only one; of several, the first of the preferred names that is there.
func ReadZip(r io.ReaderAt, size int64, name string, preferred []string, check Check) (*Array, error) {
	limited := &bounded.ReaderAt{From: r, Left: maxDirectory}
	archive, err := zip.NewReader(limited, size)
	if errors.Is(err, bounded.Err) {
		return nil, fmt.Errorf("%w: the ZIP directory is larger than %d bytes", ErrFormat, maxDirectory)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	limited.Left = math.MaxInt
	arrays := make(map[string]*zip.File)
	var names []string
	for _, file := range archive.File {
		if key, ok := strings.CutSuffix(file.Name, ".npy"); ok && arrays[key] == nil {
			arrays[key] = file
			names = append(names, key)
		}
	}
	switch {
	case name != "":
	case len(names) == 1:
		name = names[0]
	default:
		if i := slices.IndexFunc(preferred, func(key string) bool { return arrays[key] != nil }); i >= 0 {
			name = preferred[i]
		}
	}
	file := arrays[name]
	if file == nil {
		return nil, fmt.Errorf("%w: no array %.40q; there are %s", ErrFormat, name, list(names))
	}
	member, err := file.Open()
	if err != nil {
		return nil, fmt.Errorf("%w: array %.40q: %w", ErrFormat, name, err)
	}
	defer member.Close()
	a, err := Read(compressed{member}, check)
	if err != nil {
		return nil, fmt.Errorf("array %.40q: %w", name, err)
	}
	return a, nil
}

// compressed gives errors of decompression their kind.
type compressed struct{ io.Reader }

// Read implements io.Reader.
func (c compressed) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return n, err
}

// list names some arrays.
func list(names []string) string {
	const most = 12
	if len(names) == 0 {
		return "none"
	}
	var quoted []string
	for _, name := range names[:min(len(names), most)] {
		quoted = append(quoted, fmt.Sprintf("%.40q", name))
	}
	if len(names) > most {
		quoted = append(quoted, fmt.Sprintf("%d more", len(names)-most))
	}
	return strings.Join(quoted, ", ")
}
