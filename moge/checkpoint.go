// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"fmt"
	"math"

	"github.com/gomlx3d/image3d/dinov2"
	"github.com/gomlx3d/image3d/weights"
)

// ConfigFromMap reads the configuration that lies beside the weights of a released checkpoint: the "model_config" entry
// of a PyTorch file, or the JSON of the MLX port. Lists are []any and numbers any integer or float type. set, if it is not
// nil, holds the weights.
//
// A text as the encoder is MoGe-1. Otherwise a model_type "moge3" or a refiner is MoGe-3, and the rest MoGe-2. What the
// entry leaves out has the default of the original class; for MoGe-3, whose original is the MLX port, that is the
// released value. Keys without a meaning here are ignored, as in the original.
//
// The encoder's name gives the number of heads; its width, depth and position table are those of the weights.
func ConfigFromMap(m map[string]any, set *weights.Set) (Config, error) {
	r := &reader{m: m, err: new(error)}
	cfg := Config{Version: 1}
	if _, nested := m["encoder"].(map[string]any); nested || m["model_type"] == "moge3" {
		cfg.Version = 2
		if m["model_type"] == "moge3" || m["refiner"] != nil {
			cfg.Version = 3
		}
	}
	if cfg.Version == 1 {
		r.trunk(&cfg, set)
	} else {
		r.pyramid(&cfg, set)
	}
	if *r.err != nil {
		return Config{}, *r.err
	}
	return cfg, cfg.Validate()
}

// trunk reads a configuration of MoGe-1.
func (r *reader) trunk(cfg *Config, set *weights.Set) {
	cfg.Trunk = TrunkConfig{
		ProjectDim:    r.integer("dim_proj", 512),
		HiddenRatio:   r.integer("dim_times_res_block_hidden", 1),
		ResBlocks:     r.integer("num_res_blocks", 1),
		LastResBlocks: r.integer("last_res_blocks", 0),
		LastChannels:  r.integer("last_conv_channels", 32),
		LastKernel:    r.integer("last_conv_size", 1),
	}
	cfg.Remap = Remap(r.text("remap_output", string(RemapLinear)))
	cfg.MaskThreshold = float32(r.number("mask_threshold", 0.5))
	copy(cfg.Trunk.UpsampleDims[:], r.integers("dim_upsample", 3, 256, 128, 128))
	cfg.MinTokens, cfg.MaxTokens = r.tokens(1200, 2500)
	if norm := r.text("res_block_norm", "group_norm"); norm != "group_norm" {
		r.fail("res_block_norm", norm)
	}
	cfg.Backbone = r.backbone("encoder", "dinov2_vitb14", set, "backbone.")
	cfg.Layers = r.layers(cfg.Backbone.Depth)
}

// backbone reads the name of an encoder and sizes it as its weights are. What does not fit together is found when the
// weights are checked.
func (r *reader) backbone(key, missing string, set *weights.Set, prefix string) dinov2.Config {
	name := r.text(key, missing)
	b, err := dinov2.Named(name)
	if err != nil {
		r.fail(key, name)
		return b
	}
	if set == nil {
		return b
	}
	if table, ok := set.Get(prefix + "pos_embed"); ok && len(table.Shape) == 3 {
		b.EmbedDim = table.Shape[2]
		b.Grid = int(math.Sqrt(float64(table.Shape[1] - 1)))
	}
	for b.Depth = 0; ; b.Depth++ {
		if _, ok := set.Get(fmt.Sprintf("%sblocks.%d.norm1.weight", prefix, b.Depth)); !ok {
			return b
		}
	}
}

// reader reads entries of a map of unknown origin and keeps the first error, its own or that of a map within.
type reader struct {
	m    map[string]any
	path string
	err  *error
}

func (r *reader) fail(key string, value any) {
	if *r.err == nil {
		*r.err = fmt.Errorf("%w: %s%s is %.128s (%T)", ErrConfig, r.path, key, fmt.Sprint(value), value)
	}
}

// within reads the map that a map holds. There is none if the entry is absent or null.
func (r *reader) within(key string) (in *reader, ok bool) {
	value := r.m[key]
	if value == nil {
		return nil, false
	}
	m, ok := value.(map[string]any)
	if !ok {
		r.fail(key, value)
	}
	return &reader{m: m, path: r.path + key + ".", err: r.err}, true
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
func (r *reader) tokens(missing ...int) (lo, hi int) {
	if _, ok := r.m["trained_area_range"]; ok {
		area := r.integers("trained_area_range", 2, 0, 0)
		return area[0] / (patch * patch), area[1] / (patch * patch)
	}
	tokens := r.integers("num_tokens_range", 2, missing...)
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
