// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"fmt"

	"github.com/gomlx3d/image3d/dinov2"
	"github.com/gomlx3d/image3d/weights"
)

// prefixes are where the shared parts of a network are in its checkpoint.
type prefixes struct{ backbone, image, project string }

func (c Config) names() prefixes {
	if c.Version == 1 {
		return prefixes{"backbone.", "image_", "head.projects."}
	}
	return prefixes{"encoder.backbone.", "encoder.image_", "encoder.output_projections."}
}

// Spec lists the tensors of a checkpoint ("model" of a released file), with the shapes that they have in PyTorch.
func Spec(cfg Config) weights.Spec {
	names := cfg.names()
	spec := weights.Spec{
		names.image + "mean": {Shape: []int{1, 3, 1, 1}},
		names.image + "std":  {Shape: []int{1, 3, 1, 1}},
	}
	spec.Add(names.backbone, dinov2.Spec(cfg.Backbone))
	features := cfg.Pyramid.FeatureDim
	if cfg.Version == 1 {
		features = cfg.Trunk.ProjectDim
	}
	for i := range cfg.Layers {
		conv(spec, fmt.Sprintf("%s%d", names.project, i), features, cfg.Backbone.EmbedDim, 1)
	}
	if cfg.Version == 1 {
		spec.Add("head.", cfg.Trunk.spec())
		return spec
	}
	spec.Add("", cfg.Pyramid.spec())
	if cfg.Refiner != nil {
		spec.Add("refiner.", cfg.Refiner.spec())
	}
	return spec
}

// spec lists the tensors of the head but for the projections.
func (c TrunkConfig) spec() weights.Spec {
	spec := make(weights.Spec)
	in := c.ProjectDim
	for s, out := range c.UpsampleDims {
		stage := fmt.Sprintf("upsample_blocks.%d.", s)
		spec[stage+"0.0.weight"] = weights.Param{Shape: []int{in + uvDim, out, 2, 2}} // transposed: [in, out]
		spec[stage+"0.0.bias"] = weights.Param{Shape: []int{out}}
		conv(spec, stage+"0.1", out, out, 3)
		for block := range c.ResBlocks {
			residualSpec(spec, fmt.Sprintf("%s%d.layers.", stage, 1+block), out, c.HiddenRatio*out)
		}
		in = out
	}
	for b, channels := range []int{3, 1} { // points, mask
		prefix := fmt.Sprintf("output_block.%d.", b)
		conv(spec, prefix+"0", c.LastChannels, in+uvDim, 3)
		for block := range c.LastResBlocks {
			residualSpec(spec, fmt.Sprintf("%s%d.layers.", prefix, 1+block), c.LastChannels, c.HiddenRatio*c.LastChannels)
		}
		conv(spec, fmt.Sprintf("%s%d", prefix, c.LastResBlocks+2), channels, c.LastChannels, c.LastKernel)
	}
	return spec
}

// conv adds a convolution of a square kernel.
func conv(spec weights.Spec, name string, out, in, kernel int) {
	spec[name+".weight"] = weights.Param{Shape: []int{out, in, kernel, kernel}}
	spec[name+".bias"] = weights.Param{Shape: []int{out}}
}

// linear adds a matrix with a bias.
func linear(spec weights.Spec, name string, out, in int) {
	spec[name+".weight"] = weights.Param{Shape: []int{out, in}}
	spec[name+".bias"] = weights.Param{Shape: []int{out}}
}

// vectors adds the parameters of a norm.
func vectors(spec weights.Spec, name string, channels int) {
	spec[name+".weight"] = weights.Param{Shape: []int{channels}}
	spec[name+".bias"] = weights.Param{Shape: []int{channels}}
}

// residualSpec adds a residual block of MoGe-1.
func residualSpec(spec weights.Spec, prefix string, channels, hidden int) {
	vectors(spec, prefix+"0", channels)
	conv(spec, prefix+"2", hidden, channels, 3)
	vectors(spec, prefix+"3", hidden)
	conv(spec, prefix+"5", channels, hidden, 3)
}
