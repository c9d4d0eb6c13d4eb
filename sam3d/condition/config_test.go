// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package condition

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/dinov2"
	"github.com/gomlx3d/image3d/internal/fixture"
)

func TestReleased(t *testing.T) {
	for _, c := range []struct {
		cfg                     Config
		tokens, tensors, values int
		manifest                string
	}{
		{ReleasedStructure(), 7528, 722, 634485760, "ss_condition_embedder.json"},
		{ReleasedLatent(), 5496, 699, 626054144, "slat_condition_embedder.json"},
	} {
		require.NoError(t, c.cfg.Validate())
		require.Equal(t, c.tokens, c.cfg.Tokens())
		require.Equal(t, 1024, c.cfg.Width())
		spec, total := Spec(c.cfg), 0
		for _, p := range spec {
			total += shapes.Make(dtypes.Float32, p.Shape...).Size()
		}
		require.Len(t, spec, c.tensors)
		require.Equal(t, c.values, total)
		checkManifest(t, c.cfg, filepath.Join(filepath.Dir(fixture.Dir()), "manifest", c.manifest))
	}
}

// checkManifest compares the expected parameters with a list of those of the released checkpoint, if it is there.
func checkManifest(t *testing.T, cfg Config, path string) {
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return
	}
	require.NoError(t, err)
	var list []struct {
		Name  string
		Shape []int
	}
	require.NoError(t, json.Unmarshal(data, &list))
	spec := Spec(cfg)
	require.Len(t, list, len(spec))
	for _, e := range list {
		require.Equal(t, e.Shape, spec[e.Name[len("_base_models.condition_embedder."):]].Shape, e.Name)
	}
}

func TestValidate(t *testing.T) {
	for name, spoil := range map[string]func(c *Config){
		"nothing":            func(c *Config) { *c = Config{} },
		"many embedders":     func(c *Config) { c.Embedders = make([]Embedder, 17) },
		"neither":            func(c *Config) { c.Embedders[0].Image = nil },
		"both":               func(c *Config) { c.Embedders[0].Points = c.Embedders[2].Points },
		"no inputs":          func(c *Config) { c.Embedders[0].Inputs = nil },
		"many inputs":        func(c *Config) { c.Embedders[0].Inputs = make([]Input, 7) },
		"unknown input":      func(c *Config) { c.Embedders[0].Inputs[0].Name = "depth" },
		"points for images":  func(c *Config) { c.Embedders[0].Inputs[0].Name = PointMap },
		"images for points":  func(c *Config) { c.Embedders[2].Inputs[0].Name = Mask },
		"backbone":           func(c *Config) { c.Embedders[1].Image.Backbone = dinov2.Config{} },
		"image size":         func(c *Config) { c.Embedders[1].Image.InputSize = 520 },
		"no image size":      func(c *Config) { c.Embedders[1].Image.InputSize = 0 },
		"huge image":         func(c *Config) { c.Embedders[1].Image.InputSize = 14 << 9 * 2 },
		"point width":        func(c *Config) { c.Embedders[2].Points.Width = 500 },
		"no heads":           func(c *Config) { c.Embedders[2].Points.NumHeads = 0 },
		"point patch":        func(c *Config) { c.Embedders[2].Points.PatchSize = 7 },
		"no point patch":     func(c *Config) { c.Embedders[2].Points.PatchSize = 0 },
		"many windows":       func(c *Config) { c.Embedders[2].Points.InputSize = 1 << 13 },
		"remap":              func(c *Config) { c.Embedders[2].Points.Remap = "log" },
		"no remap":           func(c *Config) { c.Embedders[2].Points.Remap = "" },
		"projection":         func(c *Config) { c.ProjectionMultiplier = -1 },
		"projection NaN":     func(c *Config) { c.ProjectionMultiplier = math.NaN() },
		"tiny projection":    func(c *Config) { c.ProjectionMultiplier = 0.001 },
		"compression":        func(c *Config) { c.CompressionMultiplier = 65 },
		"drop":               func(c *Config) { c.Drop = []Modality{"points"} },
		"unequal widths":     func(c *Config) { c.ProjectionMultiplier = 0 },
		"compressing widths": func(c *Config) { c.CompressionMultiplier = 1 },
	} {
		cfg := ReleasedStructure()
		spoil(&cfg)
		require.ErrorIs(t, cfg.Validate(), ErrConfig, name)
	}
	unequal := ReleasedLatent()
	unequal.CompressionMultiplier = 1
	require.NoError(t, unequal.Validate())
	require.Equal(t, 1374, unequal.Tokens())
	unequal.Embedders[0].Image.Prenorm = false
	require.ErrorIs(t, unequal.Validate(), ErrConfig, "token counts")
}

func TestHidden(t *testing.T) {
	cfg := ReleasedStructure()
	require.Equal(t, 2816, cfg.hidden(4))
	require.Equal(t, 256, cfg.hidden(0.01))
	require.Equal(t, 768, cfg.hidden(1))
}

// TestRemap inverts each remap at points in front of the camera.
func TestRemap(t *testing.T) {
	for _, remap := range []Remap{RemapLinear, RemapSinh, RemapExp, RemapExpDisparity, RemapSinhExp} {
		for _, p := range [][3]float32{{0, 0, 1}, {1e-4, -3, 0.01}, {-50, 20, 90}} {
			q := remap.Invert(remap.Apply(p))
			for c := range p {
				require.InDelta(t, p[c], q[c], 1e-5*max(1, math.Abs(float64(p[c]))), "%s of %v", remap, p)
			}
		}
	}
}
