// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flow

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/nn"
)

// structureCase is the configuration of a structure model in a reference case.
type structureCase struct {
	Width     int     `json:"model_channels"`
	CondWidth int     `json:"cond_channels"`
	Blocks    int     `json:"num_blocks"`
	Heads     int     `json:"num_heads"`
	MLPRatio  float64 `json:"mlp_ratio"`
	Position  string  `json:"pe_mode"`
	ShareMod  bool    `json:"share_mod"`
	Norm      bool    `json:"qk_rms_norm"`
	CrossNorm bool    `json:"qk_rms_norm_cross"`
	Shortcut  bool    `json:"is_shortcut_model"`
	ForceZero bool    `json:"force_zeros_cond"`
	Latents   map[string]struct {
		Channels   int `json:"in_channels"`
		Tokens     int `json:"token_len"`
		Resolution int `json:"resolution"`
		PatchSize  int `json:"patch_size"`
	} `json:"latents"`
	Merged map[string][]string `json:"latent_share_transformer"`
	Call   struct {
		T       []float32 `json:"t"`
		D       []float32 `json:"d"`
		CfgFlag bool      `json:"cfg_flag"`
	} `json:"call"`
}

func (c structureCase) config(t *testing.T) StructureConfig {
	t.Helper()
	require.True(t, c.Norm && c.Position == "ape", "the original has no other variant")
	cfg := StructureConfig{
		Width: c.Width, Heads: c.Heads, Blocks: c.Blocks, MLPRatio: c.MLPRatio, CondWidth: c.CondWidth,
		StepInput: c.Shortcut, ZeroCondition: c.ForceZero, SharedModulation: c.ShareMod, CrossNorm: c.CrossNorm,
	}
	for _, name := range slices.Sorted(maps.Keys(c.Latents)) {
		l := c.Latents[name]
		if l.Resolution > 0 {
			edge := l.Resolution / l.PatchSize
			l.Tokens = edge * edge * edge
		}
		cfg.Latents = append(cfg.Latents, StructureLatent{Name: name, Channels: l.Channels, Tokens: l.Tokens})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Merged)) {
		cfg.Merged = append(cfg.Merged, StructureStream{Name: name, Latents: c.Merged[name]})
	}
	return cfg
}

