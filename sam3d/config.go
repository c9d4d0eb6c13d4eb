// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import (
	"fmt"
	"slices"

	"github.com/gomlx3d/image3d/sam3d/condition"
	"github.com/gomlx3d/image3d/sam3d/decoder"
	"github.com/gomlx3d/image3d/sam3d/flow"
	"github.com/gomlx3d/image3d/sam3d/input"
	"github.com/gomlx3d/image3d/sam3d/pose"
	"github.com/gomlx3d/image3d/weights"
)

// config is everything that a checkpoint's configuration decides. What a checkpoint leaves out, or all of it where
// there is no configuration, has the released value.
type config struct {
	imageSize   int     // side of the condition images; 518
	clipBeyond  float64 // of the point map, in object depths; 0 is off
	pruneRadius int     // of the occupied voxels ("downsample_ss_dist"); 1
	convention  pose.Convention

	structureTokens, latentTokens condition.Config

	structure         flow.StructureConfig
	structureSampling flow.Sampling
	structureDecoder  decoder.StructureConfig

	latent         flow.LatentConfig
	latentSampling flow.Sampling
	latentScale    flow.LatentScale

	gaussians, gaussians4 decoder.GaussiansConfig
	mesh                  decoder.MeshConfig
}

func released() config {
	return config{
		imageSize: input.Size, pruneRadius: 1, convention: pose.ScaleShiftInvariant,
		structureTokens: condition.ReleasedStructure(), latentTokens: condition.ReleasedLatent(),
		structure: flow.ReleasedStructure(), structureSampling: flow.ReleasedStructureSampling(),
		structureDecoder: decoder.ReleasedStructure(),
		latent:           flow.ReleasedLatent(), latentSampling: flow.ReleasedLatentSampling(), latentScale: flow.ReleasedLatentScale(),
		gaussians: decoder.ReleasedGaussians(), gaussians4: decoder.ReleasedGaussians4(), mesh: decoder.ReleasedMesh(),
	}
}

// readConfig reads the configuration of either layout. The error wraps ErrConfig.
func readConfig(c *weights.Checkpoint) (config, error) {
	cfg := released()
	var err error
	if c.Layout == weights.MLX {
		err = cfg.readBundle(newTree(c.Config, "config.json"))
	} else {
		err = cfg.readOfficial(c.YAML)
	}
	if err != nil {
		return config{}, err
	}
	return cfg, cfg.check()
}

// check reports numbers that do not fit from one stage to the next.
func (c *config) check() error {
	shape := slices.IndexFunc(c.structure.Latents, func(l flow.StructureLatent) bool { return l.Name == flow.ShapeLatent })
	if shape < 0 {
		return fmt.Errorf("%w: the structure flow has no latent %q", ErrConfig, flow.ShapeLatent)
	}
	grid := cubeSide(c.structure.Latents[shape].Tokens) << (len(c.structureDecoder.Channels) - 1)
	for _, fit := range []struct {
		what      string
		have, own int
	}{
		{"channels of the structure decoder's latent", c.structureDecoder.LatentChannels, c.structure.Latents[shape].Channels},
		{"resolution of the latent flow", c.latent.Resolution, grid},
		{"resolution of the Gaussian decoder", c.gaussians.Resolution, grid},
		{"resolution of the light Gaussian decoder", c.gaussians4.Resolution, grid},
		{"resolution of the mesh decoder", c.mesh.Resolution, grid},
		{"channels of the Gaussian decoder's latents", c.gaussians.LatentChannels, c.latent.Channels},
		{"channels of the light Gaussian decoder's latents", c.gaussians4.LatentChannels, c.latent.Channels},
		{"channels of the mesh decoder's latents", c.mesh.LatentChannels, c.latent.Channels},
		{"means of the latents", len(c.latentScale.Mean), c.latent.Channels},
		{"deviations of the latents", len(c.latentScale.Std), c.latent.Channels},
	} {
		if fit.have != fit.own {
			return fmt.Errorf("%w: %s: %d, which does not fit %d of the stage before", ErrConfig, fit.what, fit.have, fit.own)
		}
	}
	if steps := max(c.structureSampling.Steps, c.latentSampling.Steps); min(c.structureSampling.Steps, c.latentSampling.Steps) < 1 || steps > MaxSteps {
		return fmt.Errorf("%w: %d and %d steps", ErrConfig, c.structureSampling.Steps, c.latentSampling.Steps)
	}
	return nil
}

// cubeSide returns n for n³ cells, and 0 for another number.
func cubeSide(cells int) int {
	for n := 1; n*n*n <= cells; n++ {
		if n*n*n == cells {
			return n
		}
	}
	return 0
}
