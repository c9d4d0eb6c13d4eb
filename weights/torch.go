// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights

import (
	"fmt"
	"hash/crc32"
	"sync"
)

// OpenTorch maps a checkpoint that torch.save wrote: a ZIP archive, or the stream of files before PyTorch 1.6.
//
// The pickle in it is interpreted by a small machine that knows a few instructions and the names that state dicts are
// made of, and runs nothing. The tensors are those of the entry "state_dict", else of "model" (whose sibling
// "model_config" becomes Set.ModelConfig), else of the whole object; other entries beside them are ignored.
// All tensors must be contiguous and lie inside their storage. Errors about the content match ErrFormat.
func OpenTorch(path string) (*Set, error) { return openWith(path, parseTorch) }

func parseTorch(data []byte) (*Set, error) {
	switch {
	case isZip(data):
		return parseTorchZip(data)
	case isPickle(data):
		return parseTorchLegacy(data)
	}
	return nil, errUnknownContent(data)
}

// record is the content of one storage in the file.
type record struct {
	path string // of the file, for errors
	name string // "data/0"
	data []byte
	crc  uint32

	once sync.Once
	err  error
}

// verify compares the checksum, the first time. A nil record has none.
func (r *record) verify() error {
	if r == nil {
		return nil
	}
	r.once.Do(func() {
		if crc32.ChecksumIEEE(r.data) != r.crc {
			r.err = &FormatError{Path: r.path, Reason: fmt.Sprintf("checksum error in %s: the file is damaged", r.name)}
		}
	})
	return r.err
}

// torchSet builds the Set of a pickled object. content returns the bytes of a storage, in full, for a tensor; the
// record is nil if the format has no checksum.
func torchSet(root any, content func(tensor string, s *pyStorage) ([]byte, *record, error)) (*Set, error) {
	dict, config, err := stateDict(root)
	if err != nil {
		return nil, err
	}
	set := &Set{ModelConfig: config, tensors: make(map[string]Tensor, len(dict.items))}
	for _, item := range dict.items {
		name, ok := item.key.(string)
		if !ok {
			return nil, faultf("tensor name is not a string but %s", describe(item.key))
		}
		if name == "__mixhavior__" { // left there by the original's training code
			continue
		}
		t, ok := item.value.(*pyTensor)
		if !ok {
			return nil, faultf("not a dictionary of tensors: entry %q is not a tensor but %s", name, describe(item.value))
		}
		if _, twice := set.tensors[name]; twice {
			return nil, faultf("duplicate tensor name %q", name)
		}
		shape, begin, end, err := t.extent(name)
		if err != nil {
			return nil, err
		}
		data, record, err := content(name, t.storage)
		if err != nil {
			return nil, err
		}
		set.tensors[name] = Tensor{DType: t.storage.dtype, Shape: shape, Data: data[begin:end:end], record: record}
	}
	return set, nil
}

// stateDict finds the dictionary of tensors in a pickled object, and the model configuration beside it.
func stateDict(root any) (dict *pyDict, config map[string]any, err error) {
	dict, ok := root.(*pyDict)
	if !ok {
		return nil, nil, faultf("not a dictionary of tensors: the file holds %s", describe(root))
	}
	if inner := dict.get("state_dict"); inner != nil {
		if dict, ok = inner.(*pyDict); !ok {
			return nil, nil, faultf("not a dictionary of tensors: state_dict is %s", describe(inner))
		}
		return dict, nil, nil
	}
	inner, ok := dict.get("model").(*pyDict)
	if !ok {
		return dict, nil, nil
	}
	if settings := dict.get("model_config"); settings != nil {
		budget := maxConfigValues
		plain, err := plainValue(settings, 0, &budget)
		if err != nil {
			return nil, nil, err
		}
		if config, ok = plain.(map[string]any); !ok {
			return nil, nil, faultf("model_config is not a dictionary but %s", describe(settings))
		}
	}
	return inner, config, nil
}

// get returns the last value under a string key, or nil.
func (d *pyDict) get(key string) any {
	var found any
	for _, item := range d.items {
		if item.key == any(key) {
			found = item.value
		}
	}
	return found
}

// Limits of a model configuration, which may refer to one value many times or to itself.
const (
	maxConfigDepth  = 32
	maxConfigValues = 1 << 16
)

