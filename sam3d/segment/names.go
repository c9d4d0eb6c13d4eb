// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/gomlx3d/image3d/weights"
)

// source says where a layout keeps a tensor.
type source struct {
	names []string // of the tensor, of its other copies, or of the parts it is made of
	op    sourceOp
	row   int // of opRow
}

type sourceOp int

const (
	opCopy     sourceOp = iota // the tensor itself; other names hold the same
	opJoin                     // its parts are queries, keys and values
	opRow                      // it is one row
	opPosition                 // the position of the class token is left out
)

// canonicalSet returns the tensors that the network needs by the names of Spec, whatever the layout of set. Every other
// tensor of set must be one that the layout is known to have for other purposes. The error is one
// *weights.MismatchError, which lists all differences.
func canonicalSet(cfg Config, set *weights.Set) (*weights.Set, error) {
	file := fileNames(cfg.Layout, set)
	spec, used, diff := Spec(cfg), make(map[string]bool), &weights.MismatchError{}
	tensors := make(map[string]weights.Tensor)
	for name, want := range spec {
		src := cfg.Layout.source(name)
		var parts []weights.Tensor
		for i, from := range src.names {
			used[from] = true
			if want.Optional {
				continue
			}
			if t, ok := set.Get(file[from]); ok && file[from] != "" {
				parts = append(parts, t)
			} else if src.op != opCopy || i == len(src.names)-1 && len(parts) == 0 {
				diff.Missing = append(diff.Missing, from)
			}
		}
		if want.Optional || len(parts) == 0 || src.op != opCopy && len(parts) != len(src.names) {
			continue
		}
		t, err := src.build(parts)
		if err != nil {
			diff.Shape = append(diff.Shape, fmt.Sprintf("%s: %v", strings.Join(src.names, ", "), err))
			continue
		}
		tensors[name] = t
	}
	for name, actual := range file {
		if !used[name] && !cfg.ignores(name) {
			diff.Unexpected = append(diff.Unexpected, actual)
		}
	}
	canonical := weights.NewSet(tensors)
	merge(diff, canonical.Check(required(spec, tensors)))
	slices.Sort(diff.Missing)
	slices.Sort(diff.Unexpected)
	if len(diff.Missing)+len(diff.Unexpected)+len(diff.Shape)+len(diff.DType) > 0 {
		return nil, diff
	}
	return canonical, nil
}

// required is the part of a specification that can be checked: what was found.
func required(spec weights.Spec, found map[string]weights.Tensor) weights.Spec {
	out := weights.Spec{}
	for name := range found {
		out[name] = spec[name]
	}
	return out
}

// merge adds the shapes and precisions that err finds wrong.
func merge(diff *weights.MismatchError, err error) {
	if more, ok := err.(*weights.MismatchError); ok {
		diff.Shape = append(diff.Shape, more.Shape...)
		diff.DType = append(diff.DType, more.DType...)
	}
}

// build makes the tensor of its parts.
func (s source) build(parts []weights.Tensor) (weights.Tensor, error) {
	first := parts[0]
	switch s.op {
	case opJoin:
		for _, p := range parts {
			if !slices.Equal(p.Shape, first.Shape) {
				return first, fmt.Errorf("shapes %v and %v of queries, keys and values", first.Shape, p.Shape)
			}
		}
		return weights.Join(parts...)
	case opRow:
		return first.Rows(s.row, s.row+1)
	case opPosition:
		return withClassPosition(first)
	}
	for _, p := range parts[1:] {
		if !bytes.Equal(p.Data, first.Data) {
			return first, fmt.Errorf("copies of one tensor differ")
		}
	}
	return first, nil
}

// withClassPosition puts a position before those of the patches [1, N, D], which nothing reads.
func withClassPosition(t weights.Tensor) (weights.Tensor, error) {
	if len(t.Shape) != 3 || t.Shape[0] != 1 {
		return t, fmt.Errorf("shape %v of a position table", t.Shape)
	}
	width := t.Shape[2]
	t.Shape = t.Shape[1:]
	zero := weights.Tensor{DType: t.DType, Shape: []int{1, width}, Data: make([]byte, width*t.DType.Size())}
	joined, err := weights.Join(zero, t)
	joined.Shape = append([]int{1}, joined.Shape...)
	return joined, err
}

