// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package condition

import (
	"fmt"

	"github.com/gomlx3d/image3d/dinov2"
	"github.com/gomlx3d/image3d/weights"
)

// Spec lists the parameters of a stage's condition embedder by their checkpoint names, without the prefix
// "_base_models.condition_embedder." of the official files. The configuration must be valid.
func Spec(cfg Config) weights.Spec {
	width := cfg.Width()
	spec := make(weights.Spec)
	rows := 1 + len(cfg.groups()) // the last is never used
	if cfg.RandomPositions {
		spec["idx_emb"] = weights.Param{Shape: []int{rows, 1, width}}
	} else {
		spec["idx_emb"] = weights.Param{Shape: []int{rows, width}}
	}
	channels := 0
	for i, e := range cfg.Embedders {
		if e.Image != nil {
			spec.Add(trunkPrefix(i), dinov2.Spec(e.Image.Backbone))
		} else {
			spec.Add(fmt.Sprintf("module_list.%d.", i), pointSpec(*e.Points))
		}
		if cfg.ProjectionMultiplier > 0 {
			net := cfg.netSpec(e.width(), cfg.hidden(cfg.ProjectionMultiplier))
			spec.Add(fmt.Sprintf("projection_nets.%d.", i), net)
		}
		channels += len(e.Inputs) * e.width()
	}
	if cfg.CompressionMultiplier > 0 {
		spec.Add("compression_projector.", cfg.netSpec(channels, cfg.hidden(cfg.CompressionMultiplier)))
	}
	return spec
}

// trunkPrefix is the prefix of the image network of embedder i.
func trunkPrefix(i int) string { return fmt.Sprintf("module_list.%d.backbone.", i) }

// netSpec lists the parameters of a projection: 0 is the norm, 1 the gated perceptron.
func (c Config) netSpec(in, hidden int) weights.Spec {
	spec := weights.Spec{
		"1.w1.weight": {Shape: []int{hidden, in}},
		"1.w2.weight": {Shape: []int{c.Width(), hidden}},
		"1.w3.weight": {Shape: []int{hidden, in}},
	}
	if !c.NoProjectionNorm {
		spec["0.weight"], spec["0.bias"] = weights.Param{Shape: []int{in}}, weights.Param{Shape: []int{in}}
	}
	return spec
}

func pointSpec(e PointEmbedder) weights.Spec {
	width, grid := e.Width, e.grid()
	spec := weights.Spec{
		"invalid_xyz_token": {Shape: []int{width}},
		"cls_token":         {Shape: []int{1, 1, width}},
		"pos_embed_window":  {Shape: []int{1, 1 + e.PatchSize*e.PatchSize, width}},
		"pos_embed":         {Shape: []int{1, width, grid, grid}},
	}
	linear := func(name string, in, out int) {
		spec[name+".weight"] = weights.Param{Shape: []int{out, in}}
		spec[name+".bias"] = weights.Param{Shape: []int{out}}
	}
	linear("point_proj", 3, width)
	linear("blocks.0.attn.qkv", width, 3*width)
	linear("blocks.0.attn.proj", width, width)
	linear("blocks.0.mlp.fc1", width, pointMLPRatio*width)
	linear("blocks.0.mlp.fc2", pointMLPRatio*width, width)
	for _, norm := range []string{"blocks.0.norm1", "blocks.0.norm2"} {
		spec[norm+".weight"] = weights.Param{Shape: []int{width}}
		spec[norm+".bias"] = weights.Param{Shape: []int{width}}
	}
	return spec
}
