// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/sam3d/condition"
	"github.com/gomlx3d/image3d/sam3d/decoder"
	"github.com/gomlx3d/image3d/sam3d/flow"
	"github.com/gomlx3d/image3d/weights"
)

// checkpoints opens the small checkpoints of both layouts.
func checkpoints(t testing.TB) map[weights.Layout]*weights.Checkpoint {
	t.Helper()
	opened := make(map[weights.Layout]*weights.Checkpoint)
	for _, name := range []string{"checkpoint_official_tiny", "checkpoint_mlx_tiny"} {
		c, err := weights.OpenCheckpoint(filepath.Join(fixture.Dir(), name))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		opened[c.Layout] = c
	}
	return opened
}

// maxRead bounds what reading a configuration and listing its tensors may allocate. The largest valid configurations
// have some 100,000 tensors.
const maxRead = 1 << 28

// previous is the last configuration whose tensors were listed.
var previous config

// tryConfig reads a configuration and, if it is accepted, lists its tensors. A fault is an ErrConfig, never a panic, and
// nothing is made that is out of proportion.
func tryConfig(t testing.TB, c *weights.Checkpoint, what string) error {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cfg, err := readConfig(c)
	if err == nil && !reflect.DeepEqual(cfg, previous) {
		previous = cfg
		for _, spec := range []weights.Spec{
			flow.StructureSpec(cfg.structure), flow.LatentSpec(cfg.latent), decoder.StructureSpec(cfg.structureDecoder),
			condition.Spec(cfg.structureTokens), condition.Spec(cfg.latentTokens), decoder.GaussiansSpec(cfg.gaussians),
			decoder.GaussiansSpec(cfg.gaussians4), decoder.MeshSpec(cfg.mesh),
		} {
			require.NotEmpty(t, spec)
		}
	}
	if err != nil {
		require.ErrorIs(t, err, ErrConfig, what)
		require.Less(t, len(err.Error()), 1<<14, what)
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(maxRead), "%s: %v", what, err)
	return err
}

// hostile are values that may stand anywhere in a document.
func hostile() []any {
	deep := any("bottom")
	for range 1000 {
		deep = map[string]any{"a": []any{deep}}
	}
	many := make(map[string]any)
	for i := range 2000 {
		many[fmt.Sprintf("latent%d", i)] = map[string]any{"in_channels": 1}
	}
	return []any{
		nil, true, "text", strings.Repeat("long", 1<<16), "", -1, 0, 1, 3, 1000, 1 << 20, 1 << 30, 1 << 31, math.MaxInt, math.MinInt,
		uint64(math.MaxUint64), 0.5, -0.5, 1e300, math.NaN(), math.Inf(1), math.Inf(-1), []any{}, []any{nil}, []any{1 << 30, 1 << 30},
		[]any{[]any{}, []any{}}, map[string]any{}, map[any]any{1: 2}, map[string]any{"": nil}, deep, many, make([]any, 1<<16),
	}
}

// everyChange calls f with each value below node replaced by each hostile value in turn.
func everyChange(node any, path string, values []any, f func(path string)) {
	change := func(key any, child any, set func(any)) {
		at := fmt.Sprintf("%s.%v", path, key)
		for i, value := range values {
			set(value)
			f(fmt.Sprintf("%s = hostile %d", at, i))
		}
		set(child)
		everyChange(child, at, values, f)
	}
	switch node := node.(type) {
	case map[string]any:
		for key, child := range node {
			change(key, child, func(v any) { node[key] = v })
		}
	case []any:
		for i, child := range node {
			change(i, child, func(v any) { node[i] = v })
		}
	}
}

// TestHostileConfig puts every hostile value at every place of the small checkpoints' configurations.
func TestHostileConfig(t *testing.T) {
	if testing.Short() {
		t.Skip("it reads thousands of configurations, one after the other")
	}
	both := checkpoints(t)
	official, bundle := both[weights.Official], both[weights.MLX]
	values := hostile()
	for name, document := range official.YAML {
		everyChange(document, name, values, func(path string) { _ = tryConfig(t, official, path) })
		for i, value := range values {
			if value, ok := value.(map[string]any); ok {
				official.YAML[name] = value
				_ = tryConfig(t, official, fmt.Sprintf("%s = hostile %d", name, i))
			}
		}
		official.YAML[name] = document
	}
	everyChange(bundle.Config, "config.json", values, func(path string) { _ = tryConfig(t, bundle, path) })
	for name, c := range both {
		require.NoError(t, tryConfig(t, c, "the unchanged one of "+string(name)))
	}
}

