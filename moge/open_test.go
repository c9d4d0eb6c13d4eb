// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/weights"
)

// releasedPyramid is the configuration stored in moge-2-vitl-normal.
const releasedPyramid = `{
	"encoder": {"backbone": "dinov2_vitl14", "intermediate_layers": [5, 11, 17, 23], "dim_out": 1024},
	"neck": {"dim_in": [1026, 2, 2, 2, 2], "dim_out": null, "dim_res_blocks": [1024, 256, 128, 64, 32],
		"num_res_blocks": [0, 2, 2, 2, 0], "res_block_in_norm": "none", "res_block_hidden_norm": "none",
		"resamplers": ["conv_transpose", "conv_transpose", "conv_transpose", "bilinear"]},
	"points_head": HEAD3, "normal_head": HEAD3, "mask_head": HEAD1,
	"scale_head": {"dims": [1024, 1024, 1024, 1]}, "remap_output": "exp", "num_tokens_range": [1200, 3600]}`

const releasedHeadJSON = `{"dim_in": [1024, 256, 128, 64, 32], "dim_out": [null, null, null, null, OUT],
	"dim_res_blocks": [1024, 256, 128, 64, 32], "num_res_blocks": [0, 1, 1, 1, 0], "res_block_in_norm": "none",
	"res_block_hidden_norm": "none", "resamplers": ["conv_transpose", "conv_transpose", "conv_transpose", "bilinear"]}`

// parsed replaces words in a JSON text and reads it.
func parsed(t *testing.T, text string, words ...string) map[string]any {
	t.Helper()
	for i := 0; i < len(words); i += 2 {
		text = strings.ReplaceAll(text, words[i], words[i+1])
	}
	var m map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &m))
	return m
}

func released2(t *testing.T) map[string]any {
	return parsed(t, releasedPyramid, "HEAD3", strings.ReplaceAll(releasedHeadJSON, "OUT", "3"), "HEAD1", strings.ReplaceAll(releasedHeadJSON, "OUT", "1"))
}

func TestConfigOfReleasedPyramids(t *testing.T) {
	cfg, err := ConfigFromMap(released2(t), nil)
	require.NoError(t, err)
	require.Equal(t, V2(), cfg)

	plain := released2(t)
	delete(plain, "normal_head") // moge-2-vitl
	cfg, err = ConfigFromMap(plain, nil)
	require.NoError(t, err)
	require.Nil(t, cfg.Pyramid.Normal)

	cfg, err = ConfigFromMap(map[string]any{"model_type": "moge3"}, nil) // whose defaults are the released values
	require.NoError(t, err)
	require.Equal(t, V3(), cfg)

	third := released2(t)
	delete(third, "remap_output")
	third["refiner"] = parsed(t, `{"encoder_channels": 1026, "model_channels": [32, 64, 128, 256, 512],
		"encoder_blocks_per_level": 1, "decoder_blocks_per_level": [1, 1, 1, 1], "downsample_factors": [2, 2, 2, 2], "encoder_downsample": 16}`)
	cfg, err = ConfigFromMap(third, nil)
	require.NoError(t, err)
	require.Equal(t, V3(), cfg)
	third["model_type"], third["refiner"], third["normal_head"] = "moge3", nil, nil
	cfg, err = ConfigFromMap(third, nil)
	require.NoError(t, err)
	require.Nil(t, cfg.Refiner)
	require.Nil(t, cfg.Pyramid.Normal)
}

func TestPyramidSpecs(t *testing.T) {
	for _, c := range []struct {
		cfg             Config
		tensors, values int
	}{{V2(), 521, 330901544 + 6}, {V3(), 607, 370284399}} {
		require.NoError(t, c.cfg.Validate())
		spec := Spec(c.cfg)
		require.Len(t, spec, c.tensors)
		total := 0
		for _, p := range spec {
			size := 1
			for _, n := range p.Shape {
				size *= n
			}
			total += size
		}
		require.Equal(t, c.values, total)
	}
}

