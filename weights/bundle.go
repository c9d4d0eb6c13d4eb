// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	bundleConfig = "config.json"
	bundleIndex  = "model.safetensors.index.json"

	maxBundleJSON = 16 << 20 // the released index has 0.4 MB
	maxShards     = 256
)

// bundlePrefixes give the component of a tensor in a bundle.
var bundlePrefixes = map[string]string{
	SSGenerator: "ss_generator.", SSConditionEmbedder: "ss_condition_embedder.",
	SLATGenerator: "slat_generator.", SLATConditionEmbedder: "slat_condition_embedder.",
	SSDecoder: "ss_decoder.", SLATDecoderGS: "slat_decoder_gs.", SLATDecoderGS4: "slat_decoder_gs_4.",
	SLATDecoderMesh: "slat_decoder_mesh.", Depth: "depth_model.",
}

// OpenBundle opens a folder in the layout of the MLX port, or one that has it in a subfolder "checkpoints":
// config.json, model.safetensors.index.json and the shards that it names, which must hold exactly the tensors that it
// says. All shards are mapped at once; that reads their headers only.
func OpenBundle(dir string) (*Checkpoint, error) {
	base, ok := findFolder(dir, bundleIndex)
	if !ok {
		return nil, fmt.Errorf("weights: %s holds no MLX bundle (%s): %w", dir, bundleIndex, ErrMissing)
	}
	c := &Checkpoint{Dir: base, Layout: MLX}
	if err := readJSON(filepath.Join(base, bundleConfig), &c.Config); err != nil {
		return nil, err
	}
	depth, err := depthConfig(c.Config)
	if err != nil {
		return nil, at(filepath.Join(base, bundleConfig), err)
	}
	index, err := readIndex(base)
	if err != nil {
		return nil, err
	}
	all, err := openShards(base, index)
	if err != nil {
		return nil, err
	}
	if c.sets, err = splitBundle(all, depth); err != nil {
		_ = all.Close()
		return nil, at(base, err)
	}
	c.closers = []io.Closer{all}
	return c, nil
}

