// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flow

import (
	"fmt"
	"math"

	"github.com/gomlx3d/image3d/sparse"
	"github.com/gomlx3d/image3d/weights"
)

// LatentName is the name that the one latent of a Latent has in Sampling and Guidance.
const LatentName = "latent"

// LatentConfig holds the hyperparameters of Latent. Comments give the released values.
type LatentConfig struct {
	Resolution int     // of the grid of voxels; the blocks work at half of it; 64
	Channels   int     // of the latents; 8
	Width      int     // channels of the blocks; 1024
	Heads      int     // of every attention; 16
	Blocks     int     // 24
	MLPRatio   float64 // hidden over outer channels of the perceptrons; 4
	CondWidth  int     // channels of the condition tokens; 1024

	IOWidth  int // channels of the residual blocks before and after ("io_block_channels"); 128
	IOBlocks int // residual blocks on each side, of which one changes the resolution; 2

	HeadNorm      bool // norm of the queries and keys of self attention ("qk_rms_norm"); true
	StepInput     bool // is told the step size ("is_shortcut_model"); false
	ZeroCondition bool // the unconditional pass drops the condition ("force_zeros_cond"), or else ignores the flag; true
}

// ReleasedLatent returns the hyperparameters of the released checkpoint.
func ReleasedLatent() LatentConfig {
	return LatentConfig{
		Resolution: 64, Channels: 8, Width: 1024, Heads: 16, Blocks: 24, MLPRatio: 4, CondWidth: 1024,
		IOWidth: 128, IOBlocks: 2, HeadNorm: true, ZeroCondition: true,
	}
}

// ReleasedLatentSampling returns how the released model is sampled.
func ReleasedLatentSampling() Sampling {
	return Sampling{Steps: 25, Rescale: 1, Step: StepAbsent, Guidance: Guidance{Weight: Weight{Strength: 1, From: 0, To: 500}}}
}

// LatentScale takes the latents from the scale of the flow to that of the decoders: x Std + Mean for each channel.
type LatentScale struct{ Mean, Std []float32 }

// ReleasedLatentScale returns the statistics that belong to the released decoders (pipeline.yaml).
func ReleasedLatentScale() LatentScale {
	return LatentScale{
		Mean: []float32{0.12211431, 0.37204156, -1.26521907, -2.05276058, -3.10432536, -0.11294304, -0.85146744, 0.45506954},
		Std:  []float32{2.37326008, 2.13174402, 2.2413953, 2.30589401, 2.1191894, 1.8969511, 2.41684989, 2.08374642},
	}
}

// apply returns x [N, C] on the scale of the decoders.
func (s LatentScale) apply(x []float32) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		c := i % len(s.Mean)
		out[i] = v*s.Std[c] + s.Mean[c]
	}
	return out
}

func (s LatentScale) check(channels int) error {
	if len(s.Mean) != channels || len(s.Std) != channels {
		return fmt.Errorf("%w: latent: %d means and %d deviations for %d channels", ErrInput, len(s.Mean), len(s.Std), channels)
	}
	for i := range channels {
		if m, d := float64(s.Mean[i]), float64(s.Std[i]); math.IsNaN(m-m) || math.IsNaN(d-d) {
			return fmt.Errorf("%w: latent: scale of channel %d is %g, %g", ErrInput, i, m, d)
		}
	}
	return nil
}

// Validate reports the first hyperparameter that no model can have. The error wraps ErrConfig.
func (cfg LatentConfig) Validate() error {
	for _, v := range []struct {
		name  string
		value int
	}{
		{"channels", cfg.Channels}, {"width", cfg.Width}, {"heads", cfg.Heads}, {"blocks", cfg.Blocks},
		{"condition width", cfg.CondWidth}, {"hidden width", cfg.hidden()}, {"outer width", cfg.IOWidth}, {"outer blocks", cfg.IOBlocks},
	} {
		if v.value < 1 || v.value > 1<<20 {
			return fmt.Errorf("%w: latent: %s %d", ErrConfig, v.name, v.value)
		}
	}
	if cfg.Blocks > maxBlocks || cfg.IOBlocks > maxIOBlocks {
		return fmt.Errorf("%w: latent: blocks %d, outer blocks %d", ErrConfig, cfg.Blocks, cfg.IOBlocks)
	}
	if cfg.Width%cfg.Heads != 0 {
		return fmt.Errorf("%w: latent: width %d is no multiple of %d heads", ErrConfig, cfg.Width, cfg.Heads)
	}
	if cfg.Resolution < 2 || cfg.Resolution%2 != 0 || cfg.Resolution > sparse.MaxGrid {
		return fmt.Errorf("%w: latent: resolution %d, must be even, 2 to %d", ErrConfig, cfg.Resolution, sparse.MaxGrid)
	}
	return nil
}

