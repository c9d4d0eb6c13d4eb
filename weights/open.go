// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/edsrzf/mmap-go"
)

// Open maps a checkpoint file. Its format is told by its content: a safetensors file, a PyTorch archive, or the
// older PyTorch stream. See OpenSafetensors and OpenTorch.
func Open(path string) (*Set, error) {
	return openWith(path, func(data []byte) (*Set, error) {
		// The name only decides whose complaint about unknown content is given.
		named := filepath.Ext(path) == ".safetensors" && !isZip(data) && !isLegacy(data)
		if named || looksLikeSafetensors(data) {
			return parseSafetensors(data)
		}
		return parseTorch(data)
	})
}

// openWith maps a file and parses it. The Set closes the mapping.
func openWith(path string, parse func(data []byte) (*Set, error)) (*Set, error) {
	file, err := mapFile(path)
	if err != nil {
		return nil, err
	}
	set, err := parse(file.data)
	if err != nil {
		_ = file.Close()
		return nil, at(path, err)
	}
	for _, t := range set.tensors {
		if t.record != nil {
			t.record.path = path
		}
	}
	set.closers = append(set.closers, file)
	return set, nil
}

// mapping is a file in memory.
type mapping struct{ data mmap.MMap }

func mapFile(path string) (*mapping, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	if !info.Mode().IsRegular() { // opening a pipe would block
		return nil, &FormatError{Path: path, Reason: "not a regular file"}
	}
	if info.Size() == 0 { // cannot be mapped
		return &mapping{}, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	defer file.Close()
	data, err := mmap.Map(file, mmap.RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("weights: map %s: %w", path, err)
	}
	addMapped(data)
	return &mapping{data}, nil
}

// Close unmaps the file.
func (m *mapping) Close() error {
	if m.data == nil {
		return nil
	}
	removeMapped(m.data)
	return m.data.Unmap()
}

// readSmall reads a configuration file of at most limit bytes. The error matches fs.ErrNotExist if there is none.
func readSmall(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, &FormatError{Path: path, Reason: "not a regular file"}
	}
	if info.Size() > limit {
		return nil, &FormatError{Path: path, Reason: fmt.Sprintf("%d bytes are too many, at most %d", info.Size(), limit)}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	return data, nil
}

// isFile reports whether path is a file, or a link to one.
func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// errUnknownContent is the fault of content that is no checkpoint; it says what the content is, if that is plain.
func errUnknownContent(data []byte) error {
	head := bytes.TrimSpace(data[:min(len(data), 256)])
	lower := bytes.ToLower(head)
	switch {
	case len(data) == 0:
		return faultf("empty file, not a checkpoint")
	case bytes.HasPrefix(lower, []byte("version https://git-lfs")):
		return faultf("not a checkpoint: this is a Git LFS pointer, the file itself was not downloaded")
	case bytes.HasPrefix(lower, []byte("<!doctype html")), bytes.HasPrefix(lower, []byte("<html")):
		return faultf("not a checkpoint but an HTML page, perhaps of a login or an error (unknown magic)")
	case len(data) > 262 && string(data[257:262]) == "ustar":
		return faultf("not a checkpoint: tar archive (the oldest PyTorch format is not supported)")
	case utf8.Valid(head):
		return faultf("not a checkpoint: unknown magic, begins with the text %.40q", head)
	}
	return faultf("not a checkpoint: unknown magic % x", data[:min(len(data), 8)])
}

// errClosed is the error of a use after Close.
var errClosed = errors.New("weights: checkpoint is closed")
