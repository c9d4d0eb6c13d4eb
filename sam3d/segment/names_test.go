// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/weights"
)

// entry is a tensor of the manifest.
type entry struct {
	Shape []int           `json:"shape"`
	Use   []string        `json:"used_by"`
	Meta  json.RawMessage `json:"meta"`
	Op    string          `json:"op"`
}

func (e entry) unused() bool {
	return slices.Contains(e.Use, "unused") || slices.Contains(e.Use, "buffer")
}

// manifest lists the tensors of the full-size checkpoints by layout.
type manifest struct {
	Config       json.RawMessage  `json:"config"`
	Transformers map[string]entry `json:"tensors"`
	Video        []string         `json:"video_only_tensors"`
	SAM3         map[string]entry `json:"meta_sam3"`
	SAM31        map[string]entry `json:"meta_sam3.1"`
}

// readManifest reads the manifest beside the reference cases, or skips the test.
func readManifest(t *testing.T) manifest {
	t.Helper()
	path := filepath.Join(filepath.Dir(filepath.Clean(fixture.Dir())), "manifest", "sam3.json")
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		t.Skipf("no manifest of SAM 3 beside the reference cases (%s)", path)
	}
	require.NoError(t, err)
	var m manifest
	require.NoError(t, json.Unmarshal(data, &m))
	return m
}

// hollow returns a set of the manifest's tensors, whose bytes are all zero and shared.
func hollow(entries map[string]entry) map[string]weights.Tensor {
	largest := 0
	sizes := make(map[string]int)
	for name, e := range entries {
		sizes[name] = 2
		for _, dim := range e.Shape {
			sizes[name] *= dim
		}
		largest = max(largest, sizes[name])
	}
	zeros := make([]byte, largest)
	out := make(map[string]weights.Tensor, len(entries))
	for name, e := range entries {
		t := weights.Tensor{DType: dtypes.BFloat16, Shape: e.Shape, Data: zeros[:sizes[name]]}
		if strings.HasSuffix(name, "freqs_cis") {
			t.DType, t.Data = dtypes.Complex64, nil
		}
		out[name] = t
	}
	return out
}

// TestSpecIsManifest compares the specification with the names and shapes of the released SAM 3.
func TestSpecIsManifest(t *testing.T) {
	m := readManifest(t)
	spec := Spec(SAM3())
	for name, e := range m.SAM3 {
		p, ok := spec[name]
		if !ok {
			t.Errorf("no %s", name)
			continue
		}
		if !strings.HasSuffix(name, "freqs_cis") { // a buffer whose shape follows from the code
			require.Equal(t, e.Shape, p.Shape, name)
		}
		require.Equal(t, e.unused(), p.Optional, name)
	}
	for name := range spec {
		require.Contains(t, m.SAM3, name)
	}
}

// writeHollow writes a safetensors file of the manifest's tensors, whose data is one hole in the file.
func writeHollow(t *testing.T, tensors map[string]weights.Tensor) string {
	t.Helper()
	fields, end := make(map[string]any), 0
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		p := tensors[name]
		dtype, size := "BF16", p.DType.Size()
		if p.DType == dtypes.Complex64 {
			dtype = "C64"
		}
		for _, dim := range p.Shape {
			size *= dim
		}
		fields[name] = map[string]any{"dtype": dtype, "shape": p.Shape, "data_offsets": []int{end, end + size}}
		end += size
	}
	header, err := json.Marshal(fields)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "model.safetensors")
	require.NoError(t, os.WriteFile(path, append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), 0o600))
	require.NoError(t, os.Truncate(path, int64(8+len(header)+end)))
	return path
}