func (cfg LatentConfig) hidden() int { return int(float64(cfg.Width) * cfg.MLPRatio) }

// Noise draws the state that sampling starts from, from the seed's stream of LatentStage.
//
//	out [voxels, Channels]
func (cfg LatentConfig) Noise(seed uint64, voxels int) []float32 {
	values := make([]float32, max(voxels, 0)*cfg.Channels)
	NewNoise(seed, LatentStage).Fill(values)
	return values
}

// LatentSpec lists the parameters of a latent model by their checkpoint names, relative to "reverse_fn.backbone.".
// The configuration must be valid.
func LatentSpec(cfg LatentConfig) weights.Spec {
	spec := make(weights.Spec)
	addPerceptron(spec, "t_embedder.mlp.", timeFrequencies, cfg.Width, cfg.Width)
	if cfg.StepInput {
		addPerceptron(spec, "d_embedder.mlp.", timeFrequencies, cfg.Width, cfg.Width)
	}
	addLinear(spec, "input_layer.", cfg.Channels, cfg.IOWidth)
	addLinear(spec, "out_layer.", cfg.IOWidth, cfg.Channels)
	last := cfg.IOBlocks - 1
	for i := range last {
		cfg.addResidual(spec, fmt.Sprintf("input_blocks.%d.", i), cfg.IOWidth, cfg.IOWidth)
		cfg.addResidual(spec, fmt.Sprintf("out_blocks.%d.", i+1), 2*cfg.IOWidth, cfg.IOWidth)
	}
	cfg.addResidual(spec, fmt.Sprintf("input_blocks.%d.", last), cfg.IOWidth, cfg.Width)
	cfg.addResidual(spec, "out_blocks.0.", 2*cfg.Width, cfg.IOWidth)
	block := cfg.blockSpec()
	for i := range cfg.Blocks {
		spec.Add(fmt.Sprintf("blocks.%d.", i), block)
	}
	return spec
}

func (cfg LatentConfig) addResidual(spec weights.Spec, prefix string, in, out int) {
	addNorm(spec, prefix+"norm1.", in)
	spec[prefix+"conv1.conv.weight"] = weights.Param{Shape: []int{out, 3, 3, 3, in}}
	spec[prefix+"conv1.conv.bias"] = weights.Param{Shape: []int{out}}
	spec[prefix+"conv2.conv.weight"] = weights.Param{Shape: []int{out, 3, 3, 3, out}}
	spec[prefix+"conv2.conv.bias"] = weights.Param{Shape: []int{out}}
	addLinear(spec, prefix+"emb_layers.1.", cfg.Width, 2*out)
	if in != out {
		addLinear(spec, prefix+"skip_connection.", in, out)
	}
}

func (cfg LatentConfig) blockSpec() weights.Spec {
	spec := make(weights.Spec)
	addLinear(spec, "adaLN_modulation.1.", cfg.Width, 6*cfg.Width)
	addNorm(spec, "norm2.", cfg.Width)
	addLinear(spec, "self_attn.to_qkv.", cfg.Width, 3*cfg.Width)
	addLinear(spec, "self_attn.to_out.", cfg.Width, cfg.Width)
	if cfg.HeadNorm {
		gamma := weights.Param{Shape: []int{cfg.Heads, cfg.Width / cfg.Heads}}
		spec["self_attn.q_rms_norm.gamma"], spec["self_attn.k_rms_norm.gamma"] = gamma, gamma
	}
	addLinear(spec, "cross_attn.to_q.", cfg.Width, cfg.Width)
	addLinear(spec, "cross_attn.to_kv.", cfg.CondWidth, 2*cfg.Width)
	addLinear(spec, "cross_attn.to_out.", cfg.Width, cfg.Width)
	addPerceptron(spec, "mlp.mlp.", cfg.Width, cfg.hidden(), cfg.Width)
	return spec
}
