// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flow

import (
	"fmt"
	"slices"

	"github.com/gomlx/gomlx/core/tensors"
)

// ShapeLatent is the latent that every structure model has. It forms a stream of its own, which attends only to
// itself: the shape's trajectory does not depend on the other latents.
const ShapeLatent = "shape"

// StructureConfig holds the hyperparameters of Structure. Comments give the released values.
type StructureConfig struct {
	Width     int     // channels of the blocks; 1024
	Heads     int     // of every attention; 16
	Blocks    int     // 24
	MLPRatio  float64 // hidden over outer channels of the perceptrons; 4
	CondWidth int     // channels of the condition tokens; 1024

	Latents []StructureLatent
	Merged  []StructureStream // latents that share weights; one that is in none is a stream of its own name

	StepInput        bool // is told the step size ("is_shortcut_model"); true
	ZeroCondition    bool // the unconditional pass drops the condition ("force_zeros_cond"), or else ignores the flag; true
	SharedModulation bool // one modulation for all blocks ("share_mod"); false
	CrossNorm        bool // norm of the queries and keys of cross attentions ("qk_rms_norm_cross"); false
}

// StructureLatent is one latent. Its position embedding is a stored table, learnt or not.
type StructureLatent struct {
	Name     string
	Channels int
	Tokens   int // of shape: the cells of a cubic grid, index (x*n + y)*n + z
}

// StructureStream is a group of latents whose tokens, in this order, share the weights of the blocks.
type StructureStream struct {
	Name    string
	Latents []string
}

// ReleasedStructure returns the hyperparameters of the released checkpoint.
func ReleasedStructure() StructureConfig {
	return StructureConfig{
		Width: 1024, Heads: 16, Blocks: 24, MLPRatio: 4, CondWidth: 1024,
		Latents: []StructureLatent{
			{Name: "6drotation_normalized", Channels: 6, Tokens: 1},
			{Name: "scale", Channels: 3, Tokens: 1},
			{Name: ShapeLatent, Channels: 8, Tokens: 16 * 16 * 16},
			{Name: "translation", Channels: 3, Tokens: 1},
			{Name: "translation_scale", Channels: 1, Tokens: 1},
		},
		Merged: []StructureStream{{
			Name:    "6drotation_normalized",
			Latents: []string{"6drotation_normalized", "translation", "scale", "translation_scale"},
		}},
		StepInput: true, ZeroCondition: true,
	}
}

// ReleasedStructureSampling returns how the released model is sampled.
func ReleasedStructureSampling() Sampling {
	return Sampling{Steps: 25, Rescale: 3, Guidance: Guidance{Weight: Weight{Strength: 7, From: 0, To: 500}}}
}

// DistilledStructureSampling returns how the released model is sampled in few steps without guidance.
func DistilledStructureSampling(steps int) Sampling {
	return Sampling{Steps: steps, Rescale: 3, Step: StepUniform}
}

// Bounds that keep a hostile configuration from asking for an endless list of tensors.
const (
	maxBlocks   = 1 << 8 // of transformers
	maxLatents  = 1 << 5
	maxIOBlocks = 1 << 4
)

// Validate reports the first hyperparameter that no model can have. The error wraps ErrConfig.
func (cfg StructureConfig) Validate() error {
	for _, v := range []struct {
		name  string
		value int
	}{{"width", cfg.Width}, {"heads", cfg.Heads}, {"blocks", cfg.Blocks}, {"condition width", cfg.CondWidth}, {"hidden width", cfg.hidden()}} {
		if v.value < 1 || v.value > 1<<20 {
			return fmt.Errorf("%w: structure: %s %d", ErrConfig, v.name, v.value)
		}
	}
	if cfg.Blocks > maxBlocks || len(cfg.Latents) > maxLatents {
		return fmt.Errorf("%w: structure: blocks %d, latents %d", ErrConfig, cfg.Blocks, len(cfg.Latents))
	}
	if cfg.Width%cfg.Heads != 0 {
		return fmt.Errorf("%w: structure: width %d is no multiple of %d heads", ErrConfig, cfg.Width, cfg.Heads)
	}
	latents := make(map[string]bool)
	for _, l := range cfg.Latents {
		if l.Name == "" || latents[l.Name] {
			return fmt.Errorf("%w: structure: latent name %q is empty or used twice", ErrConfig, l.Name)
		}
		if l.Channels < 1 || l.Channels > 1<<20 || l.Tokens < 1 || l.Tokens > 1<<20 {
			return fmt.Errorf("%w: structure: latent %q of %d tokens, %d channels", ErrConfig, l.Name, l.Tokens, l.Channels)
		}
		latents[l.Name] = true
	}
	return cfg.validateStreams(latents)
}

