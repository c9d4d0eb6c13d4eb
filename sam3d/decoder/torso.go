// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package decoder

import (
	"context"
	"errors"
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/sparse"
	"github.com/gomlx3d/image3d/weights"
)

// ErrNonFinite is wrapped when a latent holds a value that is NaN or infinite.
var ErrNonFinite = errors.New("decoder: latent is not finite")

// TorsoConfig holds the hyperparameters that the Gaussian and the mesh decoder share. Comments give the released values
// and, where they differ, the keys of the official configuration.
//
// Of the variants of the original there is the released one: a position embedding ("pe_mode" ape), attention in windows
// that every other block shifts ("attn_mode" swin), no norm of queries and keys ("qk_rms_norm" false). The dtype of the
// original's blocks ("use_fp16") is no property of the model here.
type TorsoConfig struct {
	Resolution     int     // of the grid of voxels; 64
	LatentChannels int     // 8
	Width          int     // channels of the blocks ("model_channels"); 768
	Heads          int     // of the attention ("num_heads"); 12
	Blocks         int     // "num_blocks"; 12
	MLPRatio       float64 // hidden over outer channels of the perceptrons; 4
	Window         int     // edge of the windows ("window_size"); 8
}

// ReleasedTorso returns the hyperparameters of the released checkpoints.
func ReleasedTorso() TorsoConfig {
	return TorsoConfig{Resolution: 64, LatentChannels: 8, Width: 768, Heads: 12, Blocks: 12, MLPRatio: 4, Window: 8}
}

// validate reports the first hyperparameter that no model can have. The error wraps ErrConfig.
func (cfg TorsoConfig) validate(model string, maxResolution int) error {
	for _, v := range []struct {
		name       string
		value, max int
	}{
		{"resolution", cfg.Resolution, maxResolution}, {"latent channels", cfg.LatentChannels, 1 << 16},
		{"width", cfg.Width, 1 << 16}, {"heads", cfg.Heads, cfg.Width}, {"blocks", cfg.Blocks, 1 << 10},
		{"hidden width", cfg.hidden(), 1 << 20}, {"window", cfg.Window, sparse.MaxGrid},
	} {
		if v.value < 1 || v.value > v.max {
			return fmt.Errorf("%w: %s: %s %d, must be 1 to %d", ErrConfig, model, v.name, v.value, v.max)
		}
	}
	if cfg.Width%cfg.Heads != 0 {
		return fmt.Errorf("%w: %s: width %d is no multiple of %d heads", ErrConfig, model, cfg.Width, cfg.Heads)
	}
	return nil
}

func (cfg TorsoConfig) hidden() int { return int(float64(cfg.Width) * cfg.MLPRatio) }

// spec lists the parameters of the torso, and of an output layer that many channels lead to.
func (cfg TorsoConfig) spec(channels, out int) weights.Spec {
	spec := make(weights.Spec)
	linear := func(name string, in, out int) {
		spec[name+".weight"] = weights.Param{Shape: []int{out, in}}
		spec[name+".bias"] = weights.Param{Shape: []int{out}}
	}
	linear("input_layer", cfg.LatentChannels, cfg.Width)
	linear("out_layer", channels, out)
	for i := range cfg.Blocks {
		block := fmt.Sprintf("blocks.%d.", i)
		linear(block+"attn.to_qkv", cfg.Width, 3*cfg.Width)
		linear(block+"attn.to_out", cfg.Width, cfg.Width)
		linear(block+"mlp.mlp.0", cfg.Width, cfg.hidden())
		linear(block+"mlp.mlp.2", cfg.hidden(), cfg.Width)
	}
	return spec
}

func (cfg TorsoConfig) build(backend compute.Backend) *sparse.Torso {
	return sparse.NewTorso(backend, sparse.TorsoConfig{
		Resolution: cfg.Resolution, Width: cfg.Width, Heads: cfg.Heads, Blocks: cfg.Blocks, Window: cfg.Window,
	})
}

// check reports arguments of a call that are not what the model takes.
func (cfg TorsoConfig) check(coords *sparse.Coords, latents []float32) error {
	if coords == nil || len(coords.Voxels) == 0 {
		return fmt.Errorf("%w to decode", ErrNoVoxels)
	}
	if coords.Grid > cfg.Resolution {
		return fmt.Errorf("%w: voxels on a grid of %d, the model's has %d", ErrInput, coords.Grid, cfg.Resolution)
	}
	if n := len(coords.Voxels); len(latents) != n*cfg.LatentChannels {
		return fmt.Errorf("%w: %d values for %d voxels of %d channels", ErrInput, len(latents), n, cfg.LatentChannels)
	}
	for i, v := range latents {
		if v-v != 0 {
			return fmt.Errorf("%w: channel %d of voxel %d is %g", ErrNonFinite, i%cfg.LatentChannels, i/cfg.LatentChannels, v)
		}
	}
	return nil
}

// run computes the features of voxels.
//
//	latents [voxels, LatentChannels], checked
//	out     [N, Width], which belongs to the caller
func (cfg TorsoConfig) run(ctx context.Context, backend compute.Backend, torso *sparse.Torso, coords *sparse.Coords, latents []float32) (*tensors.Tensor, error) {
	x, err := coords.Layout.UploadFeatures(backend, latents, cfg.LatentChannels)
	if err != nil {
		return nil, fmt.Errorf("decoder: %w", err)
	}
	defer nn.Free(x)
	return torso.Run(ctx, coords, x)
}
