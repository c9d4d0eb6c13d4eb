// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"sync"
)

// The components of a checkpoint.
const (
	SSGenerator           = "ss_generator"
	SSConditionEmbedder   = "ss_condition_embedder"
	SLATGenerator         = "slat_generator"
	SLATConditionEmbedder = "slat_condition_embedder"
	SSDecoder             = "ss_decoder"
	SLATDecoderGS         = "slat_decoder_gs"   // 32 Gaussians a voxel
	SLATDecoderGS4        = "slat_decoder_gs_4" // 4 Gaussians a voxel
	SLATDecoderMesh       = "slat_decoder_mesh"
	Depth                 = "depth" // a MoGe model
)

// components are all of the above, in order.
var components = []string{SSGenerator, SSConditionEmbedder, SLATGenerator, SLATConditionEmbedder,
	SSDecoder, SLATDecoderGS, SLATDecoderGS4, SLATDecoderMesh, Depth}

// Layout is the form of a checkpoint folder.
type Layout string

const (
	Official Layout = "official" // PyTorch files and YAML, of facebook/sam-3d-objects
	MLX      Layout = "mlx"      // safetensors shards and config.json, of the MLX port
)

// Checkpoint is a folder with the components of a model. Whatever the folder's layout, components have the official
// tensor names and axis orders; their precision is that of the files.
//
// A Checkpoint is safe for concurrent use.
type Checkpoint struct {
	Dir    string // the folder that holds the files
	Layout Layout

	// YAML holds the configuration trees of the official layout: "pipeline", "ss_generator", "slat_generator",
	// "ss_decoder", "slat_decoder_gs", "slat_decoder_gs_4" and "slat_decoder_mesh". The trees of the condition embedders
	// are inside those of their generators. A tree is nil where the folder has no such file.
	YAML map[string]map[string]any
	// Config is config.json of the MLX layout.
	Config map[string]any

	files map[string]partedFile // by component, not opened yet; official layout only

	mu      sync.Mutex
	sets    map[string]*Set // by component
	closers []io.Closer
	closed  bool
}

// OpenCheckpoint opens a folder of either layout, which its files tell. The files may be in a subfolder "checkpoints",
// as in the official repository. The error matches ErrMissing if there are none.
func OpenCheckpoint(dir string) (*Checkpoint, error) {
	if _, ok := findFolder(dir, bundleIndex); ok {
		return OpenBundle(dir)
	}
	return OpenOfficial(dir)
}

// findFolder returns dir, or its subfolder "checkpoints", whichever holds one of the files.
func findFolder(dir string, files ...string) (string, bool) {
	for _, base := range []string{dir, filepath.Join(dir, "checkpoints")} {
		if slices.ContainsFunc(files, func(file string) bool { return isFile(filepath.Join(base, file)) }) {
			return base, true
		}
	}
	return "", false
}

// Has reports whether the folder has a file for the component.
func (c *Checkpoint) Has(component string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sets[component] != nil || c.files[component].path != ""
}

// Component returns the tensors of a component, opening its file the first time. They belong to c: closing the Set
// does nothing. The error matches ErrMissing if the folder has no file for it, and ErrFormat if the file is not what
// it should be.
func (c *Checkpoint) Component(name string) (*Set, error) {
	if !slices.Contains(components, name) {
		return nil, fmt.Errorf("weights: no component is called %q; there are %v", name, components)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	if set := c.sets[name]; set != nil {
		return set, nil
	}
	file := c.files[name]
	if file.path == "" {
		return nil, fmt.Errorf("weights: component %s: %s not found in %s: %w", name, c.usualFile(name), c.Dir, ErrMissing)
	}
	sets, closer, err := file.open()
	if err != nil {
		return nil, err
	}
	c.closers = append(c.closers, closer)
	maps.Copy(c.sets, sets)
	return c.sets[name], nil
}

// usualFile says where a component usually is.
func (c *Checkpoint) usualFile(component string) string {
	if c.Layout == MLX {
		return "a shard with tensors " + bundlePrefixes[component] + "*"
	}
	for _, file := range officialFiles {
		if slices.ContainsFunc(file.parts, func(p officialPart) bool { return p.component == component }) {
			return file.stem + checkpointExtensions[0]
		}
	}
	return depthFile
}

// Close releases the files. Components must not be used afterwards.
func (c *Checkpoint) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var first error
	for _, closer := range c.closers {
		if err := closer.Close(); err != nil && first == nil {
			first = err
		}
	}
	c.closers, c.sets, c.files, c.closed = nil, nil, nil, true
	return first
}
