// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/gomlx/compute/dtypes"
)

// Limits of a pickle. The largest released state dict takes 0.5 MB, 80,000 instructions and 20,000 memo entries.
const (
	maxPickle      = 16 << 20
	maxPickleSteps = 1 << 20
	maxPickleStack = 1 << 14
	maxPickleMemo  = 1 << 18
	maxPickleText  = 1 << 16 // bytes of one string
	maxPickleName  = 256     // bytes of a module or class name
)

// The values a pickle may build, besides nil, bool, int64, float64 and string.
type (
	pyTuple  []any
	pyList   struct{ items []any }
	pyDict   struct{ items []pyItem } // in order of insertion; keys may repeat
	pyItem   struct{ key, value any }
	pyGlobal string // "module.name", one of allowedGlobals
	pyLong   string // little-endian two's complement of an integer beyond 64 bits

	// pyStorage is a declared storage: numel elements under a key.
	pyStorage struct {
		key   string
		dtype dtypes.DType
		numel int64
	}
	// pyTensor is a call of a rebuild function: offset, size and stride are as found.
	pyTensor struct {
		storage              *pyStorage
		offset, size, stride any
	}
)

const (
	orderedDict      = "collections.OrderedDict"
	rebuildTensorV2  = "torch._utils._rebuild_tensor_v2"
	rebuildTensor    = "torch._utils._rebuild_tensor"
	rebuildParameter = "torch._utils._rebuild_parameter"
)

// storageDTypes are the storage classes that may be named. With the four names above they are all that may be.
var storageDTypes = map[string]dtypes.DType{
	"torch.DoubleStorage": dtypes.Float64, "torch.FloatStorage": dtypes.Float32,
	"torch.HalfStorage": dtypes.Float16, "torch.BFloat16Storage": dtypes.BFloat16,
	"torch.LongStorage": dtypes.Int64, "torch.IntStorage": dtypes.Int32, "torch.ShortStorage": dtypes.Int16,
	"torch.CharStorage": dtypes.Int8, "torch.ByteStorage": dtypes.Uint8, "torch.BoolStorage": dtypes.Bool,
	"torch.ComplexFloatStorage": dtypes.Complex64,
}

// unpickler is a machine for the part of the pickle language that state dicts are written in. It builds the values
// above and calls nothing.
type unpickler struct {
	data     []byte
	pos      int
	stack    []any
	marks    []int // heights of the stack
	memo     map[uint32]any
	storages map[string]*pyStorage
	tensors  int
}

// unpickle runs the pickle at the start of data. It returns its value, the storages it declares and its length.
func unpickle(data []byte) (value any, storages map[string]*pyStorage, length int, err error) {
	u := &unpickler{data: data[:min(len(data), maxPickle)], memo: map[uint32]any{}, storages: map[string]*pyStorage{}}
	for range maxPickleSteps {
		op, err := u.byte()
		if err != nil {
			return nil, nil, 0, err
		}
		if op == '.' {
			value, err := u.pop()
			return value, u.storages, u.pos, err
		}
		run := instructions[op]
		if run == nil {
			return nil, nil, 0, faultf("malformed pickle: unsupported instruction 0x%02x at %d", op, u.pos-1)
		}
		if err := run(u); err != nil {
			return nil, nil, 0, err
		}
		if len(u.stack) > maxPickleStack || len(u.marks) > maxPickleStack {
			return nil, nil, 0, faultf("malformed pickle: nested too deep")
		}
	}
	return nil, nil, 0, faultf("malformed pickle: more than %d instructions", maxPickleSteps)
}

// bytes returns the next n bytes of the pickle.
func (u *unpickler) bytes(n uint64) ([]byte, error) {
	if n > uint64(len(u.data)-u.pos) {
		return nil, faultf("truncated pickle: %d bytes wanted at %d of %d", n, u.pos, len(u.data))
	}
	start := u.pos
	u.pos += int(n)
	return u.data[start:u.pos], nil
}

func (u *unpickler) byte() (byte, error) {
	b, err := u.bytes(1)
	if err != nil {
		return 0, err
	}
	return b[0], nil
}

// uint reads a little-endian number of size bytes.
func (u *unpickler) uint(size uint64) (uint64, error) {
	b, err := u.bytes(size)
	if err != nil {
		return 0, err
	}
	var wide [8]byte
	copy(wide[:], b)
	return binary.LittleEndian.Uint64(wide[:]), nil
}

// text reads a string after its length of size bytes.
func (u *unpickler) text(size uint64) (string, error) {
	n, err := u.uint(size)
	if err != nil {
		return "", err
	}
	b, err := u.bytes(n)
	if err != nil {
		return "", err
	}
	if n > maxPickleText || !utf8.Valid(b) {
		return "", faultf("malformed pickle: string of %d bytes is too long or not UTF-8", n)
	}
	return string(b), nil
}

// line reads a name that a line feed ends.
func (u *unpickler) line() (string, error) {
	rest := u.data[u.pos:]
	end := bytes.IndexByte(rest[:min(len(rest), maxPickleName)], '\n')
	if end < 0 {
		return "", faultf("truncated pickle: unterminated name")
	}
	u.pos += end + 1
	return string(rest[:end]), nil
}

