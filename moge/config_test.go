// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"maps"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/dinov2"
	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/weights"
)

func TestSpecOfReleasedModel(t *testing.T) {
	cfg := V1()
	require.NoError(t, cfg.Validate())
	spec := Spec(cfg)
	require.Len(t, spec, 421)
	total := 0
	for name, p := range spec {
		if name == "image_mean" || name == "image_std" {
			continue // not learned
		}
		size := 1
		for _, n := range p.Shape {
			size *= n
		}
		total += size
	}
	require.Equal(t, 314174020, total)
}

func TestValidate(t *testing.T) {
	for name, change := range map[string]func(c *Config){
		"zero":                 func(c *Config) { *c = Config{} },
		"backbone":             func(c *Config) { c.Backbone.NumHeads = 5 },
		"registers":            func(c *Config) { c.Backbone.Registers = 4 },
		"patch size":           func(c *Config) { c.Backbone.PatchSize = 16 },
		"no layers":            func(c *Config) { c.Layers = nil },
		"negative layer":       func(c *Config) { c.Layers = []int{-1, 2} },
		"layer too deep":       func(c *Config) { c.Layers = []int{24} },
		"layers descend":       func(c *Config) { c.Layers = []int{3, 2} },
		"layer twice":          func(c *Config) { c.Layers = []int{3, 3} },
		"projection":           func(c *Config) { c.Trunk.ProjectDim = 0 },
		"huge projection":      func(c *Config) { c.Trunk.ProjectDim = math.MaxInt },
		"upsample":             func(c *Config) { c.Trunk.UpsampleDims[1] = -1 },
		"hidden ratio":         func(c *Config) { c.Trunk.HiddenRatio = 0 },
		"hidden below a group": func(c *Config) { c.Trunk.UpsampleDims[2] = 8 },
		"hidden not in groups": func(c *Config) { c.Trunk.UpsampleDims[2] = 49 }, // 98 in 3 groups
		"blocks":               func(c *Config) { c.Trunk.ResBlocks = -1 },
		"last blocks":          func(c *Config) { c.Trunk.LastResBlocks = 1 << 20 },
		"last channels":        func(c *Config) { c.Trunk.LastChannels = 0 },
		"last hidden":          func(c *Config) { c.Trunk.LastResBlocks, c.Trunk.LastChannels = 1, 12 },
		"even kernel":          func(c *Config) { c.Trunk.LastKernel = 2 },
		"remap":                func(c *Config) { c.Remap = "tanh" },
		"no remap":             func(c *Config) { c.Remap = "" },
		"threshold":            func(c *Config) { c.MaskThreshold = float32(math.NaN()) },
		"tokens":               func(c *Config) { c.MinTokens = 0 },
		"token range":          func(c *Config) { c.MaxTokens = c.MinTokens - 1 },
		"too many tokens":      func(c *Config) { c.MaxTokens = 1 << 30 },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := V1()
			change(&cfg)
			require.ErrorIs(t, cfg.Validate(), ErrConfig)
			_, err := New(fixture.Backend(t), cfg, weights.NewSet(nil))
			require.ErrorIs(t, err, ErrConfig)
		})
	}
}

// released is the configuration stored in moge-vitl.
func released() map[string]any {
	return map[string]any{
		"encoder": "dinov2_vitl14", "remap_output": "exp", "output_mask": true, "split_head": true,
		"intermediate_layers": int64(4), "dim_upsample": []any{int64(256), int64(128), int64(64)},
		"dim_times_res_block_hidden": int64(2), "num_res_blocks": int64(2),
		"trained_area_range": []any{int64(250000), int64(500000)}, "last_conv_channels": int64(32), "last_conv_size": int64(1),
	}
}

func TestConfigFromMap(t *testing.T) {
	cfg, err := ConfigFromMap(released(), nil)
	require.NoError(t, err)
	require.Equal(t, V1(), cfg)

	m := released()
	delete(m, "trained_area_range")
	m["num_tokens_range"] = []any{int64(1200), 2500.0}
	m["intermediate_layers"] = []any{int64(5), int64(11)}
	cfg, err = ConfigFromMap(m, nil)
	require.NoError(t, err)
	require.Equal(t, []int{5, 11}, cfg.Layers)
	require.Equal(t, [2]int{1200, 2500}, [2]int{cfg.MinTokens, cfg.MaxTokens})
}

func TestConfigFromMapDefaults(t *testing.T) {
	cfg, err := ConfigFromMap(nil, nil)
	require.NoError(t, err)
	backbone, err := dinov2.Named("dinov2_vitb14")
	require.NoError(t, err)
	require.Equal(t, Config{
		Version: 1, Backbone: backbone, Layers: []int{8, 9, 10, 11},
		Trunk: TrunkConfig{
			ProjectDim: 512, UpsampleDims: [3]int{256, 128, 128}, HiddenRatio: 1, ResBlocks: 1, LastChannels: 32, LastKernel: 1,
		},
		Remap: RemapLinear, MaskThreshold: 0.5, MinTokens: 1200, MaxTokens: 2500,
	}, cfg)
}

func TestConfigFromMapErrors(t *testing.T) {
	for key, value := range map[string]any{
		"encoder":                    "dinov2_vitl14_reg",
		"remap_output":               true,
		"res_block_norm":             "layer_norm",
		"intermediate_layers":        int64(25),
		"dim_proj":                   "512",
		"dim_upsample":               []any{int64(256), int64(128)},
		"dim_times_res_block_hidden": 1.5,
		"num_res_blocks":             nil,
		"trained_area_range":         []any{"a", "b"},
		"last_conv_channels":         math.Inf(1),
		"last_conv_size":             math.NaN(),
		"mask_threshold":             []any{},
		"last_res_blocks":            int64(math.MinInt64),
	} {
		t.Run(key, func(t *testing.T) {
			m := maps.Clone(released())
			m[key] = value
			_, err := ConfigFromMap(m, nil)
			require.ErrorIs(t, err, ErrConfig)
		})
	}
}

// TestCheckpoint loads a file in the form of the released one.
func TestCheckpoint(t *testing.T) {
	set, err := weights.Open(filepath.Join(fixture.Dir(), "checkpoint_official_tiny", "moge-vitl", "model.pt"))
	require.NoError(t, err)
	defer func() { _ = set.Close() }()
	cfg, err := ConfigFromMap(set.ModelConfig, set)
	require.NoError(t, err)
	require.Equal(t, [3]int{16, 4, 5}, [3]int{cfg.Backbone.EmbedDim, cfg.Backbone.Depth, cfg.Backbone.Grid})
	model, err := New(fixture.Backend(t), cfg, set)
	require.NoError(t, err)
	defer model.Close()
	result, err := model.Infer(t.Context(), testImage(40, 56), Options{KeepInvalid: true, FOVX: 60})
	require.NoError(t, err)
	require.Len(t, result.Points, 3*40*56)
}
