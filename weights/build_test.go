// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The functions here write pickles, instruction by instruction.

func text(s string) string { return "X" + le(4, uint64(len(s))) + s }
func number(n int64) string {
	return "\x8a\x08" + le(8, uint64(n))
}
func global(module, name string) string { return "c" + module + "\n" + name + "\n" }
func tuple(items ...string) string      { return "(" + strings.Join(items, "") + "t" }
func list(items ...string) string       { return "](" + strings.Join(items, "") + "e" }
func dict(pairs ...string) string       { return "}(" + strings.Join(pairs, "") + "u" }
func call(function string, args ...string) string {
	return function + tuple(args...) + "R"
}

func le(size int, n uint64) string {
	return string(binary.LittleEndian.AppendUint64(nil, n)[:size])
}

// storage is the reference to a storage of float32.
func storage(key string, numel int64, more ...string) string {
	id := []string{text("storage"), global("torch", "FloatStorage"), text(key), text("cpu"), number(numel)}
	return tuple(append(id, more...)...) + "Q"
}

// tensor is a float32 tensor at the start of a storage.
func tensor(storage string, shape, stride []int64) string {
	return tensorAt(storage, 0, shape, stride)
}

func tensorAt(storage string, offset int64, shape, stride []int64) string {
	return call(global("torch._utils", "_rebuild_tensor_v2"), storage, number(offset), numbers(shape), numbers(stride),
		"\x89", call(global("collections", "OrderedDict")))
}

func numbers(ns []int64) string {
	var items []string
	for _, n := range ns {
		items = append(items, number(n))
	}
	return tuple(items...)
}

// pickled adds the frame of a pickle.
func pickled(body string) string { return "\x80\x02" + body + "." }

// vector is a tensor of three elements that takes all of storage key.
func vector(key string) string { return tensor(storage(key, 3), []int64{3}, []int64{1}) }

// threeFloats are 1, 2, 3.
const threeFloats = "\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\x40\x40"

// zipEntry is a file of an archive.
type zipEntry struct {
	name, content string
	method        uint16
}

// zipped writes an archive.
func zipped(t testing.TB, entries ...zipEntry) []byte {
	t.Helper()
	var buffer bytes.Buffer
	w := zip.NewWriter(&buffer)
	for _, e := range entries {
		header := &zip.FileHeader{Name: e.name, Method: e.method}
		if e.method == zip.Store {
			header.CRC32 = crc32.ChecksumIEEE([]byte(e.content))
			header.CompressedSize64, header.UncompressedSize64 = uint64(len(e.content)), uint64(len(e.content))
			f, err := w.CreateRaw(header)
			require.NoError(t, err)
			_, err = f.Write([]byte(e.content))
			require.NoError(t, err)
			continue
		}
		f, err := w.CreateHeader(header)
		require.NoError(t, err)
		_, err = f.Write([]byte(e.content))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return buffer.Bytes()
}

// checkpointZip is an archive with a pickle and records of three floats.
func checkpointZip(t testing.TB, pickle string, keys ...string) []byte {
	t.Helper()
	entries := []zipEntry{{name: "m/data.pkl", content: pickle}, {name: "m/byteorder", content: "little"}}
	for _, key := range keys {
		entries = append(entries, zipEntry{name: "m/data/" + key, content: threeFloats})
	}
	return zipped(t, entries...)
}

// legacyFile is a legacy file.
func legacyFile(root, keys string, storages ...string) []byte {
	machine := dict(text("little_endian"), "\x88")
	return []byte(pickled("\x8a\x0a"+legacyMagic) + pickled("M"+le(2, legacyProtocol)) + pickled(machine) +
		pickled(root) + pickled(keys) + strings.Join(storages, ""))
}

// legacyVector is a storage of three floats in a legacy file.
const legacyVector = "\x03\x00\x00\x00\x00\x00\x00\x00" + threeFloats

// safetensorsFile is a file with this header.
func safetensorsFile(header, data string) []byte {
	return []byte(le(8, uint64(len(header))) + header + data)
}

// seeds are files of every kind, good and bad, for the fuzzers.
func seeds(t testing.TB) [][]byte {
	state := dict(text("w"), vector("0"))
	return slices.Concat([][]byte{
		checkpointZip(t, pickled(state), "0"),
		zipped(t, zipEntry{"m/data.pkl", pickled(state), zip.Deflate}, zipEntry{"m/data/0", threeFloats, zip.Deflate}),
		checkpointZip(t, pickled(dict(text("model"), state, text("model_config"), dict(text("a"), list("K\x01", "N")))), "0"),
		checkpointZip(t, pickled(call(global("collections", "OrderedDict"))+"("+text("w")+vector("0")+"u}b"), "0"),
		checkpointZip(t, "\x80\x04\x95"+le(8, 0)+"}\x94\x8c\x01w\x8c\x11collections\x8c\x0bOrderedDict\x93)Rs."),
		legacyFile(state, list(text("0")), legacyVector),
		safetensorsFile(`{"w":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},"__metadata__":{"a":"b"}}`, threeFloats),
		safetensorsFile(`{"w":{"dtype":"BOOL","shape":[],"data_offsets":[0,1]},`+
			`"v":{"dtype":"F32","shape":[0],"data_offsets":[1,1]}}`, "\x01"),
		safetensorsFile(`[]`, ""),
		[]byte("<html>"), []byte("version https://git-lfs"), nil,
	})
}
