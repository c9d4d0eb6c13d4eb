// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package dinov2

import (
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/stretchr/testify/require"
)

func TestPresets(t *testing.T) {
	for _, name := range []string{
		"dinov2_vits14", "dinov2_vits14_reg", "dinov2_vitb14", "dinov2_vitb14_reg", "dinov2_vitl14", "dinov2_vitl14_reg",
	} {
		cfg, err := Named(name)
		require.NoError(t, err)
		require.NoError(t, cfg.Validate())
	}
	for _, name := range []string{"", "dinov2_vitg14", "dinov2_vitl14_reg "} {
		_, err := Named(name)
		require.ErrorIs(t, err, ErrConfig)
	}
}

// The released copies have 304,372,736 values each.
func TestReleasedSize(t *testing.T) {
	total := 0
	for _, p := range Spec(ViTL14Reg()) {
		total += shapes.Make(dtypes.Float32, p.Shape...).Size()
	}
	require.Equal(t, 304372736, total)
}

func TestValidate(t *testing.T) {
	for name, spoil := range map[string]func(c *Config){
		"zero width":     func(c *Config) { c.EmbedDim = 0 },
		"huge width":     func(c *Config) { c.EmbedDim = 1 << 40 },
		"no blocks":      func(c *Config) { c.Depth = 0 },
		"heads":          func(c *Config) { c.NumHeads = 7 },
		"no heads":       func(c *Config) { c.NumHeads = 0 },
		"patch":          func(c *Config) { c.PatchSize = -14 },
		"grid":           func(c *Config) { c.Grid = 0 },
		"registers":      func(c *Config) { c.Registers = -1 },
		"ratio":          func(c *Config) { c.MLPRatio = 0 },
		"ratio NaN":      func(c *Config) { c.MLPRatio = math.NaN() },
		"ratio infinite": func(c *Config) { c.MLPRatio = math.Inf(1) },
		"offset":         func(c *Config) { c.InterpolateOffset = -0.1 },
		"offset NaN":     func(c *Config) { c.InterpolateOffset = math.NaN() },
		"epsilon":        func(c *Config) { c.NormEpsilon = 0 },
		"epsilon NaN":    func(c *Config) { c.NormEpsilon = math.NaN() },
	} {
		cfg := ViTL14Reg()
		spoil(&cfg)
		require.ErrorIs(t, cfg.Validate(), ErrConfig, name)
	}
}

func TestPositionMatrix(t *testing.T) {
	for name, cfg := range map[string]Config{"smooth": ViTL14Reg(), "sharp": ViTL14()} {
		t.Run(name, func(t *testing.T) {
			for _, out := range []int{1, 2, 5, 36, 37, 38, 60, 200} {
				m := cfg.positionMatrix(out)
				for d := range out {
					sum := 0.0
					for _, w := range m[d*cfg.Grid : (d+1)*cfg.Grid] {
						sum += float64(w)
					}
					require.InDelta(t, 1, sum, 1e-6, "row %d of %d", d, out)
				}
			}
		})
	}
	// At the table's own size, and without an offset, nothing changes.
	cfg := ViTL14()
	cfg.InterpolateOffset = 0
	for _, antialias := range []bool{false, true} {
		cfg.InterpolateAntialias = antialias
		m := cfg.positionMatrix(cfg.Grid)
		for i, w := range m {
			want := 0.0
			if i%(cfg.Grid+1) == 0 {
				want = 1
			}
			require.InDelta(t, want, w, 1e-12)
		}
	}
}