// load builds the model of a case.
func (c structureCase) load(t *testing.T, f *fixture.Case) *Structure {
	t.Helper()
	s, err := NewStructure(fixture.Backend(t), c.config(t), f.Tensors.Sub("param/"))
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func latents(t *testing.T, f *fixture.Case, cfg StructureConfig, prefix string) Latents {
	t.Helper()
	x := make(Latents)
	for _, name := range cfg.names() {
		x[name] = f.Tensor(t, prefix+name)
	}
	return x
}

func condition(t *testing.T, s *Structure, f *fixture.Case, name string) *Context {
	t.Helper()
	c, err := s.Condition(t.Context(), f.Tensor(t, name))
	require.NoError(t, err)
	t.Cleanup(c.Free)
	return c
}

// checkLatents checks every latent against prefix + its name.
func checkLatents(t *testing.T, f *fixture.Case, prefix string, x Latents) {
	t.Helper()
	for _, name := range x.Names() {
		f.Check(t, prefix+name, x[name])
	}
}

func TestReferenceStructureFlow(t *testing.T) {
	fixture.Run(t, "ssflow", func(t *testing.T, f *fixture.Case) {
		var kind map[string]json.RawMessage
		f.Decode(t, &kind)
		if _, ok := kind["frequency_embedding_size"]; ok {
			checkEmbedders(t, f)
			return
		}
		var c structureCase
		f.Decode(t, &c)
		s := c.load(t, f)
		branch := Conditional
		if c.Call.CfgFlag {
			branch = Unconditional
		}
		tokens := s.under(branch, condition(t, s, f, "in/cond"), Guidance{})
		x := latents(t, f, s.cfg, "in/")
		v, err := s.Velocity(t.Context(), x, c.Call.T, c.Call.D, tokens)
		require.NoError(t, err)
		require.Len(t, f.Outputs(), len(v))
		checkLatents(t, f, "out/", v)
		v.Free()
	})
}

func checkEmbedders(t *testing.T, f *fixture.Case) {
	backend := fixture.Backend(t)
	checked := 0
	for _, output := range f.Outputs() {
		var got any
		switch output {
		case "out/t_freq", "out/t_freq_odd":
			var flat []float32
			for _, time := range f.Float32s(t, "in/t") {
				flat = append(flat, nn.TimestepFrequencies(time, f.Shape(t, output)[1])...)
			}
			got = flat
		case "out/t_emb":
			program := nn.NewProgram(backend, "test", func(p nn.Params, in []*Node) []*Node {
				return []*Node{nn.FeedForward(p.In("mlp"), "0", "2", nn.SiLU, in[0])}
			})
			defer program.Close()
			out, err := program.Call1(f.Params(t, backend, "param/"), sinusoids(f.Float32s(t, "in/t")))
			require.NoError(t, err)
			got = out
		case "out/pos_1024_rows":
			coords := make([][3]int, 0, 20)
			for _, row := range f.Ints(t, "in/rows16") {
				coords = append(coords, [3]int{row / 256, row / 16 % 16, row % 16})
			}
			got = gridRows(t, coords, 16, 1024)
		case "out/pos_32_res4":
			var coords [][3]int
			for row := range 64 {
				coords = append(coords, [3]int{row / 16, row / 4 % 4, row % 4})
			}
			got = gridRows(t, coords, 4, 32)
		case "out/pos_40_coords":
			var coords [][3]int
			for c := range slices.Chunk(f.Ints(t, "in/coords"), 3) {
				coords = append(coords, [3]int(c))
			}
			got = gridRows(t, coords, 64, 40)
		default:
			t.Fatalf("unknown output %s", output)
		}
		f.Check(t, output, got)
		checked++
	}
	require.Positive(t, checked)
}

func gridRows(t *testing.T, coords [][3]int, size, width int) *tensors.Tensor {
	t.Helper()
	flat := make([]int32, 0, 3*len(coords))
	for _, c := range coords {
		flat = append(flat, int32(c[0]), int32(c[1]), int32(c[2]))
	}
	program := nn.NewProgram(fixture.Backend(t), "test", func(_ nn.Params, in []*Node) []*Node {
		return []*Node{nn.GridEmbedding(in[0], size, width)}
	})
	defer program.Close()
	out, err := program.Call1(nil, tensors.FromFlatDataAndDimensions(flat, len(coords), 3))
	require.NoError(t, err)
	return out
}

func TestReferenceSampler(t *testing.T) {
	fixture.Run(t, "sampler", func(t *testing.T, f *fixture.Case) {
		switch {
		case f.Has("out/constant"):
			checkZeroContext(t, f)
		case f.Has("in/cond"):
			checkSampling(t, f)
		default:
			checkSchedules(t, f)
		}
	})
}

// checkZeroContext checks cross attention to zero tokens, in both forms.
func checkZeroContext(t *testing.T, f *fixture.Case) {
	var c struct {
		Heads     int  `json:"num_heads"`
		CondWidth int  `json:"ctx_channels"`
		Norm      bool `json:"qk_rms_norm"`
	}
	f.Decode(t, &c)
	backend := fixture.Backend(t)
	program := nn.NewProgram(backend, "test", func(p nn.Params, in []*Node) []*Node {
		k, v := crossContext(p, in[1], c.Heads)
		return []*Node{crossAttention(p, in[0], k, v, c.Heads), crossConstant(p)}
	})
	defer program.Close()
	x := f.Tensor(t, "in/x")
	batch := x.Shape().Dimensions[0]
	for _, tokens := range []int{1, 7, 300} {
		zeros := tensors.FromFlatDataAndDimensions(make([]float32, batch*tokens*c.CondWidth), batch, tokens, c.CondWidth)
		out, err := program.Call(f.Params(t, backend, "param/"), x, zeros)
		require.NoError(t, err)
		f.Check(t, "out/cross_attn", out[0])
		f.Check(t, "out/constant", out[1])
	}
	require.Len(t, f.Outputs(), 2)
}

// checkSampling runs a whole sampling and checks the state after every step.
func checkSampling(t *testing.T, f *fixture.Case) {
	var c struct {
		Flow       structureCase `json:"flow"`
		Generator  string        `json:"generator"`
		NoShortcut bool          `json:"no_shortcut"`
		Steps      int           `json:"steps"`
		Rescale    float64       `json:"rescale_t"`
		Reversed   bool          `json:"reversed_timestamp"`
		Solver     string        `json:"solver"`
		Guidance   guidanceCase  `json:"guidance"`
	}
	f.Decode(t, &c)
	s := c.Flow.load(t, f)
	opt := Sampling{Steps: c.Steps, Rescale: c.Rescale, Reversed: c.Reversed, Guidance: c.Guidance.guidance(t, s.cfg.names())}
	switch c.Generator {
	case "FlowMatching":
		opt.Step = StepAbsent
	case "ShortCut":
		if !c.NoShortcut {
			opt.Step = StepUniform
		}
	default:
		t.Fatalf("unknown generator %q", c.Generator)
	}
	switch c.Solver {
	case "euler":
	case "midpoint":
		opt.Solver = Midpoint
	default:
		t.Fatalf("unknown solver %q", c.Solver)
	}
	checked := 0
	opt.observe = func(step int, x Latents) {
		for name, state := range x {
			f.Check(t, fmt.Sprintf("out/step%d/%s", step, name), state)
			checked++
		}
	}
	noise := latents(t, f, s.cfg, "in/noise/")
	tokens := condition(t, s, f, "in/cond")
	sample := func() (Latents, error) { return s.Sample(t.Context(), tokens, noise, opt) }
	if opt.Guidance.PointMap {
		contexts := map[Branch]*Context{Conditional: tokens, NoPointMap: condition(t, s, f, "in/cond_no_pointmap")}
		sample = func() (Latents, error) {
			return s.sampler.Run(t.Context(), func(ctx context.Context, x Latents, t, d []float32, branch Branch) (Latents, error) {
				return s.Velocity(ctx, x, t, d, contexts[branch])
			}, noise, opt)
		}
	}
	final, err := sample()
	require.NoError(t, err)
	final.Free()
	assert.Len(t, f.Outputs(), checked, "every output is checked")
}

// guidanceCase is the guidance of a reference case: strength and interval are values, or maps of them by latent.
type guidanceCase struct {
	Class         string          `json:"class"`
	Strength      json.RawMessage `json:"strength"`
	Interval      json.RawMessage `json:"interval"`
	Unconditional string          `json:"unconditional_handling"`
	PointMap      float64         `json:"strength_pm"`
}

func (c guidanceCase) guidance(t *testing.T, names []string) Guidance {
	t.Helper()
	g := Guidance{PerLatent: make(map[string]Weight), PointMapStrength: c.PointMap}
	strengths, intervals := byLatent[float64](t, c.Strength, names), byLatent[*[2]float64](t, c.Interval, names)
	for _, name := range names {
		g.PerLatent[name] = Weight{}
		if interval := intervals[name]; interval != nil {
			g.PerLatent[name] = Weight{Strength: strengths[name], From: interval[0], To: interval[1]}
		}
	}
	g.Weight = g.PerLatent[ShapeLatent] // the one that counts if all are the same
	switch c.Class {
	case "ClassifierFreeGuidance", "ClassifierFreeGuidanceWithExternalUnconditionalProbability":
	case "PointmapCFG":
		g.PointMap = true
	default:
		t.Fatalf("unknown guidance %q", c.Class)
	}
	switch c.Unconditional {
	case "add_flag":
	case "zeros":
		g.Zeros = true
	default:
		t.Fatalf("unknown handling %q", c.Unconditional)
	}
	return g
}

// byLatent reads a value for all latents, or a map of them.
func byLatent[T any](t *testing.T, raw json.RawMessage, names []string) map[string]T {
	t.Helper()
	out := make(map[string]T)
	if json.Unmarshal(raw, &out) == nil && len(out) > 0 {
		return out
	}
	var one T
	require.NoError(t, json.Unmarshal(raw, &one))
	for _, name := range names {
		out[name] = one
	}
	return out
}
