// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
)

// requireCases skips the test where the module's own reference cases do not include this component.
func requireCases(t *testing.T) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(fixture.Dir(), "sam3", "*.json"))
	require.NoError(t, err)
	if len(paths) == 0 {
		t.Skip("no reference case of SAM 3; REFERENCE_DIR names a folder that has some")
	}
}

// configOf returns the configuration of a reference case, with the heads that its parameters have.
func configOf(t *testing.T, c *fixture.Case) Config {
	t.Helper()
	cfg := Config{StabilityDelta: 0.05, StabilityThreshold: 0.98}
	c.Decode(t, &cfg)
	kind, _, _ := strings.Cut(c.Name, "_")
	cfg.Interactive = kind == "point" || kind == "interactive"
	cfg.Grounding = !cfg.Interactive
	return cfg
}

// modelOf returns the network of a reference case. It is closed with the test.
func modelOf(t *testing.T, c *fixture.Case) *Model {
	t.Helper()
	model, err := New(fixture.Backend(t), configOf(t, c), c.Tensors.Sub("param/"))
	require.NoError(t, err)
	t.Cleanup(model.Close)
	return model
}
