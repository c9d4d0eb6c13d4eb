// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package dinov2

import (
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/weights"
)

// caseConfig is the configuration of a reference case.
type caseConfig struct {
	Kind        string  `json:"kind"`
	Normalize   bool    `json:"normalize_images"`
	InputSize   int     `json:"input_size"`
	EmbedDim    int     `json:"embed_dim"`
	Depth       int     `json:"depth"`
	NumHeads    int     `json:"num_heads"`
	MLPRatio    float64 `json:"mlp_ratio"`
	PatchSize   int     `json:"patch_size"`
	Grid        int     `json:"pos_grid"`
	Registers   int     `json:"num_register_tokens"`
	Antialias   bool    `json:"interpolate_antialias"`
	Offset      float64 `json:"interpolate_offset"`
	Epsilon     float64 `json:"layer_norm_eps"`
	HeadEpsilon float64 `json:"prenorm_layer_norm_eps"`
}

func (c caseConfig) config() Config {
	return Config{
		EmbedDim: c.EmbedDim, Depth: c.Depth, NumHeads: c.NumHeads, MLPRatio: c.MLPRatio, PatchSize: c.PatchSize,
		Grid: c.Grid, Registers: c.Registers, InterpolateAntialias: c.Antialias, InterpolateOffset: c.Offset,
		NormEpsilon: c.Epsilon,
	}
}

func TestReference(t *testing.T) {
	fixture.Run(t, "dinov2", func(t *testing.T, c *fixture.Case) {
		var config caseConfig
		c.Decode(t, &config)
		switch {
		case config.Kind == "Dino wrapper":
			checkWrapper(t, c, config)
		case strings.HasPrefix(config.Kind, "backbone only"):
			checkBackbone(t, c, config.config())
		default:
			t.Fatalf("unknown kind %q", config.Kind)
		}
	})
}

// checkBackbone runs the network on a normalised image.
func checkBackbone(t *testing.T, c *fixture.Case, cfg Config) {
	encoder := newTestEncoder(t, cfg, c.Tensors.Sub("param/"))
	image := c.Tensor(t, "in/x")
	prenorm, err := encoder.Encode(t.Context(), image)
	require.NoError(t, err)
	normed, err := encoder.Intermediate(t.Context(), image, cfg.Depth-1)
	require.NoError(t, err)
	parts := call(t, nil, func(_ nn.Params, in []*Node) []*Node {
		return []*Node{Squeeze(Slice(in[0], AxisRange(), AxisElem(0)), 1), Patches(cfg, in[0])}
	}, normed[0])
	checkAll(t, c, map[string]*tensors.Tensor{"out/x_prenorm": prenorm, "out/cls": parts[0], "out/patch": parts[1]})
}

// checkWrapper runs both stages' heads on pictures and masks that are not normalised.
func checkWrapper(t *testing.T, c *fixture.Case, config caseConfig) {
	require.True(t, config.Normalize)
	cfg := config.config()
	encoder := newTestEncoder(t, cfg, c.Tensors.Sub("param/backbone."))
	got := make(map[string]*tensors.Tensor)
	for _, input := range []string{"image", "mask"} {
		if !c.Has("in/" + input) {
			continue
		}
		normalised := call(t, nil, func(_ nn.Params, in []*Node) []*Node {
			return []*Node{Normalize(in[0], config.InputSize)}
		}, c.Tensor(t, "in/"+input))
		tokens, err := encoder.Encode(t.Context(), normalised[0])
		require.NoError(t, err)
		out := call(t, encoder.norm, func(p nn.Params, in []*Node) []*Node {
			return []*Node{
				WithoutRegisters(cfg, FinalNorm(p, cfg, in[0])),
				nn.Standardize(in[0], config.HeadEpsilon),
			}
		}, tokens)
		got["out/"+input+"_tokens"], got["out/"+input+"_tokens_prenorm"] = out[0], out[1]
	}
	checkAll(t, c, got)
}

// checkAll compares every output of the case.
func checkAll(t *testing.T, c *fixture.Case, got map[string]*tensors.Tensor) {
	t.Helper()
	for _, name := range c.Outputs() {
		require.Contains(t, got, name)
		c.Check(t, name, got[name])
	}
}

// newTestEncoder returns an encoder on the backend under test, closed with the test.
func newTestEncoder(t testing.TB, cfg Config, set *weights.Set) *Encoder {
	t.Helper()
	encoder, err := New(fixture.Backend(t), cfg, set)
	require.NoError(t, err)
	t.Cleanup(encoder.Close)
	return encoder
}

// call runs a graph function once.
func call(t *testing.T, w nn.Weights, build nn.GraphFn, in ...any) []*tensors.Tensor {
	t.Helper()
	program := nn.NewProgram(fixture.Backend(t), t.Name(), build)
	defer program.Close()
	out, err := program.Call(w, in...)
	require.NoError(t, err)
	t.Cleanup(func() { nn.Free(out...) })
	return out
}
