// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// What a caller may branch on with errors.Is.
var (
	// ErrFormat: a file is damaged, hostile or of a kind that is not read here. The error is a *FormatError.
	ErrFormat = errors.New("malformed or unsupported checkpoint")
	// ErrMismatch: the tensors are not those of the model. The error is a *MismatchError.
	ErrMismatch = errors.New("tensors do not match the model")
	// ErrMissing: a checkpoint folder, or a file of it, is not there.
	ErrMissing = errors.New("missing checkpoint file")
	// ErrGated: the hub refuses access without a token, or with this token.
	ErrGated = errors.New("access refused by the model hub")
	// ErrNotFound: the hub has no such repository, revision or file.
	ErrNotFound = errors.New("not found on the model hub")
	// ErrOffline: the hub cannot be reached and the cache does not hold everything.
	ErrOffline = errors.New("model hub cannot be reached")
)

// FormatError says what is wrong with a file. It matches ErrFormat.
type FormatError struct {
	Path   string // file or folder
	Tensor string // tensor at fault, if one is
	Reason string
	Err    error // cause, if it is of use to a caller
}

// Error names the file, the tensor and the fault.
func (e *FormatError) Error() string {
	var b strings.Builder
	b.WriteString("weights: ")
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	if e.Tensor != "" {
		fmt.Fprintf(&b, "tensor %q: ", e.Tensor)
	}
	b.WriteString(e.Reason)
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Is reports whether target is ErrFormat.
func (e *FormatError) Is(target error) bool { return target == ErrFormat }

// Unwrap returns the cause.
func (e *FormatError) Unwrap() error { return e.Err }

// faultf returns a FormatError whose path is filled in by at.
func faultf(format string, args ...any) error {
	return &FormatError{Reason: fmt.Sprintf(format, args...)}
}

// tensorFaultf is faultf for one tensor.
func tensorFaultf(tensor, format string, args ...any) error {
	return &FormatError{Tensor: tensor, Reason: fmt.Sprintf(format, args...)}
}

// at adds the path to a fault that has none.
func at(path string, err error) error {
	var fault *FormatError
	if errors.As(err, &fault) && fault.Path == "" {
		fault.Path = path
	}
	return err
}

// MismatchError lists every difference between a Set and a Spec. It matches ErrMismatch. The lists are sorted.
type MismatchError struct {
	Missing    []string // names
	Unexpected []string // names
	Shape      []string // "name: shape [2 3], want [3 2]"
	DType      []string // "name: dtype Int32, want one of [Float32 Float16 BFloat16]"
}

// Error lists all differences.
func (e *MismatchError) Error() string {
	var parts []string
	for _, part := range []struct {
		what string
		list []string
	}{
		{"missing", e.Missing}, {"unexpected", e.Unexpected}, {"of another shape", e.Shape}, {"of another dtype", e.DType},
	} {
		if len(part.list) > 0 {
			parts = append(parts, fmt.Sprintf("%d %s (%s)", len(part.list), part.what, strings.Join(part.list, ", ")))
		}
	}
	return "weights: tensors do not match the model: " + strings.Join(parts, "; ")
}

// Is reports whether target is ErrMismatch.
func (e *MismatchError) Is(target error) bool { return target == ErrMismatch }

// orNil sorts the lists and returns e, or nil if nothing differs.
func (e *MismatchError) orNil() error {
	n := 0
	for _, list := range [][]string{e.Missing, e.Unexpected, e.Shape, e.DType} {
		slices.Sort(list)
		n += len(list)
	}
	if n == 0 {
		return nil
	}
	return e
}

// printable returns text of a file without anything that a terminal might obey, and not much of it.
func printable(text string) string {
	const most = 128
	quoted := strconv.Quote(text[:min(len(text), most)])
	return quoted[1 : len(quoted)-1]
}
