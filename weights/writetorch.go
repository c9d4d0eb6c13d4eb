// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights

import (
	"archive/zip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
)

// The archive that torch.save writes: records "archive/data/<n>" that are stored, not compressed, and start at
// multiples of 64 bytes in the file; the padding is an extra field of the header before them.
const (
	torchFolder    = "archive/"
	torchAlignment = 64
	zipHeader      = 30 // bytes of a local header without name and extra field
	zipDescriptor  = 16 // bytes after the data of an entry
	zip64Limit     = math.MaxUint32
	maxWrittenLong = 1 << 31
)

// TorchObject says where in the object of a PyTorch file the tensors are.
type TorchObject struct {
	Key    string         // of the dictionary of tensors, "state_dict" or "model"; empty if it is the object itself
	Config map[string]any // "model_config" beside it: nil, bool, int, int64, float64, string, []any, map[string]any
}

// WriteTorch writes a file as torch.save does since PyTorch 1.6, which torch.load reads, with weights_only or without:
// a ZIP archive of a pickle of protocol 2 and a record for each tensor. Its entries are streamed in the order of
// WriteSafetensors and under the same conditions.
func WriteTorch(path string, overwrite bool, object TorchObject, entries []Entry) error {
	entries, sizes, err := sorted(entries)
	if err != nil {
		return fmt.Errorf("weights: write %s: %w", path, err)
	}
	pickle, err := torchPickle(object, entries)
	if err != nil {
		return fmt.Errorf("weights: write %s: %w", path, err)
	}
	return writeWhole(path, overwrite, func(w io.Writer) error {
		a := newArchiveWriter(w)
		a.add("data.pkl", len(pickle), writeBytes(pickle))
		a.add("byteorder", 6, writeBytes([]byte("little")))
		for i, e := range entries {
			a.add("data/"+strconv.Itoa(i), sizes[i], func(w io.Writer) error { return e.write(w, sizes[i]) })
		}
		a.add("version", 2, writeBytes([]byte("3\n")))
		return a.close()
	})
}

func writeBytes(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

// archiveWriter writes the entries of an archive and keeps the first error.
type archiveWriter struct {
	zip     *zip.Writer
	written *countingWriter
	pending int64 // bytes that the archive will write about the last entry before the next
	err     error
}

func newArchiveWriter(w io.Writer) *archiveWriter {
	a := &archiveWriter{written: &countingWriter{to: w}}
	a.zip = zip.NewWriter(a.written)
	return a
}

// add writes one entry, aligned.
func (a *archiveWriter) add(name string, size int, write func(io.Writer) error) {
	if a.err != nil {
		return
	}
	if a.err = a.zip.Flush(); a.err != nil {
		return
	}
	name = torchFolder + name
	start := a.written.n + a.pending + zipHeader + int64(len(name)) + 4
	padding := (torchAlignment - start%torchAlignment) % torchAlignment
	extra := binary.LittleEndian.AppendUint16([]byte("FB"), uint16(padding))
	for range padding {
		extra = append(extra, 'Z')
	}
	entry, err := a.zip.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store, Extra: extra})
	if err == nil {
		err = write(entry)
	}
	a.err, a.pending = err, zipDescriptor
	if int64(size) >= zip64Limit {
		a.pending += 8
	}
}

func (a *archiveWriter) close() error {
	if a.err != nil {
		return a.err
	}
	return a.zip.Close()
}

// torchPickle is data.pkl.
func torchPickle(object TorchObject, entries []Entry) ([]byte, error) {
	p := &pickler{data: []byte{0x80, 2}} // PROTO
	if object.Key == "" && object.Config != nil {
		return nil, errors.New("a configuration must lie beside the tensors, not among them")
	}
	if object.Key != "" {
		p.op('}').text(object.Key)
	}
	p.op('}') // EMPTY_DICT
	for i, e := range entries {
		p.text(e.Name)
		if err := p.tensor(e, i); err != nil {
			return nil, err
		}
		p.op('s') // SETITEM
	}
	if object.Key != "" {
		p.op('s')
	}
	if object.Config != nil {
		p.text("model_config")
		if err := p.value(object.Config, 0); err != nil {
			return nil, err
		}
		p.op('s')
	}
	p.op('.') // STOP
	if len(p.data) > maxPickle {
		return nil, fmt.Errorf("pickle of %d bytes is too long, at most %d", len(p.data), maxPickle)
	}
	return p.data, nil
}

