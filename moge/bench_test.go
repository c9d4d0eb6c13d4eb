// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/weights"
)

// releasedWeights are random weights of the released size. The work of MoGe-3's refiner depends on the depth that it is
// given: here that of a wall, the same everywhere.
func releasedWeights(cfg Config) *weights.Set {
	all := fixture.RandomWeights(Spec(cfg))
	if cfg.Version == 3 {
		for _, name := range []string{"points_head.output_blocks.4.weight", "refiner.out_proj.weight", "refiner.out_proj.bias"} {
			all[name] = fixture.Fill(0, all[name].Shape...)
		}
	}
	return weights.NewSet(all)
}

// BenchmarkInfer runs the released networks, of random weights, on a picture of 518 x 518 pixels at the coarsest and at
// the finest level. The weights take up to 1.5 GB.
func BenchmarkInfer(b *testing.B) {
	if testing.Short() {
		b.Skip("full size")
	}
	for version, cfg := range []Config{1: V1(), 2: V2(), 3: V3()} {
		for _, level := range []int{0, 9} {
			if version == 0 {
				continue
			}
			b.Run(fmt.Sprintf("v%d/level%d", version, level), func(b *testing.B) {
				m, err := New(fixture.Backend(b), cfg, releasedWeights(cfg))
				require.NoError(b, err)
				defer m.Close()
				image := testImage(518, 518)
				fixture.Benchmark(b, func() error {
					_, err := m.Infer(b.Context(), image, Options{ResolutionLevel: &level, FOVX: 60})
					return err
				})
			})
		}
	}
}