// TestManifestLoads maps every layout of the released checkpoints, in files of their size, onto the specification.
func TestManifestLoads(t *testing.T) {
	m := readManifest(t)
	video := maps.Clone(m.Transformers)
	for _, name := range m.Video {
		video[name] = entry{Shape: []int{1}}
	}
	for layout, entries := range map[Layout]map[string]entry{
		MetaSAM3: m.SAM3, MetaSAM31: m.SAM31, TransformersVideo: video,
	} {
		t.Run(string(layout), func(t *testing.T) {
			set, err := weights.Open(writeHollow(t, hollow(entries)))
			require.NoError(t, err)
			defer set.Close()
			cfg, err := Released(set)
			require.NoError(t, err)
			require.Equal(t, layout, cfg.Layout)
			require.True(t, cfg.Grounding && cfg.Interactive)
			canonical, err := canonicalSet(cfg, set)
			require.NoError(t, err)
			want := 0
			for _, p := range Spec(cfg) {
				if !p.Optional {
					want++
				}
			}
			require.Equal(t, want, canonical.Len())
			for _, name := range canonical.Names() {
				p, _ := canonical.Get(name)
				require.Equal(t, dtypes.BFloat16, p.DType, name)
			}
		})
	}
}

// TestTransformersOperations compares what is done to each tensor of transformers with the manifest.
func TestTransformersOperations(t *testing.T) {
	m := readManifest(t)
	made := make(map[string]string) // operation by name
	for name := range Spec(SAM3()) {
		src := TransformersVideo.source(name)
		for i, from := range src.names {
			made[from] = map[sourceOp]string{
				opCopy: "copy", opJoin: "rows_" + string(rune('0'+i)) + "/3", opRow: "stack_rows", opPosition: "drop_first_position",
			}[src.op]
		}
	}
	for name, e := range m.Transformers {
		if e.Op == "transpose" { // of an unused one
			continue
		}
		require.Equal(t, e.Op, made[name], name)
	}
}

// TestConfigOfManifest compares the preset with the released configuration.
func TestConfigOfManifest(t *testing.T) {
	m := readManifest(t)
	cfg := SAM3()
	require.NoError(t, json.Unmarshal(m.Config, &cfg))
	want := SAM3()
	want.PadToken = cfg.PadToken // of transformers; it has no influence
	require.Equal(t, want, cfg)
}

// paramsOf returns the tensors of a case as a map that a test may change.
func paramsOf(c *fixture.Case) map[string]weights.Tensor {
	out := make(map[string]weights.Tensor)
	set := c.Tensors.Sub("param/")
	for _, name := range set.Names() {
		out[name], _ = set.Get(name)
	}
	return out
}