// pickler appends instructions, whose names are those of CPython's pickletools.
type pickler struct{ data []byte }

func (p *pickler) op(code byte) *pickler {
	p.data = append(p.data, code)
	return p
}

// text appends a BINUNICODE.
func (p *pickler) text(s string) *pickler {
	p.data = binary.LittleEndian.AppendUint32(append(p.data, 'X'), uint32(len(s)))
	p.data = append(p.data, s...)
	return p
}

// integer appends a BININT, or a LONG1 of eight bytes.
func (p *pickler) integer(n int64) *pickler {
	if n >= -maxWrittenLong && n < maxWrittenLong {
		p.data = binary.LittleEndian.AppendUint32(append(p.data, 'J'), uint32(n))
	} else {
		p.data = binary.LittleEndian.AppendUint64(append(p.data, 0x8a, 8), uint64(n))
	}
	return p
}

// global appends a GLOBAL.
func (p *pickler) global(module, name string) *pickler {
	p.data = append(p.data, "c"+module+"\n"+name+"\n"...)
	return p
}

// tensor appends the call that makes a contiguous tensor of all of storage key.
func (p *pickler) tensor(e Entry, key int) error {
	storage := ""
	for class, dtype := range storageDTypes {
		if dtype == e.DType {
			storage = class[len("torch."):]
		}
	}
	if storage == "" {
		return fmt.Errorf("tensor %q: dtype %v has no PyTorch storage", e.Name, e.DType)
	}
	strides, numel := make([]int, len(e.Shape)), 1
	for i := len(e.Shape) - 1; i >= 0; i-- {
		strides[i] = max(numel, 1)
		numel *= e.Shape[i]
	}
	p.global("torch._utils", "_rebuild_tensor_v2").op('(')                      // MARK
	p.op('(').text("storage").global("torch", storage)                          // MARK
	p.text(strconv.Itoa(key)).text("cpu").integer(int64(numel)).op('t').op('Q') // TUPLE, BINPERSID
	p.integer(0).tuple(e.Shape).tuple(strides).op(0x89)                         // NEWFALSE: needs no gradient
	p.global("collections", "OrderedDict").op(')').op('R').op('t').op('R')      // no hooks; EMPTY_TUPLE, REDUCE, TUPLE, REDUCE
	return nil
}

func (p *pickler) tuple(ns []int) *pickler {
	p.op('(')
	for _, n := range ns {
		p.integer(int64(n))
	}
	return p.op('t')
}

// value appends a configuration value.
func (p *pickler) value(v any, depth int) error {
	if depth > maxConfigDepth {
		return errors.New("model_config is nested too deep")
	}
	switch v := v.(type) {
	case nil:
		p.op('N') // NONE
	case bool:
		if p.op(0x89); v { // NEWFALSE
			p.data[len(p.data)-1] = 0x88 // NEWTRUE
		}
	case int:
		p.integer(int64(v))
	case int64:
		p.integer(v)
	case float64:
		p.data = binary.BigEndian.AppendUint64(append(p.data, 'G'), math.Float64bits(v)) // BINFLOAT
	case string:
		p.text(v)
	case []any:
		p.op(']') // EMPTY_LIST
		for _, item := range v {
			if err := p.value(item, depth+1); err != nil {
				return err
			}
			p.op('a') // APPEND
		}
	case map[string]any:
		p.op('}') // EMPTY_DICT
		for _, key := range slices.Sorted(maps.Keys(v)) {
			p.text(key)
			if err := p.value(v[key], depth+1); err != nil {
				return err
			}
			p.op('s') // SETITEM
		}
	default:
		return fmt.Errorf("model_config holds a %T", v)
	}
	return nil
}
