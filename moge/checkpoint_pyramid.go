// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"slices"

	"github.com/gomlx3d/image3d/weights"
)

// pyramid reads a configuration of MoGe-2 or MoGe-3.
func (r *reader) pyramid(cfg *Config, set *weights.Set) {
	released := Config{Remap: RemapLinear}
	if cfg.Version == 3 {
		released = V3()
	}
	cfg.MaskThreshold = 0.5
	cfg.Remap = released.Remap
	if cfg.Version == 2 {
		cfg.Remap = Remap(r.text("remap_output", string(RemapLinear)))
	}
	cfg.MinTokens, cfg.MaxTokens = r.tokens(1200, 3600)
	r.encoder(cfg, released, set)
	p := &cfg.Pyramid
	p.Neck = r.stack("neck", released.Pyramid.Neck)
	p.Points = r.stack("points_head", released.Pyramid.Points)
	p.Mask = r.head("mask_head", released.Pyramid.Mask)
	p.Normal = r.head("normal_head", released.Pyramid.Normal)
	if scale, ok := r.within("scale_head"); ok {
		p.ScaleDims = scale.integers("dims", -1)
	} else if _, null := r.m["scale_head"]; !null {
		p.ScaleDims = released.Pyramid.ScaleDims
	}
	if cfg.Version == 3 {
		cfg.Refiner = r.refiner(p.FeatureDim + uvDim)
	}
}

// encoder reads the part about the encoder. The MLX port writes the sizes of a backbone beside its name.
func (r *reader) encoder(cfg *Config, released Config, set *weights.Set) {
	e, ok := r.within("encoder")
	if !ok {
		e = &reader{path: "encoder.", err: r.err}
	}
	b := e.backbone("backbone", "dinov2_vitl14", set, "encoder.backbone.")
	b.EmbedDim, b.Depth = e.integer("embed_dim", b.EmbedDim), e.integer("depth", b.Depth)
	b.NumHeads = e.integer("num_heads", b.NumHeads)
	b.MLPRatio = e.number("mlp_ratio", b.MLPRatio)
	b.NormEpsilon = e.number("layer_norm_eps", b.NormEpsilon)
	b.InterpolateOffset = e.number("interpolate_offset", b.InterpolateOffset)
	b.Grid = e.integer("img_size", b.Grid*patch) / patch
	cfg.Backbone = b
	cfg.Layers = released.Layers
	if _, given := e.m["intermediate_layers"]; given || cfg.Layers == nil {
		cfg.Layers = e.layers(b.Depth)
	}
	cfg.Pyramid.FeatureDim = e.integer("dim_out", released.Pyramid.FeatureDim)
}

// head reads a head that there may be.
func (r *reader) head(key string, released *StackConfig) *StackConfig {
	if _, given := r.m[key]; !given {
		return released
	}
	if r.m[key] == nil {
		return nil
	}
	c := r.stack(key, StackConfig{})
	return &c
}

// stack reads a stack. A single value counts for every level, and null for there being none.
func (r *reader) stack(key string, released StackConfig) StackConfig {
	s, ok := r.within(key)
	if !ok {
		return released
	}
	c := StackConfig{
		Channels:    s.integers("dim_res_blocks", -1),
		HiddenRatio: s.integer("dim_times_res_block_hidden", 1),
		InNorm:      Norm(s.text("res_block_in_norm", string(NormLayer))),
		HiddenNorm:  Norm(s.text("res_block_hidden_norm", string(NormGroup))),
	}
	levels := min(len(c.Channels), maxLevels)
	c.In, c.Out = s.perLevel("dim_in", levels, 0), s.perLevel("dim_out", levels, 0)
	c.Blocks = s.perLevel("num_res_blocks", levels, 1)
	c.Resamplers = s.resamplers(levels - 1)
	if activation := s.text("activation", "relu"); activation != "relu" {
		s.fail("activation", activation)
	}
	return c
}

// perLevel reads a list of n integers, of which null is 0, or one integer for all of them.
func (r *reader) perLevel(key string, n, missing int) []int {
	value, given := r.m[key]
	list, ok := value.([]any)
	if !ok {
		single := missing
		if given && value != nil {
			single = r.integer(key, missing)
		} else if given {
			single = 0
		}
		return slices.Repeat([]int{single}, max(n, 0))
	}
	out := make([]int, len(list))
	for i, item := range list {
		if item != nil {
			if out[i], ok = toInt(item); !ok {
				r.fail(key, value)
			}
		}
	}
	return out
}

// resamplers reads a list of n resamplers, or one for all of them.
func (r *reader) resamplers(n int) []Resampler {
	const key = "resamplers"
	list, ok := r.m[key].([]any)
	if !ok {
		return slices.Repeat([]Resampler{Resampler(r.text(key, ""))}, max(n, 0))
	}
	out := make([]Resampler, len(list))
	for i, item := range list {
		name, ok := item.(string)
		if !ok {
			r.fail(key, item)
		}
		out[i] = Resampler(name)
	}
	return out
}

// refiner reads the refiner, which null takes away.
func (r *reader) refiner(featureDim int) *RefinerConfig {
	c := V3().Refiner
	c.Resolution = r.integer("refiner_depth_resolution", c.Resolution)
	in, ok := r.within("refiner")
	if !ok {
		if _, null := r.m["refiner"]; null {
			return nil
		}
		return c
	}
	c.FeatureDim = in.integer("encoder_channels", featureDim)
	c.Channels = in.integers("model_channels", -1, c.Channels...)
	levels := len(c.Channels)
	if levels > maxLevels {
		in.fail("model_channels", levels)
		return c
	}
	c.DownBlocks = in.perLevel("encoder_blocks_per_level", levels, 1)
	c.UpBlocks = in.perLevel("decoder_blocks_per_level", levels-1, 1)
	c.BottleneckBlocks = in.integer("bottleneck_blocks", c.BottleneckBlocks)
	for key, want := range map[string]int{"in_channels": pointDim, "out_channels": 1, "encoder_downsample": 1 << max(levels-1, 0)} {
		if got := in.integer(key, want); got != want {
			in.fail(key, got)
		}
	}
	for _, factor := range in.integers("downsample_factors", -1) {
		if factor != 2 {
			in.fail("downsample_factors", factor)
		}
	}
	return c
}
