// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flow

import (
	"fmt"

	"github.com/gomlx3d/image3d/weights"
)

// StructureSpec lists the parameters of a structure model by their checkpoint names, relative to
// "reverse_fn.backbone.". The configuration must be valid.
func StructureSpec(cfg StructureConfig) weights.Spec {
	spec := make(weights.Spec)
	addPerceptron(spec, "t_embedder.mlp.", timeFrequencies, cfg.Width, cfg.Width)
	if cfg.StepInput {
		addPerceptron(spec, "d_embedder.mlp.", timeFrequencies, cfg.Width, cfg.Width)
	}
	if cfg.SharedModulation {
		addLinear(spec, "adaLN_modulation.1.", cfg.Width, 6*cfg.Width)
	}
	for _, l := range cfg.Latents {
		prefix := "latent_mapping." + l.Name + "."
		addLinear(spec, prefix+"input_layer.", l.Channels, cfg.Width)
		addLinear(spec, prefix+"out_layer.", cfg.Width, l.Channels)
		spec[prefix+"pos_emb"] = weights.Param{Shape: []int{l.Tokens, cfg.Width}}
	}
	block := structureBlockSpec(cfg)
	for i := range cfg.Blocks {
		spec.Add(fmt.Sprintf("blocks.%d.", i), block)
	}
	return spec
}

func structureBlockSpec(cfg StructureConfig) weights.Spec {
	spec := make(weights.Spec)
	if !cfg.SharedModulation {
		addLinear(spec, "adaLN_modulation.1.", cfg.Width, 6*cfg.Width)
	}
	gamma := weights.Param{Shape: []int{cfg.Heads, cfg.Width / cfg.Heads}}
	for _, s := range cfg.streams() {
		addNorm(spec, "norm2."+s.Name+".", cfg.Width)
		addLinear(spec, "self_attn.to_qkv."+s.Name+".", cfg.Width, 3*cfg.Width)
		addLinear(spec, "self_attn.to_out."+s.Name+".", cfg.Width, cfg.Width)
		spec["self_attn.q_rms_norm."+s.Name+".gamma"] = gamma
		spec["self_attn.k_rms_norm."+s.Name+".gamma"] = gamma
		cross := "cross_attn." + s.Name + "."
		addLinear(spec, cross+"to_q.", cfg.Width, cfg.Width)
		addLinear(spec, cross+"to_kv.", cfg.CondWidth, 2*cfg.Width)
		addLinear(spec, cross+"to_out.", cfg.Width, cfg.Width)
		if cfg.CrossNorm {
			spec[cross+"q_rms_norm.gamma"] = gamma
			spec[cross+"k_rms_norm.gamma"] = gamma
		}
		addPerceptron(spec, "mlp."+s.Name+".mlp.", cfg.Width, cfg.hidden(), cfg.Width)
	}
	return spec
}

func addLinear(spec weights.Spec, prefix string, in, out int) {
	spec[prefix+"weight"] = weights.Param{Shape: []int{out, in}}
	spec[prefix+"bias"] = weights.Param{Shape: []int{out}}
}

func addNorm(spec weights.Spec, prefix string, channels int) {
	spec[prefix+"weight"] = weights.Param{Shape: []int{channels}}
	spec[prefix+"bias"] = weights.Param{Shape: []int{channels}}
}

func addPerceptron(spec weights.Spec, prefix string, in, hidden, out int) {
	addLinear(spec, prefix+"0.", in, hidden)
	addLinear(spec, prefix+"2.", hidden, out)
}
