// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/gomlx3d/image3d/moge"
	"github.com/gomlx3d/image3d/sam3d/condition"
	"github.com/gomlx3d/image3d/sam3d/decoder"
	"github.com/gomlx3d/image3d/sam3d/flow"
	"github.com/gomlx3d/image3d/weights"
)

// model holds the hyperparameters of all networks.
type model struct {
	imageSize                     int
	structureTokens, latentTokens condition.Config
	structure                     flow.StructureConfig
	latent                        flow.LatentConfig
	structureDecoder              decoder.StructureConfig
	gaussians, gaussians4         decoder.GaussiansConfig
	mesh                          decoder.MeshConfig
	depth                         moge.Config
	// gain is how many times the voxels of noise an object has: a random flow adds what neighbours share, and that is
	// measured, with one step.
	gain float64
}

// released has the sizes of the released checkpoint: 3.6 billion parameters with the depth model.
func released() model {
	return model{
		imageSize: 518, structureTokens: condition.ReleasedStructure(), latentTokens: condition.ReleasedLatent(),
		structure: flow.ReleasedStructure(), latent: flow.ReleasedLatent(),
		structureDecoder: decoder.ReleasedStructure(),
		gaussians:        decoder.ReleasedGaussians(), gaussians4: decoder.ReleasedGaussians4(), mesh: decoder.ReleasedMesh(),
		depth: moge.V1(), gain: 2.4,
	}
}

// tiny has every part of the released model, as small as it gets: for tests.
func tiny() model {
	const width, heads, blocks, resolution = 32, 2, 2, 16
	m := released()
	m.imageSize, m.gain = 56, 1
	for _, tokens := range []condition.Config{m.structureTokens, m.latentTokens} {
		for _, e := range tokens.Embedders {
			if e.Image != nil {
				b := &e.Image.Backbone
				e.Image.InputSize, b.EmbedDim, b.NumHeads, b.Depth, b.Grid = m.imageSize, width, heads, blocks, 4
			} else {
				e.Points.Width, e.Points.InputSize = width, 32
			}
		}
	}
	m.structure.Width, m.structure.Heads, m.structure.Blocks, m.structure.CondWidth = width, heads, blocks, width
	for i := range m.structure.Latents {
		if l := &m.structure.Latents[i]; l.Name == flow.ShapeLatent {
			l.Tokens = 4 * 4 * 4
		}
	}
	l := &m.latent
	l.Resolution, l.Width, l.Heads, l.Blocks, l.CondWidth, l.IOWidth = resolution, width, heads, blocks, width, 8
	m.structureDecoder.Channels = []int{16, 8, 4}
	for _, torso := range []*decoder.TorsoConfig{&m.gaussians.TorsoConfig, &m.gaussians4.TorsoConfig, &m.mesh.TorsoConfig} {
		torso.Resolution, torso.Width, torso.Heads, torso.Blocks = resolution, width, heads, blocks
	}
	d := &m.depth
	d.Backbone.EmbedDim, d.Backbone.Depth, d.Backbone.Grid = 2*width, 4, 4
	d.Layers = []int{0, 1, 2, 3}
	d.Trunk.ProjectDim, d.Trunk.UpsampleDims, d.Trunk.LastChannels = width, [3]int{32, 16, 16}, 8
	d.MinTokens, d.MaxTokens = 16, 32
	return m
}

// specs lists the tensors of each component.
func (m model) specs() map[string]weights.Spec {
	return map[string]weights.Spec{
		weights.SSGenerator:           flow.StructureSpec(m.structure),
		weights.SSConditionEmbedder:   condition.Spec(m.structureTokens),
		weights.SLATGenerator:         flow.LatentSpec(m.latent),
		weights.SLATConditionEmbedder: condition.Spec(m.latentTokens),
		weights.SSDecoder:             decoder.StructureSpec(m.structureDecoder),
		weights.SLATDecoderGS:         decoder.GaussiansSpec(m.gaussians),
		weights.SLATDecoderGS4:        decoder.GaussiansSpec(m.gaussians4),
		weights.SLATDecoderMesh:       decoder.MeshSpec(m.mesh),
		weights.Depth:                 moge.Spec(m.depth),
	}
}
