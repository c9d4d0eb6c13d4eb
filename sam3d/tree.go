// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// tree reads a value of a YAML or JSON document by its path. A value that is absent keeps the default that is asked
// with; one of a wrong type is noted as a fault, which the reader checks once at the end.
type tree struct {
	value  any
	path   string
	faults *faults
}

// faults are the wrong values met in the documents of a checkpoint.
type faults struct{ list []string }

const (
	maxFaults = 20  // that an error names
	maxString = 128 // bytes of a name
)

// err returns all faults as one ErrConfig, or nil if there are none.
func (f *faults) err() error {
	if len(f.list) == 0 {
		return nil
	}
	slices.Sort(f.list)
	f.list = slices.Compact(f.list)
	if n := len(f.list) - maxFaults; n > 0 {
		f.list = append(f.list[:maxFaults], fmt.Sprintf("and %d more", n))
	}
	return fmt.Errorf("%w: %s", ErrConfig, strings.Join(f.list, "; "))
}

func (t tree) fail(want string) {
	var have string
	switch v := t.value.(type) {
	case map[string]any, map[any]any:
		have = "a mapping"
	case []any:
		have = "a list"
	case string:
		have = fmt.Sprintf("%.64q", v)
	default:
		have = fmt.Sprintf("%.64v", v)
	}
	t.faults.list = append(t.faults.list, fmt.Sprintf("%.256q is %s, not %s", t.path, have, want))
}

// at descends by map keys (strings) and list positions (ints).
func (t tree) at(keys ...any) tree {
	for _, key := range keys {
		next := tree{path: fmt.Sprintf("%s.%v", t.path, key), faults: t.faults}
		switch key := key.(type) {
		case string:
			if m, ok := t.value.(map[string]any); ok {
				next.value = m[key]
			} else if t.value != nil {
				t.fail("a mapping")
			}
		case int:
			if list, ok := t.value.([]any); ok {
				if key < len(list) {
					next.value = list[key]
				}
			} else if t.value != nil {
				t.fail("a list")
			}
		}
		t = next
	}
	return t
}

func (t tree) has() bool { return t.value != nil }

// keys returns a mapping's keys in no order.
func (t tree) keys() []string {
	m, ok := t.value.(map[string]any)
	if !ok && t.value != nil {
		t.fail("a mapping")
	}
	keys := make([]string, 0, len(m))
	for key := range m {
		if len(key) > maxString {
			t.fail("a mapping with short keys")
		}
		keys = append(keys, key)
	}
	return keys
}

// list returns a list's elements.
func (t tree) list() []tree {
	values, ok := t.value.([]any)
	if !ok && t.value != nil {
		t.fail("a list")
	}
	elements := make([]tree, len(values))
	for i := range values {
		elements[i] = t.at(i)
	}
	return elements
}

func (t tree) float(otherwise float64) float64 {
	switch v := t.value.(type) {
	case nil:
		return otherwise
	case float64:
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			return v
		}
	case int:
		return float64(v)
	}
	t.fail("a number")
	return otherwise
}

func (t tree) int(otherwise int) int {
	switch v := t.value.(type) {
	case nil:
		return otherwise
	case int:
		if v > -1<<31 && v < 1<<31 { // products of two never overflow
			return v
		}
	case float64: // JSON has no integers
		if v == math.Trunc(v) && math.Abs(v) < 1<<31 {
			return int(v)
		}
	}
	t.fail("an integer of 32 bits")
	return otherwise
}

func (t tree) bool(otherwise bool) bool {
	switch v := t.value.(type) {
	case nil:
		return otherwise
	case bool:
		return v
	}
	t.fail("true or false")
	return otherwise
}

func (t tree) string(otherwise string) string {
	switch v := t.value.(type) {
	case nil:
		return otherwise
	case string:
		if len(v) <= maxString {
			return v
		}
	}
	t.fail("a short string")
	return otherwise
}

func (t tree) ints(otherwise []int) []int {
	if !t.has() {
		return otherwise
	}
	elements := t.list()
	out := make([]int, len(elements))
	for i, e := range elements {
		out[i] = e.int(0)
	}
	return out
}

func (t tree) floats(otherwise []float64) []float64 {
	if !t.has() {
		return otherwise
	}
	elements := t.list()
	out := make([]float64, len(elements))
	for i, e := range elements {
		out[i] = e.float(0)
	}
	return out
}