// TestPyramidConfigErrors changes one value of a released configuration at a time.
func TestPyramidConfigErrors(t *testing.T) {
	in := func(part, key string, value any) func(m map[string]any) {
		return func(m map[string]any) {
			changed := maps.Clone(m[part].(map[string]any))
			changed[key] = value
			m[part] = changed
		}
	}
	numbers := func(values ...float64) []any {
		var list []any
		for _, v := range values {
			list = append(list, v)
		}
		return list
	}
	for name, change := range map[string]func(m map[string]any){
		"encoder":          in("encoder", "backbone", "dinov2_huge"),
		"registers":        in("encoder", "backbone", "dinov2_vitl14_reg"),
		"layers":           in("encoder", "intermediate_layers", numbers(3, 2)),
		"no points":        func(m map[string]any) { m["points_head"] = nil },
		"no neck":          func(m map[string]any) { delete(m, "neck") },
		"neck is a list":   func(m map[string]any) { m["neck"] = numbers(1) },
		"neck input":       in("neck", "dim_in", numbers(1024, 2, 2, 2, 2)),
		"neck without uv":  in("neck", "dim_in", []any{1026.0, nil, 2.0, 2.0, 2.0}),
		"short list":       in("neck", "num_res_blocks", numbers(0, 2)),
		"text in a list":   in("neck", "num_res_blocks", []any{"a", 2.0, 2.0, 2.0, 0.0}),
		"resampler":        in("neck", "resamplers", "pixel_shuffle"),
		"resampler number": in("neck", "resamplers", numbers(1, 2, 3, 4)),
		"activation":       in("neck", "activation", "silu"),
		"norm":             in("neck", "res_block_in_norm", "instance_norm"),
		"negative width":   in("mask_head", "dim_res_blocks", numbers(1024, -256, 128, 64, 32)),
		"fraction":         in("mask_head", "dim_res_blocks", numbers(1024, 256.5, 128, 64, 32)),
		"many levels":      in("mask_head", "dim_res_blocks", numbers(make([]float64, 100000)...)),
		"head input":       in("mask_head", "dim_in", numbers(1024, 256, 128, 64, 31)),
		"head output":      in("mask_head", "dim_out", numbers(0, 0, 0, 0, 3)),
		"scale":            in("scale_head", "dims", numbers(512, 1)),
		"scale end":        in("scale_head", "dims", numbers(1024, 2)),
		"remap":            func(m map[string]any) { m["remap_output"] = "tanh" },
		"tokens":           func(m map[string]any) { m["num_tokens_range"] = numbers(3600, 1200) },
		"refiner list":     func(m map[string]any) { m["refiner"] = numbers() },
		"refiner levels":   func(m map[string]any) { m["refiner"] = map[string]any{"model_channels": numbers(32, 64)} },
		"refiner of hundred": func(m map[string]any) {
			m["refiner"] = map[string]any{"model_channels": numbers(make([]float64, 100)...)}
		},
		"refiner features":   func(m map[string]any) { m["refiner"] = map[string]any{"encoder_channels": 7.0} },
		"refiner factors":    func(m map[string]any) { m["refiner"] = map[string]any{"downsample_factors": numbers(2, 2, 4, 2)} },
		"refiner inputs":     func(m map[string]any) { m["refiner"] = map[string]any{"in_channels": 4.0} },
		"refiner resolution": func(m map[string]any) { m["refiner"], m["refiner_depth_resolution"] = map[string]any{}, 0.0 },
	} {
		t.Run(name, func(t *testing.T) {
			m := released2(t)
			change(m)
			_, err := ConfigFromMap(m, nil)
			require.ErrorIs(t, err, ErrConfig)
			require.Less(t, len(err.Error()), 400)
		})
	}
	cfg := V2()
	for _, cfg.Version = range []int{0, -1, 4} {
		require.ErrorIs(t, cfg.Validate(), ErrConfig)
	}
}

// TestOpen loads each version in every form that it comes in.
func TestOpen(t *testing.T) {
	backend := fixture.Backend(t)
	nowhere := weights.HubOptions{Endpoint: "http://127.0.0.1:1", CacheDir: t.TempDir()}
	open := func(source string) (*Model, error) { return Open(t.Context(), backend, source, nowhere) }
	infer := func(source string, version int) *Result {
		m, err := open(source)
		require.NoError(t, err, source)
		defer m.Close()
		require.Equal(t, version, m.Config().Version)
		r, err := m.Infer(t.Context(), testImage(40, 56), Options{KeepInvalid: true, FOVX: 60})
		require.NoError(t, err)
		return r
	}
	official := filepath.Join(fixture.Dir(), "checkpoint_official_tiny")
	torch := filepath.Join(official, "moge-vitl", "model.pt")
	first := infer(torch, 1)
	require.Equal(t, first, infer(filepath.Dir(torch), 1))
	require.Equal(t, first, infer(official, 1))

	bundle := filepath.Join(fixture.Dir(), "checkpoint_mlx_tiny")
	third := infer(bundle, 3)
	require.Positive(t, third.MetricScale)
	folder := depthOf(t, bundle)
	require.Equal(t, third, infer(folder, 3))
	require.Equal(t, third, infer(filepath.Join(folder, "model.safetensors"), 3))
	require.NoError(t, os.Remove(filepath.Join(folder, "config.json")))
	_, err := open(folder)
	require.ErrorIs(t, err, weights.ErrMissing)

	_, err = open(t.TempDir())
	require.ErrorIs(t, err, weights.ErrMissing)
	_, err = open("owner/name")
	require.ErrorIs(t, err, weights.ErrOffline)
	_, err = open(filepath.Join(official, "ss_decoder.ckpt"))
	require.ErrorIs(t, err, weights.ErrMissing, "no configuration")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Open(ctx, backend, "owner/name", nowhere)
	require.ErrorIs(t, err, context.Canceled)
}

// depthOf writes the depth model of a bundle by itself, in the layout of the MLX port.
func depthOf(t *testing.T, bundle string) string {
	t.Helper()
	folder := t.TempDir()
	set, err := weights.OpenSafetensors(filepath.Join(bundle, "moge.safetensors"))
	require.NoError(t, err)
	defer func() { require.NoError(t, set.Close()) }()
	sub := set.Sub("depth_model.")
	require.Equal(t, set.Len(), sub.Len())
	var entries []weights.Entry
	for _, name := range sub.Names() {
		tensor, _ := sub.Get(name)
		entries = append(entries, weights.EntryOf(name, tensor))
	}
	require.NoError(t, weights.WriteSafetensors(filepath.Join(folder, "model.safetensors"), false, entries))
	var config map[string]any
	text, err := os.ReadFile(filepath.Join(bundle, "config.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &config))
	text, err = json.Marshal(config["depth_model"])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "config.json"), text, 0o600))
	return folder
}
