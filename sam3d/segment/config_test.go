// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
)

func TestPresets(t *testing.T) {
	require.NoError(t, SAM3().Validate())
	require.NoError(t, SAM31().Validate())
	require.Equal(t, 72, SAM3().grid())
	require.Equal(t, 24, SAM3().table())
}

// The image encoder has 446 million parameters.
func TestReleasedSize(t *testing.T) {
	total := 0
	for _, p := range visionSpec(SAM31()) {
		if !p.Optional {
			total += shapes.Make(dtypes.Float32, p.Shape...).Size()
		}
	}
	require.InDelta(t, 446e6, float64(total), 0.5e6)
}

func TestValidate(t *testing.T) {
	for name, spoil := range map[string]func(c *Config){
		"no layout":             func(c *Config) { c.Layout = "" },
		"no head":               func(c *Config) { c.Grounding, c.Interactive = false, false },
		"clicks without a head": func(c *Config) { c.Layout = TransformersModel },
		"words without a head":  func(c *Config) { c.Layout = TransformersTracker },
		"no pixels":             func(c *Config) { c.ImageSize = 0 },
		"huge pictures":         func(c *Config) { c.ImageSize = 14 << 20 },
		"part of a patch":       func(c *Config) { c.ImageSize = 1009 },
		"no patch":              func(c *Config) { c.PatchSize = 0 },
		"part of a table":       func(c *Config) { c.PretrainSize = 335 },
		"no table":              func(c *Config) { c.PretrainSize = 0 },
		"width":                 func(c *Config) { c.ViTDim = 1 << 40 },
		"no blocks":             func(c *Config) { c.ViTDepth = 0 },
		"no heads":              func(c *Config) { c.ViTHeads = 0 },
		"odd heads":             func(c *Config) { c.ViTHeads = 7 },
		"wide heads":            func(c *Config) { c.ViTHeads = 512 },
		"perceptron":            func(c *Config) { c.ViTMLP = -1 },
		"windows":               func(c *Config) { c.WindowSize = 0 },
		"global blocks":         func(c *Config) { c.GlobalBlocks = []int{3, 2} },
		"global block":          func(c *Config) { c.GlobalBlocks = []int{32} },
		"epsilon":               func(c *Config) { c.ViTEpsilon = 0 },
		"epsilon NaN":           func(c *Config) { c.ViTEpsilon = math.NaN() },
		"scales":                func(c *Config) { c.ScaleFactors = []float64{2, 1} },
		"scale":                 func(c *Config) { c.ScaleFactors = []float64{4, 2, 1, 0.25} },
		"model":                 func(c *Config) { c.ModelDim = 12 },
		"model heads":           func(c *Config) { c.Heads = 3 },
		"no model heads":        func(c *Config) { c.Heads = 0 },
		"model perceptron":      func(c *Config) { c.HeadMLP = 0 },
		"mask channels":         func(c *Config) { c.MaskChannels = 6 },
		"stability":             func(c *Config) { c.StabilityThreshold = math.NaN() },
		"stability's delta":     func(c *Config) { c.StabilityDelta = -1 },
	} {
		cfg := SAM3()
		spoil(&cfg)
		require.ErrorIs(t, cfg.Validate(), ErrConfig, name)
		_, err := New(fixture.Backend(t), cfg, nil)
		require.ErrorIs(t, err, ErrConfig, name)
	}
}

func TestRotaryTables(t *testing.T) {
	cos, sin := rotaryTables(3, 8, 0.5)
	require.Len(t, cos, 9*4)
	at := func(row, col, pair int) float64 { // the angle
		i := (3*row+col)*4 + pair
		return math.Atan2(float64(sin[i]), float64(cos[i]))
	}
	require.InDelta(t, 0.5*2, at(1, 2, 0), 1e-6, "column, in steps of one half")
	require.InDelta(t, 0.5*2/100, at(1, 2, 1), 1e-6)
	require.InDelta(t, 0.5*1, at(1, 2, 2), 1e-6, "row")
	require.InDelta(t, 0.5*1/100, at(1, 2, 3), 1e-6)
}
