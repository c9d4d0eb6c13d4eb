// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/moge"
	"github.com/gomlx3d/image3d/sam3d/condition"
	"github.com/gomlx3d/image3d/sam3d/decoder"
	"github.com/gomlx3d/image3d/sam3d/flow"
	"github.com/gomlx3d/image3d/weights"
)

// TestReleasedManifests compares what the released configuration expects with the names and shapes of the released
// checkpoints, where their lists lie beside the reference cases.
func TestReleasedManifests(t *testing.T) {
	folder := filepath.Join(filepath.Dir(filepath.Clean(fixture.Dir())), "manifest")
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("no lists of the released tensors: %v", err)
	}
	const generator, embedder = "_base_models.generator.reverse_fn.backbone.", "_base_models.condition_embedder."
	cfg := released()
	require.NoError(t, cfg.check())
	for _, m := range []struct {
		file, prefix string
		spec         weights.Spec
	}{
		{"ss_generator", generator, flow.StructureSpec(cfg.structure)},
		{"ss_condition_embedder", embedder, condition.Spec(cfg.structureTokens)},
		{"ss_decoder", "", decoder.StructureSpec(cfg.structureDecoder)},
		{"slat_generator", generator, flow.LatentSpec(cfg.latent)},
		{"slat_condition_embedder", embedder, condition.Spec(cfg.latentTokens)},
		{"slat_decoder_gs", "", decoder.GaussiansSpec(cfg.gaussians)},
		{"slat_decoder_gs_4", "", decoder.GaussiansSpec(cfg.gaussians4)},
		{"slat_decoder_mesh", "", decoder.MeshSpec(cfg.mesh)},
		{"moge1", "", moge.Spec(moge.V1())},
		{"moge2", "", moge.Spec(moge.V2())},
		{"moge3_mlx", "depth_model.", moge.Spec(moge.V3())},
	} {
		t.Run(m.file, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join(folder, m.file+".json"))
			require.NoError(t, err)
			var entries []struct {
				Name  string
				Shape []int
				// How another layout than the official one has it; absent if this is the official one.
				OfficialName  string `json:"official_name"`
				OfficialShape []int  `json:"official_shape"`
			}
			require.NoError(t, json.Unmarshal(data, &entries))
			listed := make(map[string][]int)
			for _, e := range entries {
				name, ok := strings.CutPrefix(e.Name, m.prefix)
				require.True(t, ok, e.Name)
				if e.OfficialShape != nil {
					require.Equal(t, name, e.OfficialName)
					e.Shape = e.OfficialShape
				}
				listed[name] = e.Shape
			}
			expected := make(map[string][]int)
			for name, p := range m.spec {
				expected[name] = p.Shape
			}
			require.Equal(t, listed, expected)
		})
	}
}
