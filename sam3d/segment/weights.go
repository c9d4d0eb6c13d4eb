// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"

	"github.com/gomlx3d/image3d/weights"
)

// The modules of a checkpoint that both halves of the network know, by the names of Meta's SAM 3.
const (
	trunkPrefix     = "detector.backbone.vision_backbone.trunk."
	groundingNeck   = "detector.backbone.vision_backbone.convs"
	interactiveNeck = "detector.backbone.vision_backbone.sam2_convs"
	promptEncoder   = "tracker.sam_prompt_encoder"
	maskDecoder     = "tracker.sam_mask_decoder"
	noMemory        = "tracker.no_mem_embed"
)

// Spec lists the tensors of a checkpoint of the image path, by the names of Meta's SAM 3 whatever the configuration's
// layout. Optional are those that nothing here needs.
func Spec(cfg Config) weights.Spec {
	spec := visionSpec(cfg)
	if cfg.Grounding {
		spec.Add("", neckSpec(cfg, groundingNeck))
		spec.Add("", textSpec(cfg))
		spec.Add("", groundingSpec(cfg))
	}
	if cfg.Interactive {
		spec.Add("", neckSpec(cfg, interactiveNeck))
		spec.Add("", interactiveSpec(cfg))
	}
	return spec
}

// visionSpec lists the tensors of the image encoder without its necks.
func visionSpec(cfg Config) weights.Spec {
	width, table := cfg.ViTDim, cfg.table()
	spec := weights.Spec{}
	add(spec, "pos_embed", 1, 1+table*table, width)
	add(spec, "patch_embed.proj.weight", width, 3, cfg.PatchSize, cfg.PatchSize)
	norm(spec, "ln_pre", width)
	for i := range cfg.ViTDepth {
		block := fmt.Sprintf("blocks.%d.", i)
		norm(spec, block+"norm1", width)
		linear(spec, block+"attn.qkv", width, 3*width)
		linear(spec, block+"attn.proj", width, width)
		norm(spec, block+"norm2", width)
		linear(spec, block+"mlp.fc1", width, cfg.ViTMLP)
		linear(spec, block+"mlp.fc2", cfg.ViTMLP, width)
		spec[block+"attn.freqs_cis"] = weights.Param{
			Shape: []int{cfg.attended(i), width / cfg.ViTHeads / 2}, DTypes: []dtypes.DType{dtypes.Complex64}, Optional: true,
		}
	}
	out := weights.Spec{}
	out.Add(trunkPrefix, spec)
	return out
}

// neckSpec lists the tensors of a neck.
func neckSpec(cfg Config, neck string) weights.Spec {
	width, out := cfg.ViTDim, cfg.ModelDim
	spec := weights.Spec{}
	for level, factor := range cfg.ScaleFactors {
		prefix, in := fmt.Sprintf("%s.%d.", neck, level), width
		switch factor {
		case 4:
			transposed(spec, prefix+"dconv_2x2_0", width, width/2)
			transposed(spec, prefix+"dconv_2x2_1", width/2, width/4)
			in = width / 4
		case 2:
			transposed(spec, prefix+"dconv_2x2", width, width/2)
			in = width / 2
		}
		conv(spec, prefix+"conv_1x1", in, out, 1)
		conv(spec, prefix+"conv_3x3", out, out, 3)
		if level >= levels {
			optional(spec, prefix)
		}
	}
	return spec
}

// interactiveSpec lists the tensors of the interactive head, its neck aside.
func interactiveSpec(cfg Config) weights.Spec {
	width, inner := cfg.ModelDim, cfg.MaskChannels
	spec := weights.Spec{}
	add(spec, noMemory, 1, 1, width)
	p := promptEncoder + "."
	add(spec, p+"pe_layer.positional_encoding_gaussian_matrix", 2, width/2)
	for label := range pointLabels {
		add(spec, fmt.Sprintf("%spoint_embeddings.%d.weight", p, label), 1, width)
	}
	add(spec, p+"not_a_point_embed.weight", 1, width)
	add(spec, p+"no_mask_embed.weight", 1, width)
	conv(spec, p+"mask_downscaling.0", 1, inner/4, 2)
	norm(spec, p+"mask_downscaling.1", inner/4)
	conv(spec, p+"mask_downscaling.3", inner/4, inner, 2)
	norm(spec, p+"mask_downscaling.4", inner)
	conv(spec, p+"mask_downscaling.6", inner, width, 1)
	spec.Add(maskDecoder+".", maskDecoderSpec(cfg))
	return spec
}

