// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"fmt"

	"github.com/gomlx3d/image3d/dinov2"
	"github.com/gomlx3d/image3d/weights"
)

// Spec lists the tensors of a checkpoint ("model" of a released file).
func Spec(cfg Config) weights.Spec {
	spec := weights.Spec{
		"image_mean": {Shape: []int{1, 3, 1, 1}},
		"image_std":  {Shape: []int{1, 3, 1, 1}},
	}
	spec.Add("backbone.", dinov2.Spec(cfg.Backbone))
	for i := range cfg.Layers {
		conv(spec, fmt.Sprintf("head.projects.%d", i), cfg.ProjectDim, cfg.Backbone.EmbedDim, 1)
	}
	in := cfg.ProjectDim
	for s, out := range cfg.UpsampleDims {
		stage := fmt.Sprintf("head.upsample_blocks.%d.", s)
		spec[stage+"0.0.weight"] = weights.Param{Shape: []int{in + 2, out, 2, 2}} // transposed: [in, out]
		spec[stage+"0.0.bias"] = weights.Param{Shape: []int{out}}
		conv(spec, stage+"0.1", out, out, 3)
		for block := range cfg.ResBlocks {
			residualSpec(spec, fmt.Sprintf("%s%d.", stage, 1+block), out, cfg.HiddenRatio*out)
		}
		in = out
	}
	for b, channels := range []int{3, 1} { // points, mask
		prefix := fmt.Sprintf("head.output_block.%d.", b)
		conv(spec, prefix+"0", cfg.LastChannels, in+2, 3)
		for block := range cfg.LastResBlocks {
			residualSpec(spec, fmt.Sprintf("%s%d.", prefix, 1+block), cfg.LastChannels, cfg.HiddenRatio*cfg.LastChannels)
		}
		conv(spec, fmt.Sprintf("%s%d", prefix, cfg.LastResBlocks+2), channels, cfg.LastChannels, cfg.LastKernel)
	}
	return spec
}

// conv adds a convolution of a square kernel.
func conv(spec weights.Spec, name string, out, in, kernel int) {
	spec[name+".weight"] = weights.Param{Shape: []int{out, in, kernel, kernel}}
	spec[name+".bias"] = weights.Param{Shape: []int{out}}
}

// residualSpec adds a residual block.
func residualSpec(spec weights.Spec, prefix string, channels, hidden int) {
	for layer, width := range map[string]int{"layers.0": channels, "layers.3": hidden} {
		spec[prefix+layer+".weight"] = weights.Param{Shape: []int{width}}
		spec[prefix+layer+".bias"] = weights.Param{Shape: []int{width}}
	}
	conv(spec, prefix+"layers.2", hidden, channels, 3)
	conv(spec, prefix+"layers.5", channels, hidden, 3)
}
