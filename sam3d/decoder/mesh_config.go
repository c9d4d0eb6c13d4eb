// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package decoder

import (
	"fmt"

	"github.com/gomlx3d/image3d/flexicubes"
	"github.com/gomlx3d/image3d/weights"
)

// MeshConfig holds the hyperparameters of MeshDecoder. Comments give the released values.
type MeshConfig struct {
	TorsoConfig

	Groups int  // of the norms of the upsampling blocks, which have as many as channels where those are fewer; 32
	Color  bool // vertices have colours ("representation_config.use_color"); true
}

// ReleasedMesh returns the hyperparameters of slat_decoder_mesh.
func ReleasedMesh() MeshConfig {
	return MeshConfig{TorsoConfig: ReleasedTorso(), Groups: 32, Color: true}
}

// meshLevels is the number of times that the mesh decoder doubles the resolution.
const meshLevels = 2

// Validate reports the first hyperparameter that no model can have. The error wraps ErrConfig.
func (cfg MeshConfig) Validate() error {
	if err := cfg.validate("mesh", flexicubes.MaxResolution>>meshLevels); err != nil {
		return err
	}
	if cfg.Width%8 != 0 {
		return fmt.Errorf("%w: mesh: width %d is no multiple of 8", ErrConfig, cfg.Width)
	}
	if cfg.Groups < 1 {
		return fmt.Errorf("%w: mesh: %d groups", ErrConfig, cfg.Groups)
	}
	for level := range meshLevels + 1 {
		if channels := cfg.channels(level); channels%groupsOf(channels, cfg.Groups) != 0 {
			return fmt.Errorf("%w: mesh: %d channels do not divide into %d groups", ErrConfig, channels, cfg.Groups)
		}
	}
	return nil
}

// MeshResolution is the resolution of the grid that the mesh is extracted from.
func (cfg MeshConfig) MeshResolution() int { return cfg.Resolution << meshLevels }

// channels is the width after some levels.
func (cfg MeshConfig) channels(level int) int {
	return [meshLevels + 1]int{cfg.Width, cfg.Width / 4, cfg.Width / 8}[level]
}

// features is the number of outputs for each voxel of the finest grid, in the layout of flexicubes.Voxels.
func (cfg MeshConfig) features() int {
	if cfg.Color {
		return 101
	}
	return 53
}

// MeshSpec lists the parameters of a mesh decoder by their checkpoint names. The configuration must be valid.
func MeshSpec(cfg MeshConfig) weights.Spec {
	spec := cfg.spec(cfg.channels(meshLevels), cfg.features())
	for level := range meshLevels {
		spec.Add(fmt.Sprintf("upsample.%d.", level), subdivisionSpec(cfg.channels(level), cfg.channels(level+1)))
	}
	return spec
}

// subdivisionSpec lists the parameters of one upsampling block.
func subdivisionSpec(in, out int) weights.Spec {
	spec := make(weights.Spec)
	norm := func(name string, channels int) {
		spec[name+".weight"] = weights.Param{Shape: []int{channels}}
		spec[name+".bias"] = weights.Param{Shape: []int{channels}}
	}
	conv := func(name string, in, out, kernel int) {
		spec[name+".weight"] = weights.Param{Shape: []int{out, kernel, kernel, kernel, in}}
		spec[name+".bias"] = weights.Param{Shape: []int{out}}
	}
	norm("act_layers.0", in)
	conv("out_layers.0.conv", in, out, 3)
	norm("out_layers.1", out)
	conv("out_layers.3.conv", out, out, 3)
	if in != out {
		conv("skip_connection.conv", in, out, 1)
	}
	return spec
}
