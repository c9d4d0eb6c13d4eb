// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import (
	"github.com/gomlx3d/image3d/sam3d/condition"
	"github.com/gomlx3d/image3d/sam3d/flow"
)

// readBundle reads config.json of the MLX layout, a flat list of numbers. Keys that are absent keep the released values.
func (c *config) readBundle(t tree) {
	integer := func(key string, into ...*int) {
		for _, field := range into {
			*field = t.at(key).int(*field)
		}
	}
	integer("hidden_size", &c.structure.Width, &c.latent.Width)
	integer("num_heads", &c.structure.Heads, &c.latent.Heads)
	integer("num_blocks", &c.structure.Blocks, &c.latent.Blocks)
	integer("cond_channels", &c.structure.CondWidth, &c.latent.CondWidth)
	integer("latent_channels", &c.structureDecoder.LatentChannels, &c.latent.Channels,
		&c.gaussians.LatentChannels, &c.gaussians4.LatentChannels, &c.mesh.LatentChannels)
	integer("resolution", &c.latent.Resolution, &c.gaussians.Resolution, &c.gaussians4.Resolution, &c.mesh.Resolution)
	integer("io_channels", &c.latent.IOWidth)
	integer("decoder_channels", &c.gaussians.Width, &c.gaussians4.Width, &c.mesh.Width)
	integer("decoder_heads", &c.gaussians.Heads, &c.gaussians4.Heads, &c.mesh.Heads)
	integer("decoder_blocks", &c.gaussians.Blocks, &c.gaussians4.Blocks, &c.mesh.Blocks)
	integer("window_size", &c.gaussians.Window, &c.gaussians4.Window, &c.mesh.Window)
	integer("structure_res_blocks", &c.structureDecoder.ResBlocks, &c.structureDecoder.MiddleBlocks)
	c.structureDecoder.Channels = t.at("structure_channels").ints(c.structureDecoder.Channels)
	integer("image_size", &c.imageSize)
	integer("downsample_ss_dist", &c.pruneRadius)
	integer("depth_num_tokens", &c.depthTokens)

	tokens := cube(t.at("latent_resolution").int(16))
	for i := range c.structure.Latents {
		if l := &c.structure.Latents[i]; l.Name == flow.ShapeLatent {
			l.Channels, l.Tokens = c.structureDecoder.LatentChannels, tokens
		}
	}
	for _, embedders := range [][]condition.Embedder{c.structureTokens.Embedders, c.latentTokens.Embedders} {
		for _, e := range embedders {
			if e.Points != nil {
				integer("point_channels", &e.Points.Width)
				integer("point_size", &e.Points.InputSize)
				integer("point_patch_size", &e.Points.PatchSize)
				integer("point_heads", &e.Points.NumHeads)
				continue
			}
			integer("dino_hidden_size", &e.Image.Backbone.EmbedDim)
			integer("dino_heads", &e.Image.Backbone.NumHeads)
			integer("dino_layers", &e.Image.Backbone.Depth)
			integer("dino_image_size", &e.Image.InputSize)
			e.Image.Backbone.Grid = e.Image.InputSize / e.Image.Backbone.PatchSize
		}
	}
	integer("ss_steps", &c.structureSampling.Steps)
	integer("slat_steps", &c.latentSampling.Steps)
	c.structureSampling.Rescale = t.at("ss_rescale_t").float(c.structureSampling.Rescale)
	c.latentSampling.Rescale = t.at("slat_rescale_t").float(c.latentSampling.Rescale)
	c.structureSampling.Guidance.Strength = t.at("ss_guidance").float(c.structureSampling.Guidance.Strength)
	c.latentSampling.Guidance.Strength = t.at("slat_guidance").float(c.latentSampling.Guidance.Strength)
	c.latentScale.Mean = float32s(t.at("slat_mean"), c.latentScale.Mean)
	c.latentScale.Std = float32s(t.at("slat_std"), c.latentScale.Std)
}