// readJSON reads a JSON object into v.
func readJSON(path string, v any) error {
	data, err := readSmall(path, maxBundleJSON)
	if errors.Is(err, fs.ErrNotExist) {
		return &FormatError{Path: filepath.Dir(path), Reason: filepath.Base(path) + " not found", Err: ErrMissing}
	}
	if err != nil {
		return err
	}
	if err := checkJSON(data); err != nil {
		return at(path, err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return &FormatError{Path: path, Reason: "invalid " + filepath.Base(path), Err: err}
	}
	return nil
}

// depthConfig returns the configuration of the depth model, or nil if the bundle has none.
func depthConfig(config map[string]any) (map[string]any, error) {
	switch depth := config["depth_model"].(type) {
	case nil:
		return nil, nil
	case map[string]any:
		if kind, ok := depth["model_type"]; !ok || kind == depthType {
			return withDepthType(depth), nil
		}
	}
	return nil, faultf("depth_model must be a MoGe-3 configuration; bundles with a MoGe-1 model must be converted again")
}

// readIndex returns the shard of each tensor.
func readIndex(base string) (map[string]string, error) {
	path := filepath.Join(base, bundleIndex)
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := readJSON(path, &index); err != nil {
		return nil, err
	}
	for name, shard := range index.WeightMap {
		if !filepath.IsLocal(shard) || strings.ContainsAny(shard, `/\:`) || shard == "." {
			return nil, &FormatError{Path: path, Tensor: name,
				Reason: fmt.Sprintf("shard %.128q: shards must be plain file names in the bundle folder", shard)}
		}
	}
	return index.WeightMap, nil
}

// openShards maps the shards of an index and returns all their tensors.
func openShards(base string, index map[string]string) (all *Set, err error) {
	shards := slices.Compact(slices.Sorted(maps.Values(index)))
	if len(shards) > maxShards {
		return nil, &FormatError{Path: base, Reason: fmt.Sprintf("%d shards are too many", len(shards))}
	}
	all = &Set{tensors: make(map[string]Tensor)}
	defer func() {
		if err != nil {
			_ = all.Close()
		}
	}()
	diff := &MismatchError{}
	for _, shard := range shards {
		set, err := OpenSafetensors(filepath.Join(base, shard))
		if errors.Is(err, fs.ErrNotExist) {
			return all, &FormatError{Path: base, Reason: fmt.Sprintf("shard %s not found", shard), Err: ErrMissing}
		}
		if err != nil {
			return all, err
		}
		all.closers = append(all.closers, set)
		for name, t := range set.tensors {
			if _, twice := all.tensors[name]; twice {
				return all, &FormatError{Path: base, Tensor: name, Reason: "duplicate tensor name across shards"}
			}
			if all.tensors[name] = t; index[name] == "" {
				diff.Unexpected = append(diff.Unexpected, fmt.Sprintf("%s in %s", name, shard))
			} else if index[name] != shard {
				diff.Missing = append(diff.Missing, fmt.Sprintf("%s in %s (it is in %s)", name, index[name], shard))
			}
		}
	}
	for name, shard := range index {
		if _, ok := all.tensors[name]; !ok {
			diff.Missing = append(diff.Missing, fmt.Sprintf("%s in %s", name, shard))
		}
	}
	if err := diff.orNil(); err != nil {
		return all, &FormatError{Path: base, Reason: "shards do not hold what " + bundleIndex + " says", Err: err}
	}
	return all, nil
}

// splitBundle divides the tensors among the components and gives them their official names and layouts.
func splitBundle(all *Set, depth map[string]any) (map[string]*Set, error) {
	diff := &MismatchError{}
	sets := make(map[string]*Set)
	claimed := 0
	for component, prefix := range bundlePrefixes {
		set := all.Sub(prefix)
		claimed += set.Len()
		if set.Len() == 0 {
			if component != Depth {
				diff.Missing = append(diff.Missing, prefix+"*")
			}
			continue
		}
		for name, t := range set.tensors {
			set.tensors[name] = toOfficial(component, name, t)
		}
		sets[component] = set
	}
	switch set := sets[Depth]; {
	case set == nil && depth != nil:
		diff.Missing = append(diff.Missing, bundlePrefixes[Depth]+"*")
	case set != nil && depth == nil:
		return nil, faultf("depth_model has tensors, but %s has no configuration for it", bundleConfig)
	case set != nil:
		set.ModelConfig = depth
	}
	if claimed == all.Len() && len(sets) > 0 {
		return sets, nil // a bundle without some components is one
	}
	for _, name := range all.Names() {
		if !slices.ContainsFunc(components, func(c string) bool { return strings.HasPrefix(name, bundlePrefixes[c]) }) {
			diff.Unexpected = append(diff.Unexpected, name)
		}
	}
	return nil, &FormatError{Reason: "not the tensors of this model", Err: diff.orNil()}
}

// Layouts of the bundle: its tensor is the official one, transposed by these axes.
var (
	conv2d          = []int{0, 2, 3, 1}    // [out, in, h, w] to [out, h, w, in]
	conv2dTranspose = []int{1, 2, 3, 0}    // [in, out, h, w] to [out, h, w, in]
	conv3d          = []int{0, 2, 3, 4, 1} // [out, in, x, y, z] to [out, x, y, z, in]
)

// transposedConv is the name of the weight of a transposed convolution of the depth model.
var transposedConv = regexp.MustCompile(`\.resamplers\.\d+\.0\.weight$`)

// toOfficial gives a tensor of a bundle, by its official name, its official layout. Data is transposed when it is read.
// The sparse convolutions have one layout in both.
func toOfficial(component, name string, t Tensor) Tensor {
	switch rank := len(t.Shape); {
	case rank == 5 && component == SSDecoder:
		t.axes = conv3d
	case rank != 4:
		return t
	case component == Depth && transposedConv.MatchString(name):
		t.axes = conv2dTranspose
	case strings.HasSuffix(name, "patch_embed.proj.weight"),
		component == Depth && strings.HasSuffix(name, ".weight"),
		component == Depth && (name == "encoder.image_mean" || name == "encoder.image_std"):
		t.axes = conv2d
	default:
		return t
	}
	stored := t.Shape
	t.Shape = make([]int, len(stored))
	for i, axis := range t.axes {
		t.Shape[axis] = stored[i]
	}
	return t
}
