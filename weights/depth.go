// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// depthType is what configurations of the MLX port call MoGe-3.
const depthType = "moge3"

// The file names of a depth model by itself.
const (
	depthTorch       = "model.pt"
	depthSafetensors = "model.safetensors"
)

// OpenDepth opens a depth model that lies by itself: a file, a folder, or a repository owner/name[@revision] of the
// model hub.
//
// A file is a PyTorch archive with "model_config" and "model", or safetensors with a config.json beside. A folder holds
// model.pt, or model.safetensors and config.json, or is a checkpoint of either layout that has a depth model. Whatever
// the layout of the file, tensors get their official axis orders; ModelConfig is set.
//
// Errors match ErrMissing, ErrFormat or those of Resolve.
func OpenDepth(ctx context.Context, source string, hub HubOptions) (*Set, error) {
	if info, err := os.Stat(source); err == nil && !info.IsDir() {
		return openDepthFile(source)
	}
	if hub.Want == nil {
		hub.Want = func(name string) bool {
			return slices.Contains([]string{depthTorch, depthSafetensors, bundleConfig}, path.Base(name)) && path.Dir(name) == "."
		}
	}
	folder, err := Resolve(ctx, source, hub)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{depthTorch, depthSafetensors} {
		if file := filepath.Join(folder, name); isFile(file) {
			return openDepthFile(file)
		}
	}
	c, err := OpenCheckpoint(folder)
	if errors.Is(err, ErrMissing) {
		return nil, fmt.Errorf("weights: %s holds neither %s nor %s nor a checkpoint with a depth model: %w", folder, depthTorch,
			depthSafetensors, ErrMissing)
	}
	if err != nil {
		return nil, err
	}
	set, err := c.Component(Depth)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return &Set{ModelConfig: set.ModelConfig, tensors: set.tensors, closers: []io.Closer{c}}, nil
}

// openDepthFile opens one file, whose configuration is in it or beside it.
func openDepthFile(file string) (*Set, error) {
	set, err := Open(file)
	if err != nil {
		return nil, err
	}
	if set.ModelConfig == nil {
		if err := readJSON(filepath.Join(filepath.Dir(file), bundleConfig), &set.ModelConfig); err != nil {
			_ = set.Close()
			return nil, fmt.Errorf("weights: %s holds no model_config: %w", file, err)
		}
	}
	return OfficialDepth(set), nil
}

// OfficialDepth gives a depth model in the layout of the MLX port, which the axes of its image_mean tell, the official
// layout. Any other is returned as it is. The files belong to what is returned.
func OfficialDepth(set *Set) *Set {
	mean, ok := set.tensors["encoder.image_mean"]
	if !ok || !slices.Equal(mean.Shape, []int{1, 1, 1, 3}) {
		return set
	}
	official := &Set{ModelConfig: set.ModelConfig, tensors: make(map[string]Tensor), closers: set.closers}
	for name, t := range set.tensors {
		official.tensors[name] = toOfficial(Depth, name, t)
	}
	if official.ModelConfig != nil && official.ModelConfig["model_type"] == nil {
		official.ModelConfig = withDepthType(official.ModelConfig)
	}
	return official
}

// withDepthType returns a configuration of the MLX port that says which model it is of.
func withDepthType(config map[string]any) map[string]any {
	config = maps.Clone(config)
	config["model_type"] = depthType
	return config
}
