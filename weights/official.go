// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxYAML bounds a YAML file; the released ones have less than 10 kB.
const maxYAML = 1 << 20

// officialPart says which tensors of a file make a component: those with the prefix, under the rest of their names.
type officialPart struct{ prefix, component string }

// officialFile is one file of the official layout. Every tensor must belong to a part.
type officialFile struct {
	stem  string
	parts []officialPart
}

// officialFiles are the files, by the name without extension. A part without a component is dropped: it is the
// structure decoder again, which was trained beside the generator.
var officialFiles = []officialFile{
	{"ss_generator", generatorParts(SSGenerator, SSConditionEmbedder)},
	{"slat_generator", generatorParts(SLATGenerator, SLATConditionEmbedder)},
	{"ss_decoder", []officialPart{{"", SSDecoder}}},
	{"slat_decoder_gs", []officialPart{{"", SLATDecoderGS}}},
	{"slat_decoder_gs_4", []officialPart{{"", SLATDecoderGS4}}},
	{"slat_decoder_mesh", []officialPart{{"", SLATDecoderMesh}}},
}

func generatorParts(generator, embedder string) []officialPart {
	return []officialPart{
		{"_base_models.generator.reverse_fn.backbone.", generator},
		{"_base_models.condition_embedder.", embedder},
		{"_base_models.decoder.", ""},
	}
}

// checkpointExtensions are those that a weight file may have, the preferred first.
var checkpointExtensions = []string{".ckpt", ".safetensors", ".pt"}

const (
	pipelineFile = "pipeline.yaml"
	depthFile    = "moge-vitl/model.pt"
)

// partedFile is a weight file with the components in it.
type partedFile struct {
	path  string
	parts []officialPart
}

// OpenOfficial opens a folder in the official layout, or one that has it in a subfolder "checkpoints": pipeline.yaml,
// a YAML and a weight file (.ckpt, .safetensors or .pt) for each generator and decoder, and moge-vitl/model.pt.
// File names in pipeline.yaml are obeyed if they stay in the folder; otherwise the error matches ErrFormat.
// Weight files are opened on first use.
func OpenOfficial(dir string) (*Checkpoint, error) {
	names := []string{pipelineFile}
	for _, file := range officialFiles {
		for _, extension := range checkpointExtensions {
			names = append(names, file.stem+extension)
		}
	}
	base, ok := findFolder(dir, names...)
	if !ok {
		return nil, fmt.Errorf("weights: %s holds neither an official checkpoint (%s, ss_generator.ckpt, ...) nor an MLX"+
			" bundle (%s): %w", dir, pipelineFile, bundleIndex, ErrMissing)
	}
	pipeline, err := readYAML(filepath.Join(base, pipelineFile))
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{Dir: base, Layout: Official, sets: make(map[string]*Set), files: make(map[string]partedFile)}
	c.YAML = map[string]map[string]any{"pipeline": pipeline}
	for _, file := range officialFiles {
		if c.YAML[file.stem], err = componentYAML(base, pipeline, file.stem); err != nil {
			return nil, err
		}
		named, err := pathIn(base, pipeline, file.stem+"_ckpt_path")
		if err != nil {
			return nil, err
		}
		candidates := []string{named}
		for _, extension := range checkpointExtensions {
			candidates = append(candidates, filepath.Join(base, file.stem+extension))
		}
		c.addFile(file.parts, candidates)
	}
	depth, err := depthPaths(base, pipeline)
	if err != nil {
		return nil, err
	}
	c.addFile([]officialPart{{"", Depth}}, depth)
	return c, nil
}

// addFile registers the first candidate that is a file.
func (c *Checkpoint) addFile(parts []officialPart, candidates []string) {
	i := slices.IndexFunc(candidates, isFile)
	if i < 0 {
		return
	}
	for _, part := range parts {
		if part.component != "" {
			c.files[part.component] = partedFile{candidates[i], parts}
		}
	}
}

// componentYAML reads the YAML file that pipeline names for a component, or the one of its name.
func componentYAML(base string, pipeline map[string]any, stem string) (map[string]any, error) {
	file, err := pathIn(base, pipeline, stem+"_config_path")
	if err != nil {
		return nil, err
	}
	if file == "" {
		file = filepath.Join(base, stem+".yaml")
	}
	return readYAML(file)
}

// pathIn returns the path that a tree holds under key, below base; "" if it holds none.
func pathIn(base string, tree map[string]any, key string) (string, error) {
	name, ok := tree[key].(string)
	if !ok {
		if tree[key] == nil {
			return "", nil
		}
		return "", &FormatError{Path: filepath.Join(base, pipelineFile), Reason: key + " is not a file name"}
	}
	if !filepath.IsLocal(name) || strings.ContainsAny(name, `\:`) {
		return "", &FormatError{Path: filepath.Join(base, pipelineFile),
			Reason: fmt.Sprintf("%s is %.128q: files must stay inside the checkpoint folder", key, name)}
	}
	return filepath.Join(base, name), nil
}

// depthPaths returns where the depth model may be: where pipeline says, which may be a file, a folder with model.pt or
// a repository of the hub, and in moge-vitl.
func depthPaths(base string, pipeline map[string]any) ([]string, error) {
	const key = "pretrained_model_name_or_path"
	depth, _ := pipeline["depth_model"].(map[string]any)
	model, _ := depth["model"].(map[string]any)
	named, err := pathIn(base, model, key)
	if err != nil {
		return nil, err
	}
	standard := filepath.Join(base, depthFile)
	if named == "" {
		return []string{standard}, nil
	}
	repository := filepath.Join(base, path.Base(filepath.ToSlash(named)), "model.pt")
	return []string{named, filepath.Join(named, "model.pt"), repository, standard}, nil
}

// readYAML reads a tree of YAML, or returns nil if there is no such file.
func readYAML(file string) (tree map[string]any, err error) {
	data, err := readSmall(file, maxYAML)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { // of the parser, which reports its own faults by panics
		if p := recover(); p != nil {
			tree, err = nil, &FormatError{Path: file, Reason: fmt.Sprintf("invalid YAML: %v", p)}
		}
	}()
	if err := yaml.Unmarshal(data, &tree); err != nil {
		return nil, &FormatError{Path: file, Reason: "invalid YAML", Err: err}
	}
	if tree == nil {
		tree = map[string]any{}
	}
	return tree, nil
}

// open returns the components of the file and what is to be closed.
func (f partedFile) open() (map[string]*Set, io.Closer, error) {
	set, err := Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("%w: %w", err, ErrMissing)
	}
	if err != nil {
		return nil, nil, err
	}
	parts, err := splitParts(set, f.parts)
	if err != nil {
		_ = set.Close()
		return nil, nil, at(f.path, err)
	}
	return parts, set, nil
}

// splitParts divides the tensors of a file among its parts.
func splitParts(set *Set, parts []officialPart) (map[string]*Set, error) {
	diff := &MismatchError{}
	for _, name := range set.Names() {
		if !slices.ContainsFunc(parts, func(p officialPart) bool { return strings.HasPrefix(name, p.prefix) }) {
			diff.Unexpected = append(diff.Unexpected, name)
		}
	}
	sets := make(map[string]*Set)
	for _, part := range parts {
		if part.component == "" {
			continue
		}
		sub := set.Sub(part.prefix)
		sub.ModelConfig = set.ModelConfig
		if sets[part.component] = sub; sub.Len() == 0 {
			diff.Missing = append(diff.Missing, part.prefix+"*")
		}
	}
	if err := diff.orNil(); err != nil {
		return nil, &FormatError{Reason: "not the tensors of this file", Err: err}
	}
	return sets, nil
}