// fileNames returns the names of a checkpoint's tensors by those that its layout has for them: Meta's may lack the prefix
// of the image path.
func fileNames(layout Layout, set *weights.Set) map[string]string {
	names := set.Names()
	hasPrefix := func(name string) bool { return strings.HasPrefix(name, metaPrefix) }
	strip := (layout == MetaSAM3 || layout == MetaSAM31) && !slices.ContainsFunc(names, hasPrefix)
	out := make(map[string]string, len(names))
	for _, name := range names {
		if strip && !strings.HasPrefix(name, trackerPrefix) {
			out[metaPrefix+name] = name
		} else {
			out[name] = name
		}
	}
	return out
}

// source returns where a layout keeps a tensor of Spec.
func (l Layout) source(name string) source {
	switch l {
	case MetaSAM3:
		return source{names: []string{name}}
	case MetaSAM31:
		return source{names: []string{renamed(name, namesSAM31)}}
	}
	src := transformersSource(name)
	for i, from := range src.names {
		switch l {
		case TransformersModel:
			src.names[i] = strings.TrimPrefix(from, "detector_model.")
		case TransformersTracker:
			src.names[i] = renamed(from, namesTracker)
		}
	}
	return src
}

// transformersSource returns where the video model of transformers keeps a tensor.
func transformersSource(name string) source {
	if rest, ok := strings.CutPrefix(name, promptEncoder+".point_embeddings."); ok {
		return source{names: []string{"tracker_model.prompt_encoder.point_embed.weight"}, op: opRow, row: int(rest[0] - '0')}
	}
	switch name {
	case trunkPrefix + "pos_embed":
		return source{names: []string{"detector_model.vision_encoder.backbone.embeddings.position_embeddings"}, op: opPosition}
	case promptEncoder + ".pe_layer.positional_encoding_gaussian_matrix":
		return source{names: []string{
			"tracker_model.shared_image_embedding.positional_embedding",
			"tracker_model.prompt_encoder.shared_embedding.positional_embedding",
		}}
	}
	for _, s := range transformersNames {
		rest, ok := strings.CutPrefix(name, s.meta)
		if !ok {
			continue
		}
		to := s.transformers + renamed(rest, s.modules)
		if before, after, split := strings.Cut(to, "@"); split {
			return source{names: []string{before + "q" + after, before + "k" + after, before + "v" + after}, op: opJoin}
		}
		return source{names: []string{to}}
	}
	return source{names: []string{name}}
}

// renamed replaces the start of a name by the first pair that fits, or returns the name. A * stands for a number, which
// stays.
func renamed(name string, pairs [][2]string) string {
	for _, pair := range pairs {
		if number, rest, ok := match(pair[0], name); ok {
			return strings.Replace(pair[1], "*", number, 1) + rest
		}
	}
	return name
}

// match compares the start of a name with a pattern and returns the number in the place of *, and the rest of the name.
func match(pattern, name string) (number, rest string, ok bool) {
	before, after, wild := strings.Cut(pattern, "*")
	if rest, ok = strings.CutPrefix(name, before); !ok || !wild {
		return "", rest, ok
	}
	digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
	if digits == 0 {
		return "", "", false
	}
	number, rest = rest[:digits], rest[digits:]
	rest, ok = strings.CutPrefix(rest, after)
	return number, rest, ok
}

// ignores reports whether a tensor that the configuration does not name may be in a checkpoint of its layout: what
// belongs to video, and to a head that is not loaded.
func (c Config) ignores(name string) bool {
	known := purposes[c.Layout]
	within := func(prefixes []string) bool {
		return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	}
	switch {
	case within(known.grounding):
		return !c.Grounding
	case within(known.interactive):
		return !c.Interactive
	}
	return within(known.video)
}