// TestCheckpointsThatDiffer spoils checkpoints, each of which must fail and name what is wrong.
func TestCheckpointsThatDiffer(t *testing.T) {
	requireCases(t)
	for name, test := range map[string]struct {
		component string
		spoil     func(cfg *Config, params map[string]weights.Tensor)
		names     []string
	}{
		"3.1 taken for 3.0": {"interactive_a", func(cfg *Config, params map[string]weights.Tensor) { cfg.Layout = MetaSAM3 }, []string{
			"tracker.sam_prompt_encoder.not_a_point_embed.weight", "tracker.sam_mask_decoder.iou_token.weight", "tracker.no_mem_embed",
			"detector.backbone.vision_backbone.sam2_convs.0.conv_1x1.weight",
		}},
		"missing": {"interactive_a", func(cfg *Config, params map[string]weights.Tensor) {
			delete(params, "tracker.model.interactive_sam_mask_decoder.conv_s0.bias")
		}, []string{"tracker.model.interactive_sam_mask_decoder.conv_s0.bias"}},
		"missing queries": {"point_b", func(cfg *Config, params map[string]weights.Tensor) {
			delete(params, "vision_encoder.backbone.layers.1.attention.q_proj.bias")
		}, []string{"vision_encoder.backbone.layers.1.attention.q_proj.bias"}},
		"unknown": {"interactive_a", func(cfg *Config, params map[string]weights.Tensor) {
			params["detector.surprise"] = params["tracker.model.interactivity_no_mem_embed"]
		}, []string{"detector.surprise"}},
		"unknown in the head": {"interactive_a", func(cfg *Config, params map[string]weights.Tensor) {
			params["tracker.model.interactive_sam_mask_decoder.surprise"] = params["tracker.model.interactivity_no_mem_embed"]
		}, []string{"tracker.model.interactive_sam_mask_decoder.surprise"}},
		"shape": {"point_b", func(cfg *Config, params map[string]weights.Tensor) {
			params["no_memory_embedding"] = params["vision_encoder.backbone.layer_norm.bias"]
		}, []string{"tracker.no_mem_embed"}},
		"uneven queries and keys": {"point_b", func(cfg *Config, params map[string]weights.Tensor) {
			params["vision_encoder.backbone.layers.0.attention.k_proj.bias"] = params["prompt_encoder.mask_embed.conv1.bias"]
		}, []string{"vision_encoder.backbone.layers.0.attention.k_proj.bias"}},
		"too few points": {"point_b", func(cfg *Config, params map[string]weights.Tensor) {
			params["prompt_encoder.point_embed.weight"] = params["prompt_encoder.no_mask_embed.weight"]
		}, []string{"prompt_encoder.point_embed.weight"}},
		"table of positions": {"point_b", func(cfg *Config, params map[string]weights.Tensor) {
			params["vision_encoder.backbone.embeddings.position_embeddings"] = params["no_memory_embedding"]
		}, []string{"trunk.pos_embed"}},
		"copies that differ": {"point_b", func(cfg *Config, params map[string]weights.Tensor) {
			other := params["shared_image_embedding.positional_embedding"]
			other.Data = make([]byte, len(other.Data))
			params["shared_image_embedding.positional_embedding"] = other
		}, []string{"shared_image_embedding.positional_embedding"}},
		"integers": {"interactive_a", func(cfg *Config, params map[string]weights.Tensor) {
			whole := params["tracker.model.interactivity_no_mem_embed"]
			whole.DType = dtypes.Int32
			params["tracker.model.interactivity_no_mem_embed"] = whole
		}, []string{"tracker.no_mem_embed"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := fixture.Load(t, "sam3", test.component)
			cfg, params := configOf(t, c), paramsOf(c)
			test.spoil(&cfg, params)
			_, err := New(fixture.Backend(t), cfg, weights.NewSet(params))
			require.ErrorIs(t, err, weights.ErrMismatch)
			for _, name := range test.names {
				require.ErrorContains(t, err, name)
			}
		})
	}
}

// TestCheckpointsWithMore loads checkpoints with tensors that the image path does not need.
func TestCheckpointsWithMore(t *testing.T) {
	requireCases(t)
	c := fixture.Load(t, "sam3", "interactive_a")
	cfg, params := configOf(t, c), paramsOf(c)
	some := params["tracker.model.interactivity_no_mem_embed"]
	for _, name := range []string{
		"detector.backbone.vision_backbone.trunk.blocks.0.attn.freqs_cis", "detector.backbone.vision_backbone.convs.0.conv_1x1.bias",
		"detector.backbone.vision_backbone.propagation_convs.2.conv_3x3.bias", "tracker.model.sam_mask_decoder.iou_token.weight",
		"detector.transformer.encoder.layers.0.norm1.bias", "tracker.model.maskmem_tpos_enc",
	} {
		params[name] = some
	}
	model, err := New(fixture.Backend(t), cfg, weights.NewSet(params))
	require.NoError(t, err)
	model.Close()

	// Some conversions drop the first part of the names.
	stripped := make(map[string]weights.Tensor)
	for name, p := range params {
		stripped[strings.TrimPrefix(name, metaPrefix)] = p
	}
	model, err = New(fixture.Backend(t), cfg, weights.NewSet(stripped))
	require.NoError(t, err)
	model.Close()
}

func TestReleasedOfOther(t *testing.T) {
	for _, names := range [][]string{nil, {"head.weight"}, {"detector.backbone.vision_backbone.trunk.pos_embed"}} {
		params := make(map[string]weights.Tensor)
		for _, name := range names {
			params[name] = weights.Tensor{DType: dtypes.Float32, Shape: []int{1}, Data: make([]byte, 4)}
		}
		_, err := Released(weights.NewSet(params))
		require.ErrorIs(t, err, ErrConfig)
	}
}
