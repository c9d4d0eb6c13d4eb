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
)

// caseConfig is the configuration of a reference case.
type caseConfig struct {
	Kind        string  `json:"kind"`
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
	backend := fixture.Backend(t)
	w := nn.Weights(c.Params(t, backend, "param/"))
	program := nn.NewProgram(backend, "backbone", func(p nn.Params, in []*Node) []*Node {
		x := Forward(p, cfg, in[0], cfg.Depth-1)[0]
		y := FinalNorm(p, cfg, x)
		return []*Node{x, Squeeze(Slice(y, AxisRange(), AxisElem(0)), 1), Patches(cfg, y)}
	})
	out, err := program.Call(w, c.Tensor(t, "in/x"))
	require.NoError(t, err)
	checkAll(t, c, map[string]*tensors.Tensor{"out/x_prenorm": out[0], "out/cls": out[1], "out/patch": out[2]})
}

// checkWrapper runs both stages' heads on pictures and masks that are not normalised.
func checkWrapper(t *testing.T, c *fixture.Case, config caseConfig) {
	cfg := config.config()
	backend := fixture.Backend(t)
	w := nn.Weights(c.Params(t, backend, "param/backbone."))
	program := nn.NewProgram(backend, "wrapper", func(p nn.Params, in []*Node) []*Node {
		x := Forward(p, cfg, Normalize(in[0], config.InputSize), cfg.Depth-1)[0]
		return []*Node{
			WithoutRegisters(cfg, FinalNorm(p, cfg, x)),
			nn.Standardize(x, config.HeadEpsilon),
		}
	})
	got := make(map[string]*tensors.Tensor)
	for _, input := range []string{"image", "mask"} {
		if !c.Has("in/" + input) {
			continue
		}
		out, err := program.Call(w, c.Tensor(t, "in/"+input))
		require.NoError(t, err)
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
