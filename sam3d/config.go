// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import (
	"errors"
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
	depthTokens int     // patches for the checkpoint's depth model; 0 is its finest level
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

// readConfig reads the configuration of either layout. The error wraps ErrConfig and names all that is wrong.
func readConfig(c *weights.Checkpoint) (config, error) {
	cfg, faults := released(), &faults{}
	if c.Layout == weights.MLX {
		cfg.readBundle(tree{c.Config, "config.json", faults})
	} else {
		cfg.readOfficial(c.YAML, faults)
	}
	if err := faults.err(); err != nil {
		return config{}, err
	}
	if err := cfg.check(); err != nil {
		return config{}, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return cfg, nil
}

// Bounds of what no model checks.
const (
	maxImageSize   = 1 << 11 // of the condition images
	maxPruneRadius = 1 << 6
)

// poseLatents are the latents that the pose is made of, and their numbers of values.
var poseLatents = []flow.StructureLatent{
	{Name: "6drotation_normalized", Channels: 6, Tokens: 1}, {Name: "translation", Channels: 3, Tokens: 1},
	{Name: "scale", Channels: 3, Tokens: 1}, {Name: "translation_scale", Channels: 1, Tokens: 1},
}

// check reports what no model can have, and numbers that do not fit from one stage to the next. It lists the tensors of
// no model: until a configuration is valid, that list may be of any length.
func (c *config) check() error {
	if err := errors.Join(
		c.structureTokens.Validate(), c.latentTokens.Validate(), c.structure.Validate(), c.structureDecoder.Validate(),
		c.latent.Validate(), c.gaussians.Validate(), c.gaussians4.Validate(), c.mesh.Validate(),
		checkSampling("structure", c.structureSampling), checkSampling("latent", c.latentSampling), c.checkValues(),
	); err != nil {
		return err
	}
	return c.checkFit()
}

// checkValues checks what belongs to no model.
func (c *config) checkValues() error {
	var errs []error
	if c.imageSize < 1 || c.imageSize > maxImageSize {
		errs = append(errs, fmt.Errorf("condition images of side %d, must be 1 to %d", c.imageSize, maxImageSize))
	}
	if c.pruneRadius < 0 || c.pruneRadius > maxPruneRadius {
		errs = append(errs, fmt.Errorf("prune radius %d, must be 0 to %d", c.pruneRadius, maxPruneRadius))
	}
	if c.depthTokens < 0 {
		errs = append(errs, fmt.Errorf("%d patches for the depth model", c.depthTokens))
	}
	if !(c.clipBeyond >= 0) {
		errs = append(errs, fmt.Errorf("point maps clipped beyond %g depths", c.clipBeyond))
	}
	for _, v := range slices.Concat(c.latentScale.Mean, c.latentScale.Std) {
		if v-v != 0 {
			errs = append(errs, fmt.Errorf("mean or deviation %g of the latents", v))
		}
	}
	if _, err := c.convention.Decode(pose.Latents{}, pose.NoScene()); errors.Is(err, pose.ErrConvention) {
		errs = append(errs, fmt.Errorf("%w: %q", pose.ErrConvention, c.convention))
	}
	for _, want := range poseLatents {
		if !slices.Contains(c.structure.Latents, want) {
			errs = append(errs, fmt.Errorf("the structure flow has no latent %q of %d values", want.Name, want.Channels))
		}
	}
	return errors.Join(errs...)
}

func checkSampling(what string, s flow.Sampling) error {
	if s.Steps < 1 || s.Steps > MaxSteps {
		return fmt.Errorf("%d steps of the %s flow, must be 1 to %d", s.Steps, what, MaxSteps)
	}
	_, err := flow.NewSchedule(s.Steps, s.Rescale, s.Reversed)
	return err
}

// checkFit reports numbers that do not fit from one stage to the next.
func (c *config) checkFit() error {
	shape := c.structure.Latents[slices.IndexFunc(c.structure.Latents, func(l flow.StructureLatent) bool {
		return l.Name == flow.ShapeLatent // there is one in a valid configuration
	})]
	grid := cubeSide(shape.Tokens) << (len(c.structureDecoder.Channels) - 1)
	var errs []error
	for _, fit := range []struct {
		what      string
		have, own int
	}{
		{"width of the structure flow's condition", c.structure.CondWidth, c.structureTokens.Width()},
		{"width of the latent flow's condition", c.latent.CondWidth, c.latentTokens.Width()},
		{"channels of the structure decoder's latent", c.structureDecoder.LatentChannels, shape.Channels},
		{"channels of the structure decoder's occupancy", c.structureDecoder.OutChannels, 1},
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
			errs = append(errs, fmt.Errorf("%s: %d, which does not fit %d of the stage before", fit.what, fit.have, fit.own))
		}
	}
	return errors.Join(errs...)
}

// maxSide bounds the side of a cube of tokens.
const maxSide = 1 << 8

// cube returns n³, or 0 if that is out of range.
func cube(n int) int {
	if n < 1 || n > maxSide {
		return 0
	}
	return n * n * n
}

// cubeSide is the inverse of cube. It returns 0 for a number that is no cube.
func cubeSide(cells int) int {
	for n := range maxSide + 1 {
		if cube(n) == cells {
			return n
		}
	}
	return 0
}