func (u *unpickler) push(v any) { u.stack = append(u.stack, v) }

// floor is the height of the stack below which the current mark forbids to pop.
func (u *unpickler) floor() int {
	if len(u.marks) == 0 {
		return 0
	}
	return u.marks[len(u.marks)-1]
}

func (u *unpickler) pop() (any, error) {
	items, err := u.popN(1)
	if err != nil {
		return nil, err
	}
	return items[0], nil
}

// popN removes n values and returns them, bottom first. They are valid until the next push.
func (u *unpickler) popN(n int) ([]any, error) {
	if len(u.stack)-n < u.floor() {
		return nil, faultf("malformed pickle: stack underflow at %d", u.pos-1)
	}
	items := u.stack[len(u.stack)-n:]
	u.stack = u.stack[:len(u.stack)-n]
	return items, nil
}

// popMark removes the values above the last mark, and the mark.
func (u *unpickler) popMark() ([]any, error) {
	if len(u.marks) == 0 {
		return nil, faultf("malformed pickle: no mark at %d (stack underflow)", u.pos-1)
	}
	items, err := u.popN(len(u.stack) - u.floor())
	u.marks = u.marks[:len(u.marks)-1]
	return items, err
}

// top returns the value on top of the stack.
func (u *unpickler) top() (any, error) {
	v, err := u.pop()
	if err == nil {
		u.push(v)
	}
	return v, err
}

// global pushes a reference to a class or function, if it is one of those that may be named.
func (u *unpickler) global(module, name string) error {
	full := module + "." + name
	switch full {
	case orderedDict, rebuildTensorV2, rebuildTensor, rebuildParameter:
	default:
		if _, ok := storageDTypes[full]; ok {
			break
		}
		if module == "torch" && strings.HasSuffix(name, "Storage") {
			return faultf("unsupported storage type %s", printable(name))
		}
		return faultf("unsupported pickle global %s", printable(full))
	}
	u.push(pyGlobal(full))
	return nil
}

// reduce makes the value that calling a global would make.
func (u *unpickler) reduce() error {
	pair, err := u.popN(2)
	if err != nil {
		return err
	}
	callee, ok := pair[0].(pyGlobal)
	args, isTuple := pair[1].(pyTuple)
	if !ok || !isTuple {
		return faultf("malformed pickle: call of something that is not a function")
	}
	switch callee {
	case orderedDict:
		if len(args) != 0 {
			return faultf("malformed pickle: OrderedDict with arguments")
		}
		u.push(&pyDict{})
		return nil
	case rebuildTensorV2:
		return u.rebuild(args, 6, 7)
	case rebuildTensor:
		return u.rebuild(args, 4, 4)
	case rebuildParameter:
		if len(args) == 3 {
			if t, ok := args[0].(*pyTensor); ok {
				u.push(t)
				return nil
			}
		}
		return faultf("malformed parameter record")
	}
	return faultf("malformed pickle: call of %q", string(callee))
}

// rebuild makes a tensor of storage, offset, size and stride; what follows is about gradients.
func (u *unpickler) rebuild(args pyTuple, least, most int) error {
	if len(args) < least || len(args) > most {
		return faultf("malformed tensor record: %d arguments", len(args))
	}
	storage, ok := args[0].(*pyStorage)
	if !ok {
		return faultf("malformed tensor record: no storage")
	}
	if u.tensors++; u.tensors > maxTensors {
		return faultf("more than %d tensors", maxTensors)
	}
	u.push(&pyTensor{storage: storage, offset: args[1], size: args[2], stride: args[3]})
	return nil
}

// persistent makes a storage of ("storage", class, key, location, numel), which older files extend by a view.
func (u *unpickler) persistent() error {
	v, err := u.pop()
	if err != nil {
		return err
	}
	id, _ := v.(pyTuple)
	if len(id) != 5 && len(id) != 6 || id[0] != any("storage") {
		return faultf("unsupported persistent id")
	}
	class, ok1 := id[1].(pyGlobal)
	key, ok2 := id[2].(string)
	_, ok3 := id[3].(string)
	numel, ok4 := id[4].(int64)
	dtype, ok5 := storageDTypes[string(class)]
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 {
		return faultf("unsupported persistent id: malformed storage")
	}
	if len(id) == 6 && id[5] != nil {
		return faultf("unsupported persistent id: storage %q is a view of another", key)
	}
	if !plainKey(key) {
		return faultf("storage key %.64q is not a plain name", key)
	}
	if numel < 0 || numel > math.MaxInt64/int64(dtype.Size()) {
		return faultf("storage %s: impossible size of %d elements", key, numel)
	}
	storage := &pyStorage{key, dtype, numel}
	if known := u.storages[key]; known == nil {
		u.storages[key] = storage
	} else if *known != *storage {
		return faultf("storage %s is declared twice with different type or size", key)
	} else {
		storage = known
	}
	u.push(storage)
	return nil
}

// plainKey reports whether key is a number or word, and so cannot be a path.
func plainKey(key string) bool {
	for _, c := range key {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '-') {
			return false
		}
	}
	return len(key) > 0 && len(key) <= 64
}
