// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package decoder

import (
	"fmt"
	"math"

	"github.com/gomlx3d/image3d/sparse"
	"github.com/gomlx3d/image3d/splat"
	"github.com/gomlx3d/image3d/weights"
)

// GaussiansConfig holds the hyperparameters of GaussiansDecoder. Comments give the released values and the keys below
// "representation_config" of the official configuration.
type GaussiansConfig struct {
	TorsoConfig

	Gaussians   int     // splats of each voxel ("num_gaussians"); 32, or 4 in the light decoder
	Rates       Rates   // "lr"
	VoxelSize   float64 // edge, in voxels, of the cube that a voxel's splats stay in ("voxel_size"); 1.5
	Perturb     bool    // splats start at the places of offset_perturbation, not in the middle ("perturb_offset"); true
	Kernel      float64 // smallest scale ("3d_filter_kernel_size"); 0.0009
	ScaleBias   float64 // scale of an output of 0 ("scaling_bias"); 0.004
	ExpScale    bool    // exp, not softplus, makes scales ("scaling_activation" exp); false
	OpacityBias float64 // opacity of an output of 0 ("opacity_bias"); 0.1
}

// Rates multiply the network's outputs.
type Rates struct {
	Position float64 // "_xyz"; 1
	SH       float64 // "_features_dc"; 1
	Scaling  float64 // "_scaling"; 1
	Rotation float64 // "_rotation"; 0.1
	Opacity  float64 // "_opacity"; 1
}

// ReleasedGaussians returns the hyperparameters of slat_decoder_gs: 32 splats in each voxel.
func ReleasedGaussians() GaussiansConfig {
	return GaussiansConfig{
		TorsoConfig: ReleasedTorso(), Gaussians: 32, VoxelSize: 1.5, Perturb: true,
		Rates:  Rates{Position: 1, SH: 1, Scaling: 1, Rotation: 0.1, Opacity: 1},
		Kernel: 0.0009, ScaleBias: 0.004, OpacityBias: 0.1,
	}
}

// ReleasedGaussians4 returns the hyperparameters of slat_decoder_gs_4, the light decoder of 4 splats in each voxel.
func ReleasedGaussians4() GaussiansConfig {
	cfg := ReleasedGaussians()
	cfg.Gaussians = 4
	return cfg
}

// maxGaussians bounds the splats of a voxel.
const maxGaussians = 1 << 10

// Validate reports the first hyperparameter that no model can have. The error wraps ErrConfig.
func (cfg GaussiansConfig) Validate() error {
	if err := cfg.validate("gaussians", sparse.MaxGrid); err != nil {
		return err
	}
	if cfg.Gaussians < 1 || cfg.Gaussians > maxGaussians {
		return fmt.Errorf("%w: gaussians: %d in a voxel, must be 1 to %d", ErrConfig, cfg.Gaussians, maxGaussians)
	}
	for _, v := range []struct {
		name  string
		value float64
	}{
		{"position", cfg.Rates.Position}, {"colour", cfg.Rates.SH}, {"scaling", cfg.Rates.Scaling},
		{"rotation", cfg.Rates.Rotation}, {"opacity", cfg.Rates.Opacity},
	} {
		if !(math.Abs(v.value) < 1e6) {
			return fmt.Errorf("%w: gaussians: rate %g of %s", ErrConfig, v.value, v.name)
		}
	}
	if !(cfg.VoxelSize > 0 && cfg.VoxelSize < 1e6) {
		return fmt.Errorf("%w: gaussians: voxel size %g", ErrConfig, cfg.VoxelSize)
	}
	if err := cfg.activation().Validate(); err != nil {
		return fmt.Errorf("%w: gaussians: %w", ErrConfig, err)
	}
	return nil
}

// activation says how the outputs become Gaussians in the object frame.
func (cfg GaussiansConfig) activation() splat.Activation {
	a := splat.DefaultActivation()
	a.Kernel, a.ScaleBias, a.OpacityBias, a.Exp = cfg.Kernel, cfg.ScaleBias, cfg.OpacityBias, cfg.ExpScale
	return a
}

// Perturbation returns the values that the original gives offset_perturbation when it makes a new model: the atanh of
// points of the Hammersley sequence, which fill the cube of VoxelSize evenly. The decoder takes those of the
// checkpoint. VoxelSize must be above 1, or some are not finite.
//
//	out [Gaussians, 3]
func (cfg GaussiansConfig) Perturbation() []float32 {
	out := make([]float32, 0, 3*cfg.Gaussians)
	for g := range cfg.Gaussians {
		for _, u := range hammersley(g, cfg.Gaussians) {
			out = append(out, float32(math.Atanh((2*u-1)/cfg.VoxelSize)))
		}
	}
	return out
}

// hammersley returns point i of a sequence of n in the unit cube.
func hammersley(i, n int) [3]float64 {
	return [3]float64{float64(i) / float64(n), radicalInverse(i, 2), radicalInverse(i, 3)}
}

// radicalInverse mirrors the digits of i about the point.
func radicalInverse(i, base int) float64 {
	value, weight := 0.0, 1.0
	for ; i > 0; i /= base {
		weight /= float64(base)
		value += weight * float64(i%base)
	}
	return value
}

// channels is the number of outputs for each voxel: 14 for each of its splats.
func (cfg GaussiansConfig) channels() int { return 14 * cfg.Gaussians }

// GaussiansSpec lists the parameters of a Gaussian decoder by their checkpoint names. The configuration must be valid.
func GaussiansSpec(cfg GaussiansConfig) weights.Spec {
	spec := cfg.spec(cfg.Width, cfg.channels())
	spec["offset_perturbation"] = weights.Param{Shape: []int{cfg.Gaussians, 3}}
	return spec
}
