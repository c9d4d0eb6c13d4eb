// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights

import (
	"math"
	"math/bits"
)

// instructions are those of the pickle protocols 2 to 5 that state dicts use; an absent one is an error.
// Their names and meanings are those of CPython's pickletools.
var instructions = [256]func(u *unpickler) error{
	0x80: func(u *unpickler) error { // PROTO
		version, err := u.byte()
		if err == nil && (version < 2 || version > 5) {
			return faultf("unsupported pickle protocol %d", version)
		}
		return err
	},
	0x95: func(u *unpickler) error { _, err := u.bytes(8); return err }, // FRAME: a hint for readers of streams

	'N':  func(u *unpickler) error { u.push(nil); return nil },   // NONE
	0x88: func(u *unpickler) error { u.push(true); return nil },  // NEWTRUE
	0x89: func(u *unpickler) error { u.push(false); return nil }, // NEWFALSE
	'K':  func(u *unpickler) error { return u.pushUint(1) },      // BININT1
	'M':  func(u *unpickler) error { return u.pushUint(2) },      // BININT2
	'J': func(u *unpickler) error { // BININT
		n, err := u.uint(4)
		u.push(int64(int32(n)))
		return err
	},
	0x8a: func(u *unpickler) error { return u.pushLong(1) }, // LONG1
	0x8b: func(u *unpickler) error { return u.pushLong(4) }, // LONG4
	'G': func(u *unpickler) error { // BINFLOAT, big-endian
		n, err := u.uint(8)
		u.push(math.Float64frombits(bits.ReverseBytes64(n)))
		return err
	},
	'X':  func(u *unpickler) error { return u.pushText(4) }, // BINUNICODE
	0x8c: func(u *unpickler) error { return u.pushText(1) }, // SHORT_BINUNICODE
	0x8d: func(u *unpickler) error { return u.pushText(8) }, // BINUNICODE8
	'T':  func(u *unpickler) error { return u.pushText(4) }, // BINSTRING, of Python 2
	'U':  func(u *unpickler) error { return u.pushText(1) }, // SHORT_BINSTRING, of Python 2

	'(':  func(u *unpickler) error { u.marks = append(u.marks, len(u.stack)); return nil }, // MARK
	'0':  func(u *unpickler) error { _, err := u.pop(); return err },                       // POP
	')':  func(u *unpickler) error { return u.pushTuple(0) },                               // EMPTY_TUPLE
	0x85: func(u *unpickler) error { return u.pushTuple(1) },                               // TUPLE1
	0x86: func(u *unpickler) error { return u.pushTuple(2) },                               // TUPLE2
	0x87: func(u *unpickler) error { return u.pushTuple(3) },                               // TUPLE3
	't': func(u *unpickler) error { // TUPLE
		items, err := u.popMark()
		u.push(append(pyTuple(nil), items...))
		return err
	},
	']': func(u *unpickler) error { u.push(&pyList{}); return nil }, // EMPTY_LIST
	'}': func(u *unpickler) error { u.push(&pyDict{}); return nil }, // EMPTY_DICT
	'a': func(u *unpickler) error { // APPEND
		items, err := u.popN(1)
		if err != nil {
			return err
		}
		return u.extend(items)
	},
	'e': func(u *unpickler) error { // APPENDS
		items, err := u.popMark()
		if err != nil {
			return err
		}
		return u.extend(items)
	},
	's': func(u *unpickler) error { // SETITEM
		items, err := u.popN(2)
		if err != nil {
			return err
		}
		return u.setItems(items)
	},
	'u': func(u *unpickler) error { // SETITEMS
		items, err := u.popMark()
		if err != nil {
			return err
		}
		return u.setItems(items)
	},

	'q':  func(u *unpickler) error { return u.store(1) },       // BINPUT
	'r':  func(u *unpickler) error { return u.store(4) },       // LONG_BINPUT
	'h':  func(u *unpickler) error { return u.recall(1) },      // BINGET
	'j':  func(u *unpickler) error { return u.recall(4) },      // LONG_BINGET
	0x94: func(u *unpickler) error { return u.memoize() },      // MEMOIZE
	'c':  func(u *unpickler) error { return u.namedByLine() },  // GLOBAL
	0x93: func(u *unpickler) error { return u.namedByStack() }, // STACK_GLOBAL
	'R':  func(u *unpickler) error { return u.reduce() },       // REDUCE
	'b':  func(u *unpickler) error { return u.build() },        // BUILD
	'Q':  func(u *unpickler) error { return u.persistent() },   // BINPERSID
}

