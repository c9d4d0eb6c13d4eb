// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights

import (
	"archive/zip"
	"bytes"
	"errors"
	"hash/crc32"
	"io"
	"math"
	"strings"

	"github.com/gomlx3d/image3d/internal/bounded"
)

// Limits of an archive. The largest released one has 1,745 entries and a directory of 0.2 MB.
const (
	maxZipDirectory = 4 << 20
	maxZipEntries   = 1 << 16
	// maxInflated bounds what compressed records may grow to, together: they are inflated into memory. PyTorch
	// stores records as they are; only a repacked archive has compressed ones.
	maxInflated = 8 << 20
)

func isZip(data []byte) bool {
	return bytes.HasPrefix(data, []byte("PK\x03\x04")) || bytes.HasPrefix(data, []byte("PK\x05\x06"))
}

// archive is the ZIP file of a checkpoint: <prefix>data.pkl, <prefix>byteorder and <prefix>data/<storage key>.
type archive struct {
	data     []byte
	prefix   string
	entries  map[string]*zip.File
	inflated int
}

func parseTorchZip(data []byte) (*Set, error) {
	a, err := openArchive(data)
	if err != nil {
		return nil, err
	}
	if a.entries[a.prefix+"byteorder"] != nil {
		order, err := a.small("byteorder", 64)
		if err != nil {
			return nil, err
		}
		if text := strings.TrimSpace(string(order)); text != "little" {
			return nil, faultf("%s-endian checkpoints are not supported", printable(text))
		}
	}
	pickle, err := a.small("data.pkl", maxPickle)
	if err != nil {
		return nil, err
	}
	root, _, _, err := unpickle(pickle)
	if err != nil {
		return nil, err
	}
	records := make(map[string]*record)
	return torchSet(root, func(tensor string, s *pyStorage) ([]byte, *record, error) {
		if r := records[s.key]; r != nil {
			return r.data, r, nil
		}
		r, err := a.storage(tensor, s)
		if err != nil {
			return nil, nil, err
		}
		records[s.key] = r
		return r.data, r, nil
	})
}

// openArchive reads the directory.
func openArchive(data []byte) (*archive, error) {
	source := &bounded.ReaderAt{From: bytes.NewReader(data), Left: maxZipDirectory}
	reader, err := zip.NewReader(source, int64(len(data)))
	if errors.Is(err, bounded.Err) {
		return nil, faultf("ZIP directory is larger than %d bytes", maxZipDirectory)
	}
	if err != nil {
		return nil, faultf("not a complete ZIP archive, perhaps cut off: %v", err)
	}
	source.Left = math.MaxInt // what follows reads 30 bytes an entry
	if len(reader.File) > maxZipEntries {
		return nil, faultf("%d archive entries are too many, at most %d", len(reader.File), maxZipEntries)
	}
	a := &archive{data: data, entries: make(map[string]*zip.File, len(reader.File))}
	pickles := 0
	for _, f := range reader.File {
		if a.entries[f.Name] != nil {
			return nil, faultf("duplicate archive entry %s", printable(f.Name))
		}
		a.entries[f.Name] = f
		if prefix, ok := strings.CutSuffix(f.Name, "data.pkl"); ok && strings.HasSuffix(prefix, "/") {
			a.prefix = prefix
			pickles++
		}
	}
	switch pickles {
	case 0:
		return nil, faultf("no data.pkl in archive: not a PyTorch checkpoint")
	case 1:
		return a, nil
	}
	return nil, faultf("ambiguous: more than one data.pkl in archive")
}

// small returns a checked entry of at most limit bytes.
func (a *archive) small(name string, limit uint64) ([]byte, error) {
	f := a.entries[a.prefix+name]
	if f.UncompressedSize64 > limit {
		return nil, faultf("%s has %d bytes, too many: at most %d", name, f.UncompressedSize64, limit)
	}
	data, err := a.content(name, f)
	if err == nil && crc32.ChecksumIEEE(data) != f.CRC32 {
		err = faultf("checksum error in %s: the file is damaged", name)
	}
	return data, err
}

// storage returns the record of a storage.
func (a *archive) storage(tensor string, s *pyStorage) (*record, error) {
	name := "data/" + s.key
	f := a.entries[a.prefix+name]
	if f == nil {
		return nil, faultf("record %s of tensor %q is missing", name, tensor)
	}
	if want := uint64(s.numel) * uint64(s.dtype.Size()); f.UncompressedSize64 != want {
		relation := "shorter"
		if f.UncompressedSize64 > want {
			relation = "longer"
		}
		return nil, tensorFaultf(tensor, "record %s has %d bytes, %d expected: %s than declared",
			name, f.UncompressedSize64, want, relation)
	}
	data, err := a.content(name, f)
	return &record{name: name, data: data, crc: f.CRC32}, err
}

// content returns the bytes of an entry: a view if it is stored, a copy if it is compressed.
func (a *archive) content(name string, f *zip.File) ([]byte, error) {
	if f.Flags&1 != 0 {
		return nil, faultf("%s is encrypted", name)
	}
	switch f.Method {
	case zip.Store:
		offset, err := f.DataOffset()
		if err != nil {
			return nil, faultf("%s: not a complete ZIP archive: %v", name, err)
		}
		size := f.UncompressedSize64
		if f.CompressedSize64 != size || uint64(offset) > uint64(len(a.data)) || size > uint64(len(a.data))-uint64(offset) {
			return nil, faultf("%s lies outside the archive: not a complete ZIP archive", name)
		}
		return a.data[offset : uint64(offset)+size : uint64(offset)+size], nil
	case zip.Deflate:
		return a.inflate(name, f)
	}
	return nil, faultf("%s: compression method %d is not supported", name, f.Method)
}

// inflate decompresses an entry and checks its size.
func (a *archive) inflate(name string, f *zip.File) ([]byte, error) {
	if f.UncompressedSize64 > uint64(maxInflated-a.inflated) {
		return nil, faultf("%s: compressed records of more than %d bytes together are not supported: repack the archive"+
			" without compression", name, maxInflated)
	}
	r, err := f.Open()
	if err != nil {
		return nil, faultf("%s: %v", name, err)
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, int64(f.UncompressedSize64)+1))
	if errors.Is(err, zip.ErrChecksum) {
		return nil, faultf("checksum error in %s: the file is damaged", name)
	}
	if err != nil || uint64(len(data)) != f.UncompressedSize64 {
		return nil, faultf("%s: malformed compressed record: %d bytes, %d expected", name, len(data), f.UncompressedSize64)
	}
	a.inflated += len(data)
	return data, nil
}