// plainValue copies a pickled value into Go's maps and slices.
func plainValue(v any, depth int, budget *int) (any, error) {
	if *budget--; *budget < 0 || depth > maxConfigDepth {
		return nil, faultf("model_config is too large or nested too deep")
	}
	list := func(items []any) (any, error) {
		out := make([]any, len(items))
		for i, item := range items {
			var err error
			if out[i], err = plainValue(item, depth+1, budget); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	switch v := v.(type) {
	case nil, bool, int64, float64, string:
		return v, nil
	case pyTuple:
		return list(v)
	case *pyList:
		return list(v.items)
	case *pyDict:
		out := make(map[string]any, len(v.items))
		for _, item := range v.items {
			key, ok := item.key.(string)
			if !ok {
				return nil, faultf("model_config has a key that is not a string but %s", describe(item.key))
			}
			value, err := plainValue(item.value, depth+1, budget)
			if err != nil {
				return nil, err
			}
			out[key] = value
		}
		return out, nil
	}
	return nil, faultf("model_config holds %s", describe(v))
}

// describe names a pickled value in an error.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		return "a boolean"
	case int64:
		return fmt.Sprintf("the integer %d", v)
	case pyLong:
		return "a large integer"
	case float64:
		return fmt.Sprintf("the number %g", v)
	case string:
		return fmt.Sprintf("the string %.64q", v)
	case pyTuple:
		return "a tuple"
	case *pyList:
		return "a list"
	case *pyDict:
		return "a dictionary"
	case pyGlobal:
		return "the name " + string(v)
	case *pyStorage:
		return "a storage"
	}
	return "a tensor"
}

// extent checks a tensor against its storage and returns its shape and the bytes it takes of the storage.
func (t *pyTensor) extent(name string) (shape []int, begin, end int, err error) {
	shape, ok := tupleInts(t.size)
	if !ok {
		return nil, 0, 0, tensorFaultf(name, "malformed tensor shape: not a tuple of at most %d integers", maxRank)
	}
	stride, ok := tupleInts(t.stride)
	offset, isInt := t.offset.(int64)
	if !ok || !isInt {
		return nil, 0, 0, tensorFaultf(name, "malformed tensor stride or offset")
	}
	if len(shape) != len(stride) {
		return nil, 0, 0, tensorFaultf(name, "shape and stride ranks differ: %v and %v", shape, stride)
	}
	for _, dim := range shape {
		if dim < 0 {
			return nil, 0, 0, tensorFaultf(name, "negative dimension in shape %v", shape)
		}
	}
	if offset < 0 {
		return nil, 0, 0, tensorFaultf(name, "negative storage offset %d", offset)
	}
	bytes, err := byteSize(name, shape, t.storage.dtype)
	if err != nil {
		return nil, 0, 0, err
	}
	element := t.storage.dtype.Size()
	numel := int64(bytes / element)
	if offset > t.storage.numel || numel > t.storage.numel-offset {
		return nil, 0, 0, tensorFaultf(name, "tensor lies outside its storage: elements %d to %d+%d of %d",
			offset, offset, numel, t.storage.numel)
	}
	if numel > 0 && !contiguous(shape, stride) {
		return nil, 0, 0, tensorFaultf(name, "not contiguous: shape %v, stride %v", shape, stride)
	}
	begin = int(offset) * element
	return shape, begin, begin + bytes, nil
}

// tupleInts returns the integers of a tuple of at most maxRank.
func tupleInts(v any) ([]int, bool) {
	tuple, ok := v.(pyTuple)
	if !ok || len(tuple) > maxRank {
		return nil, false
	}
	ints := make([]int, len(tuple))
	for i, item := range tuple {
		n, ok := item.(int64)
		if !ok || int64(int(n)) != n {
			return nil, false
		}
		ints[i] = int(n)
	}
	return ints, true
}

// contiguous reports whether the strides are those of a row-major array; they do not matter along axes of one element.
func contiguous(shape, stride []int) bool {
	want := 1
	for i := len(shape) - 1; i >= 0; i-- {
		if shape[i] != 1 && stride[i] != want {
			return false
		}
		want *= shape[i]
	}
	return true
}