func (u *unpickler) pushUint(size uint64) error {
	n, err := u.uint(size)
	u.push(int64(n))
	return err
}

// pushLong pushes a two's complement integer that follows its length of size bytes.
func (u *unpickler) pushLong(size uint64) error {
	n, err := u.uint(size)
	if err != nil {
		return err
	}
	b, err := u.bytes(n)
	if err != nil {
		return err
	}
	if n > 8 {
		if n > maxPickleName {
			return faultf("malformed pickle: integer of %d bytes", n)
		}
		u.push(pyLong(b))
		return nil
	}
	var value int64
	for i, c := range b {
		value |= int64(c) << (8 * i)
	}
	if shift := 64 - 8*n; n > 0 {
		value = value << shift >> shift // the sign
	}
	u.push(value)
	return nil
}

func (u *unpickler) pushText(size uint64) error {
	text, err := u.text(size)
	u.push(text)
	return err
}

func (u *unpickler) pushTuple(n int) error {
	items, err := u.popN(n)
	u.push(append(pyTuple(nil), items...))
	return err
}

// extend appends items to the list on top of the stack.
func (u *unpickler) extend(items []any) error {
	v, err := u.pop()
	if err != nil {
		return err
	}
	list, ok := v.(*pyList)
	if !ok {
		return faultf("malformed pickle: append to something that is not a list")
	}
	list.items = append(list.items, items...)
	u.push(list)
	return nil
}

// setItems adds alternate keys and values to the dictionary on top of the stack.
func (u *unpickler) setItems(items []any) error {
	v, err := u.pop()
	if err != nil {
		return err
	}
	dict, ok := v.(*pyDict)
	if !ok || len(items)%2 != 0 {
		return faultf("malformed pickle: items for something that is not a dictionary")
	}
	for i := 0; i < len(items); i += 2 {
		dict.items = append(dict.items, pyItem{items[i], items[i+1]})
	}
	u.push(dict)
	return nil
}

// store puts the top of the stack into the memo under a number of size bytes.
func (u *unpickler) store(size uint64) error {
	n, err := u.uint(size)
	if err != nil {
		return err
	}
	return u.remember(uint32(n))
}

// memoize is store under the next free number.
func (u *unpickler) memoize() error { return u.remember(uint32(len(u.memo))) }

func (u *unpickler) remember(n uint32) error {
	v, err := u.top()
	if err != nil {
		return err
	}
	if len(u.memo) >= maxPickleMemo {
		return faultf("malformed pickle: memo of more than %d entries", maxPickleMemo)
	}
	u.memo[n] = v
	return nil
}

// recall pushes a value of the memo.
func (u *unpickler) recall(size uint64) error {
	n, err := u.uint(size)
	if err != nil {
		return err
	}
	v, ok := u.memo[uint32(n)]
	if !ok {
		return faultf("malformed pickle: memo entry %d was never written", n)
	}
	u.push(v)
	return nil
}

func (u *unpickler) namedByLine() error {
	module, err := u.line()
	if err != nil {
		return err
	}
	name, err := u.line()
	if err != nil {
		return err
	}
	return u.global(module, name)
}

func (u *unpickler) namedByStack() error {
	pair, err := u.popN(2)
	if err != nil {
		return err
	}
	module, ok1 := pair[0].(string)
	name, ok2 := pair[1].(string)
	if !ok1 || !ok2 || len(module) > maxPickleName || len(name) > maxPickleName {
		return faultf("malformed pickle: name of a global is not a string")
	}
	return u.global(module, name)
}

// build drops the attributes of a dictionary: state dicts carry "_metadata", which nothing here needs.
func (u *unpickler) build() error {
	if _, err := u.pop(); err != nil {
		return err
	}
	v, err := u.top()
	if err != nil {
		return err
	}
	if _, ok := v.(*pyDict); !ok {
		return faultf("malformed pickle: attributes for something that is not a dictionary")
	}
	return nil
}