// TestConfigFaults checks that a fault is named, and that all of them are in one error.
func TestConfigFaults(t *testing.T) {
	for _, test := range []struct {
		layout  weights.Layout
		file    string
		set     map[string]any // by dotted path
		mention []string
	}{
		{weights.Official, "pipeline", map[string]any{"ss_inference_steps": "25", "slat_cfg_strength": []any{}, "slat_mean": 3},
			[]string{`"pipeline.yaml.ss_inference_steps" is "25", not an integer`, `slat_cfg_strength" is a list, not a number`, "slat_mean"}},
		{weights.Official, "pipeline", map[string]any{"ss_inference_steps": 0, "slat_inference_steps": 1001, "downsample_ss_dist": -1},
			[]string{"0 steps of the structure flow", "1001 steps of the latent flow", "prune radius -1"}},
		{weights.Official, "pipeline", map[string]any{"pose_decoder_name": "Upright"}, []string{`"Upright"`}},
		{weights.Official, "pipeline", map[string]any{"slat_rescale_t": -3}, []string{"rescale -3"}},
		{weights.Official, "pipeline", map[string]any{"slat_std": []any{1, 2, 3}}, []string{"deviations of the latents: 3"}},
		{weights.Official, "pipeline", map[string]any{"slat_mean": []any{1e300, 0, 0, 0, 0, 0, 0, 0}}, []string{"mean or deviation +Inf"}},
		{weights.Official, "slat_generator", map[string]any{"module.generator.backbone.reverse_fn.backbone.resolution": 32,
			"module.generator.backbone.reverse_fn.backbone.cond_channels": 64},
			[]string{"resolution of the latent flow: 32, which does not fit 16", "width of the latent flow's condition: 64"}},
		{weights.Official, "slat_generator", map[string]any{"module.generator.backbone.reverse_fn.backbone.num_blocks": 1 << 20}, []string{"blocks 1048576"}},
		{weights.Official, "ss_generator", map[string]any{"module.generator.backbone.reverse_fn.backbone.latent_mapping.scale": nil},
			[]string{`no latent "scale" of 3 values`}},
		{weights.Official, "ss_generator", map[string]any{"module.condition_embedder.backbone.embedder_list": []any{[]any{map[string]any{"_target_": "x.CLIP"}}}},
			[]string{`"x.CLIP"`, "not an embedder that is known"}},
		{weights.Official, "ss_decoder", map[string]any{"channels": []any{}, "out_channels": 0}, []string{"number of resolutions 0"}},
		{weights.Official, "ss_decoder", map[string]any{"out_channels": 2}, []string{"occupancy: 2, which does not fit 1"}},
		{weights.Official, "slat_decoder_gs", map[string]any{"representation_config.scaling_activation": "relu"}, []string{`"relu", not softplus or exp`}},
		{weights.Official, "slat_decoder_mesh", map[string]any{"model_channels": 3, "window_size": 0}, []string{"mesh"}},
		{weights.MLX, "", map[string]any{"latent_resolution": 3}, []string{"resolution of the latent flow: 16, which does not fit 12"}},
		{weights.MLX, "", map[string]any{"latent_resolution": 1 << 21}, []string{"0 tokens"}},
		{weights.MLX, "", map[string]any{"hidden_size": 7.5, "num_heads": true}, []string{`hidden_size" is 7.5, not an integer`, `num_heads" is true`}},
		{weights.MLX, "", map[string]any{"image_size": 1 << 14}, []string{"condition images of side 16384"}},
	} {
		c := checkpoints(t)[test.layout]
		document := c.Config
		if test.layout == weights.Official {
			document = c.YAML[test.file]
		}
		for path, value := range test.set {
			keys := strings.Split(path, ".")
			node := document
			for _, key := range keys[:len(keys)-1] {
				node = node[key].(map[string]any)
			}
			if node[keys[len(keys)-1]] = value; value == nil {
				delete(node, keys[len(keys)-1])
			}
		}
		err := tryConfig(t, c, test.file)
		for _, mention := range test.mention {
			require.ErrorContains(t, err, mention)
		}
	}
}

// TestConfigDefaults checks that what a checkpoint leaves out has the released value.
func TestConfigDefaults(t *testing.T) {
	for _, c := range []*weights.Checkpoint{
		{Layout: weights.MLX},
		{Layout: weights.Official},
		{Layout: weights.Official, YAML: map[string]map[string]any{"pipeline": nil, "ss_generator": {}, "slat_decoder_gs": {"model_channels": nil}}},
	} {
		cfg, err := readConfig(c)
		require.NoError(t, err)
		require.Equal(t, released(), cfg)
	}
}

// FuzzConfig reads documents of any content.
func FuzzConfig(f *testing.F) {
	both := checkpoints(f)
	names := []string{"pipeline", "ss_generator", "slat_generator", "ss_decoder", "slat_decoder_gs", "slat_decoder_gs_4", "slat_decoder_mesh"}
	for i, name := range names {
		text, err := yaml.Marshal(both[weights.Official].YAML[name])
		require.NoError(f, err)
		f.Add(uint8(i), text)
	}
	text, err := json.Marshal(both[weights.MLX].Config)
	require.NoError(f, err)
	f.Add(uint8(len(names)), text)
	f.Fuzz(func(t *testing.T, which uint8, text []byte) {
		var document map[string]any
		if len(text) > 1<<16 || yaml.Unmarshal(text, &document) != nil {
			return
		}
		c := &weights.Checkpoint{Layout: weights.MLX, Config: document}
		if i := int(which) % (len(names) + 1); i < len(names) {
			c = &weights.Checkpoint{Layout: weights.Official, YAML: make(map[string]map[string]any)}
			for _, name := range names {
				c.YAML[name] = both[weights.Official].YAML[name]
			}
			c.YAML[names[i]] = document
		}
		_ = tryConfig(t, c, string(text))
	})
}

// TestFaults checks that an error stays short whatever there is to say.
func TestFaults(t *testing.T) {
	f := &faults{}
	require.NoError(t, f.err())
	root := tree{map[string]any{"list": make([]any, 1000), "big": strings.Repeat("x", 1<<20)}, "file", f}
	for _, e := range root.at("list").list() {
		_ = e.at("a")
	}
	require.NoError(t, f.err(), "null is absent")
	for i := range 1000 {
		_ = root.at("big").int(i)
		_ = root.at("big", fmt.Sprint(i)).bool(false)
		_ = tree{i, fmt.Sprint(i), f}.string("")
	}
	err := f.err()
	require.ErrorIs(t, err, ErrConfig)
	require.ErrorContains(t, err, "more")
	require.Less(t, len(err.Error()), 8000)
}