func (cfg StructureConfig) validateStreams(latents map[string]bool) error {
	merged := make(map[string]bool)
	for _, s := range cfg.Merged {
		if len(s.Latents) == 0 {
			return fmt.Errorf("%w: structure: stream %q has no latents", ErrConfig, s.Name)
		}
		for _, name := range s.Latents {
			if !latents[name] || merged[name] || name == ShapeLatent {
				return fmt.Errorf("%w: structure: latent %q cannot be in stream %q: unknown, taken or protected", ErrConfig, name, s.Name)
			}
			merged[name] = true
		}
	}
	streams := make(map[string]bool)
	for _, s := range cfg.streams() {
		if s.Name == "" || streams[s.Name] {
			return fmt.Errorf("%w: structure: stream name %q is empty or used twice", ErrConfig, s.Name)
		}
		streams[s.Name] = true
	}
	if !latents[ShapeLatent] {
		return fmt.Errorf("%w: structure: no latent %q", ErrConfig, ShapeLatent)
	}
	return nil
}

func (cfg StructureConfig) hidden() int { return int(float64(cfg.Width) * cfg.MLPRatio) }

// streams returns the streams: the merged ones, then each remaining latent.
func (cfg StructureConfig) streams() []StructureStream {
	streams := slices.Clone(cfg.Merged)
	for _, l := range cfg.Latents {
		if !slices.ContainsFunc(cfg.Merged, func(s StructureStream) bool { return slices.Contains(s.Latents, l.Name) }) {
			streams = append(streams, StructureStream{Name: l.Name, Latents: []string{l.Name}})
		}
	}
	return streams
}

// fewTokens is the number of tokens up to which a stream attends to the condition without keys and values.
const fewTokens = 8

// few reports whether a stream attends by crossFew.
func (cfg StructureConfig) few(s StructureStream) bool {
	tokens := 0
	for _, name := range s.Latents {
		tokens += cfg.latent(name).Tokens
	}
	return tokens <= fewTokens && !cfg.CrossNorm
}

func (cfg StructureConfig) names() []string {
	names := make([]string, len(cfg.Latents))
	for i, l := range cfg.Latents {
		names[i] = l.Name
	}
	return names
}

func (cfg StructureConfig) latent(name string) StructureLatent {
	return cfg.Latents[slices.IndexFunc(cfg.Latents, func(l StructureLatent) bool { return l.Name == name })]
}

// Noise draws the state that sampling starts from, latent by latent in the ascending order of their names, from the
// seed's stream of StructureStage. The arrays belong to the caller.
func (cfg StructureConfig) Noise(seed uint64, batch int) (Latents, error) {
	if batch < 1 || batch > maxBatch {
		return nil, fmt.Errorf("%w: batch of %d, must be 1 to %d", ErrInput, batch, maxBatch)
	}
	stream, noise := NewNoise(seed, StructureStage), make(Latents)
	for _, name := range slices.Sorted(slices.Values(cfg.names())) {
		l := cfg.latent(name)
		values := make([]float32, batch*l.Tokens*l.Channels)
		stream.Fill(values)
		noise[name] = tensors.FromFlatDataAndDimensions(values, batch, l.Tokens, l.Channels)
	}
	return noise, nil
}

const maxBatch = 1024
