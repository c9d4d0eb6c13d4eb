// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"fmt"
	"math"

	"github.com/gomlx3d/image3d/dinov2"
	"github.com/gomlx3d/image3d/weights"
)

// ConfigFromMap reads the "model_config" entry of a released checkpoint, with the weights that lie beside it ("model").
// Lists are []any and numbers any integer or float type.
//
// What the entry leaves out has the default of the original class: encoder dinov2_vitb14, intermediate_layers 4,
// dim_proj 512, dim_upsample (256, 128, 128), dim_times_res_block_hidden 1, num_res_blocks 1, last_res_blocks 0,
// last_conv_channels 32, last_conv_size 1, remap_output linear, mask_threshold 0.5. The number of tokens is
// num_tokens_range (default 1200 to 2500) or the older trained_area_range in pixels. Keys without a meaning here are
// ignored, as in the original.
//
// The encoder's name gives the number of heads; its width, depth and position table are those of the weights, if set is
// not nil.
func ConfigFromMap(m map[string]any, set *weights.Set) (Config, error) {
	r := reader{m: m}
	cfg := Config{
		ProjectDim:    r.integer("dim_proj", 512),
		HiddenRatio:   r.integer("dim_times_res_block_hidden", 1),
		ResBlocks:     r.integer("num_res_blocks", 1),
		LastResBlocks: r.integer("last_res_blocks", 0),
		LastChannels:  r.integer("last_conv_channels", 32),
		LastKernel:    r.integer("last_conv_size", 1),
		Remap:         Remap(r.text("remap_output", string(RemapLinear))),
		MaskThreshold: float32(r.number("mask_threshold", 0.5)),
	}
	copy(cfg.UpsampleDims[:], r.integers("dim_upsample", 3, 256, 128, 128))
	cfg.MinTokens, cfg.MaxTokens = r.tokens()
	if norm := r.text("res_block_norm", "group_norm"); norm != "group_norm" {
		r.fail("res_block_norm", norm)
	}
	backbone, err := dinov2.Named(r.text("encoder", "dinov2_vitb14"))
	if err != nil {
		return Config{}, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	cfg.Backbone = resized(backbone, set)
	cfg.Layers = r.layers(cfg.Backbone.Depth)
	if r.err != nil {
		return Config{}, r.err
	}
	return cfg, cfg.Validate()
}

// resized gives a backbone the width, the depth and the position table of its weights. What does not fit together is
// found when the weights are checked.
func resized(b dinov2.Config, set *weights.Set) dinov2.Config {
	if set == nil {
		return b
	}
	if table, ok := set.Get("backbone.pos_embed"); ok && len(table.Shape) == 3 {
		b.EmbedDim = table.Shape[2]
		b.Grid = int(math.Sqrt(float64(table.Shape[1] - 1)))
	}
	for b.Depth = 0; ; b.Depth++ {
		if _, ok := set.Get(fmt.Sprintf("backbone.blocks.%d.norm1.weight", b.Depth)); !ok {
			return b
		}
	}
}

// reader reads entries of a map of unknown origin and keeps the first error.
type reader struct {
	m   map[string]any
	err error
}

func (r *reader) fail(key string, value any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s is %v (%T)", ErrConfig, key, value, value)
	}
}

func (r *reader) text(key, missing string) string {
	value, ok := r.m[key]
	if !ok {
		return missing
	}
	text, ok := value.(string)
	if !ok {
		r.fail(key, value)
	}
	return text
}

func (r *reader) number(key string, missing float64) float64 {
	value, ok := r.m[key]
	if !ok {
		return missing
	}
	number, ok := toFloat(value)
	if !ok {
		r.fail(key, value)
	}
	return number
}

func (r *reader) integer(key string, missing int) int {
	value, ok := r.m[key]
	if !ok {
		return missing
	}
	number, ok := toInt(value)
	if !ok {
		r.fail(key, value)
	}
	return number
}

// integers reads a list of n integers, or of any number if n is -1.
func (r *reader) integers(key string, n int, missing ...int) []int {
	value, ok := r.m[key]
	if !ok {
		return missing
	}
	list, ok := value.([]any)
	if !ok || n >= 0 && len(list) != n {
		r.fail(key, value)
		return missing
	}
	out := make([]int, len(list))
	for i, item := range list {
		if out[i], ok = toInt(item); !ok {
			r.fail(key, value)
		}
	}
	return out
}

// layers reads the choice of blocks: a list of indices, or the number of blocks at the end.
func (r *reader) layers(depth int) []int {
	const key = "intermediate_layers"
	if _, ok := r.m[key].([]any); ok {
		return r.integers(key, -1)
	}
	n := r.integer(key, 4)
	if n < 1 || n > depth {
		r.fail(key, n)
		return nil
	}
	out := make([]int, n)
	for i := range out {
		out[i] = depth - n + i
	}
	return out
}

// tokens reads the range of the number of patches.
func (r *reader) tokens() (lo, hi int) {
	if _, ok := r.m["trained_area_range"]; ok {
		area := r.integers("trained_area_range", 2, 0, 0)
		return area[0] / (patch * patch), area[1] / (patch * patch)
	}
	tokens := r.integers("num_tokens_range", 2, 1200, 2500)
	return tokens[0], tokens[1]
}

// toInt returns an integer, also one that is held as a float.
func toInt(value any) (int, bool) {
	number, ok := toFloat(value)
	if !ok || number != math.Trunc(number) || math.Abs(number) > 1<<31 {
		return 0, false
	}
	return int(number), true
}

func toFloat(value any) (float64, bool) {
	switch v := value.(type) {
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	case float64:
		return v, true
	case float32:
		return float64(v), true
	}
	return 0, false
}
