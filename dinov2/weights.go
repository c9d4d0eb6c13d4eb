// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package dinov2

import (
	"fmt"

	"github.com/gomlx3d/image3d/weights"
)

// Spec lists the parameters of the network by their checkpoint names. The configuration must be valid.
//
// mask_token hides patches during training and is not used here; it may be absent.
func Spec(cfg Config) weights.Spec {
	width := cfg.EmbedDim
	spec := weights.Spec{
		"cls_token":               {Shape: []int{1, 1, width}},
		"pos_embed":               {Shape: []int{1, 1 + cfg.Grid*cfg.Grid, width}},
		"mask_token":              {Shape: []int{1, width}, Optional: true},
		"patch_embed.proj.weight": {Shape: []int{width, 3, cfg.PatchSize, cfg.PatchSize}},
		"patch_embed.proj.bias":   {Shape: []int{width}},
		"norm.weight":             {Shape: []int{width}},
		"norm.bias":               {Shape: []int{width}},
	}
	if cfg.Registers > 0 {
		spec["register_tokens"] = weights.Param{Shape: []int{1, cfg.Registers, width}}
	}
	for i := range cfg.Depth {
		spec.Add(fmt.Sprintf("blocks.%d.", i), blockSpec(cfg))
	}
	return spec
}

func blockSpec(cfg Config) weights.Spec {
	width, hidden := cfg.EmbedDim, cfg.hidden()
	spec := weights.Spec{"ls1.gamma": {Shape: []int{width}}, "ls2.gamma": {Shape: []int{width}}}
	for _, norm := range []string{"norm1", "norm2"} {
		spec[norm+".weight"] = weights.Param{Shape: []int{width}}
		spec[norm+".bias"] = weights.Param{Shape: []int{width}}
	}
	linear := func(name string, in, out int) {
		spec[name+".weight"] = weights.Param{Shape: []int{out, in}}
		spec[name+".bias"] = weights.Param{Shape: []int{out}}
	}
	linear("attn.qkv", width, 3*width)
	linear("attn.proj", width, width)
	linear("mlp.fc1", width, hidden)
	linear("mlp.fc2", hidden, width)
	return spec
}