func maskDecoderSpec(cfg Config) weights.Spec {
	width := cfg.ModelDim
	spec := weights.Spec{}
	add(spec, "obj_score_token.weight", 1, width)
	add(spec, "iou_token.weight", 1, width)
	add(spec, "mask_tokens.weight", maskTokens, width)
	for i := range twoWayLayers {
		layer := fmt.Sprintf("transformer.layers.%d.", i)
		attentionSpec(spec, layer+"self_attn", width, width)
		attentionSpec(spec, layer+"cross_attn_token_to_image", width, width/2)
		attentionSpec(spec, layer+"cross_attn_image_to_token", width, width/2)
		linear(spec, layer+"mlp.lin1", width, cfg.HeadMLP)
		linear(spec, layer+"mlp.lin2", cfg.HeadMLP, width)
		for n := 1; n <= 4; n++ {
			norm(spec, fmt.Sprintf("%snorm%d", layer, n), width)
		}
	}
	attentionSpec(spec, "transformer.final_attn_token_to_image", width, width/2)
	norm(spec, "transformer.norm_final_attn", width)
	transposed(spec, "output_upscaling.0", width, width/4)
	norm(spec, "output_upscaling.1", width/4)
	transposed(spec, "output_upscaling.3", width/4, width/8)
	conv(spec, "conv_s0", width, width/8, 1)
	conv(spec, "conv_s1", width, width/4, 1)
	for i := range maskTokens {
		perceptron(spec, fmt.Sprintf("output_hypernetworks_mlps.%d", i), width, width, width, width/8)
	}
	perceptron(spec, "iou_prediction_head", width, width, width, maskTokens)
	perceptron(spec, "pred_obj_score_head", width, width, width, 1)
	return spec
}

// attentionSpec adds an attention with separate projections of an inner width.
func attentionSpec(spec weights.Spec, name string, width, inner int) {
	for _, projection := range []string{"q_proj", "k_proj", "v_proj"} {
		linear(spec, name+"."+projection, width, inner)
	}
	linear(spec, name+".out_proj", inner, width)
}

func add(spec weights.Spec, name string, shape ...int) { spec[name] = weights.Param{Shape: shape} }

// norm adds a norm of a vector.
func norm(spec weights.Spec, name string, width int) {
	add(spec, name+".weight", width)
	add(spec, name+".bias", width)
}

// linear adds a projection.
func linear(spec weights.Spec, name string, in, out int) {
	add(spec, name+".weight", out, in)
	add(spec, name+".bias", out)
}

// perceptron adds the layers of a perceptron of the given widths, the input's first.
func perceptron(spec weights.Spec, name string, widths ...int) {
	for i := range len(widths) - 1 {
		linear(spec, fmt.Sprintf("%s.layers.%d", name, i), widths[i], widths[i+1])
	}
}

// conv adds a convolution of a square kernel.
func conv(spec weights.Spec, name string, in, out, kernel int) {
	add(spec, name+".weight", out, in, kernel, kernel)
	add(spec, name+".bias", out)
}

// transposed adds a transposed convolution of kernel 2.
func transposed(spec weights.Spec, name string, in, out int) {
	add(spec, name+".weight", in, out, 2, 2)
	add(spec, name+".bias", out)
}

// optional marks the tensors below a prefix as not needed.
func optional(spec weights.Spec, prefix string) {
	for name, p := range spec {
		if len(name) >= len(prefix) && name[:len(prefix)] == prefix {
			p.Optional = true
			spec[name] = p
		}
	}
}
