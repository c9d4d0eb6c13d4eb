// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"
)

// Param is what a model expects of one tensor.
type Param struct {
	Shape    []int
	DTypes   []dtypes.DType // allowed; nil means float32, float16 or bfloat16
	Optional bool           // may be absent
}

// Spec is what a model expects of a checkpoint: every tensor by name.
type Spec map[string]Param

// floats are the precisions that model weights come in.
var floats = []dtypes.DType{dtypes.Float32, dtypes.Float16, dtypes.BFloat16}

// Add adds the entries of other with prefix before their names.
func (s Spec) Add(prefix string, other Spec) {
	for name, p := range other {
		s[prefix+name] = p
	}
}

// Check compares the Set with spec, names, shapes and dtypes, and returns nil or one *MismatchError that lists every
// difference.
func (s *Set) Check(spec Spec) error {
	diff := &MismatchError{}
	for name, want := range spec {
		t, ok := s.tensors[name]
		if !ok {
			if !want.Optional {
				diff.Missing = append(diff.Missing, name)
			}
			continue
		}
		if !slices.Equal(t.Shape, want.Shape) {
			diff.Shape = append(diff.Shape, fmt.Sprintf("%s: shape %v, want %v", name, t.Shape, want.Shape))
		}
		allowed := want.DTypes
		if allowed == nil {
			allowed = floats
		}
		if !slices.Contains(allowed, t.DType) {
			diff.DType = append(diff.DType, fmt.Sprintf("%s: dtype %v, want one of %v", name, t.DType, allowed))
		}
	}
	for name := range s.tensors {
		if _, ok := spec[name]; !ok {
			diff.Unexpected = append(diff.Unexpected, name)
		}
	}
	return diff.orNil()
}
