// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"fmt"

	"github.com/gomlx3d/image3d/weights"
)

// The modules of the grounding head, by Meta's names.
const (
	textEncoder     = "detector.backbone.language_backbone.encoder"
	textResizer     = "detector.backbone.language_backbone.resizer"
	geometryEncoder = "detector.geometry_encoder"
	fusionEncoder   = "detector.transformer.encoder"
	queryDecoder    = "detector.transformer.decoder"
	scoringHead     = "detector.dot_prod_scoring"
	maskHead        = "detector.segmentation_head"
)

// textMLP is how many times wider than the model the hidden layers of the text encoder are.
const textMLP = 4

// textSpec lists the tensors of the text encoder.
func textSpec(cfg Config) weights.Spec {
	width := cfg.TextDim
	spec := weights.Spec{}
	e := textEncoder + "."
	add(spec, e+"token_embedding.weight", cfg.VocabularySize, width)
	add(spec, e+"positional_embedding", cfg.ContextLength, width)
	for i := range cfg.TextLayers {
		block := fmt.Sprintf("%stransformer.resblocks.%d.", e, i)
		norm(spec, block+"ln_1", width)
		packedSpec(spec, block+"attn", width)
		norm(spec, block+"ln_2", width)
		linear(spec, block+"mlp.c_fc", width, textMLP*width)
		linear(spec, block+"mlp.c_proj", textMLP*width, width)
	}
	norm(spec, e+"ln_final", width)
	spec[e+"text_projection"] = weights.Param{Shape: []int{width, cfg.TextProjection}, Optional: true}
	linear(spec, textResizer, width, cfg.ModelDim)
	return spec
}

// packedSpec adds an attention whose projections of queries, keys and values are one tensor.
func packedSpec(spec weights.Spec, name string, width int) {
	add(spec, name+".in_proj_weight", 3*width, width)
	add(spec, name+".in_proj_bias", 3*width)
	linear(spec, name+".out_proj", width, width)
}

// groundingSpec lists the tensors of the grounding head, its neck (which visionSpec has) and the text encoder aside.
func groundingSpec(cfg Config) weights.Spec {
	spec := geometrySpec(cfg)
	for i := range cfg.EncoderLayers {
		fusionLayerSpec(spec, fmt.Sprintf("%s.layers.%d.", fusionEncoder, i), cfg)
	}
	spec.Add(queryDecoder+".", decoderSpec(cfg))
	width := cfg.ModelDim
	perceptron(spec, scoringHead+".prompt_mlp", width, cfg.HeadMLP, width)
	norm(spec, scoringHead+".prompt_mlp.out_norm", width)
	linear(spec, scoringHead+".prompt_proj", width, width)
	linear(spec, scoringHead+".hs_proj", width, width)
	m := maskHead + "."
	norm(spec, m+"cross_attn_norm", width)
	packedSpec(spec, m+"cross_attend_prompt", width)
	for i := range levels {
		conv(spec, fmt.Sprintf("%spixel_decoder.conv_layers.%d", m, i), width, width, 3)
		norm(spec, fmt.Sprintf("%spixel_decoder.norms.%d", m, i), width)
	}
	for _, unused := range []string{"conv_layers", "norms"} { // there are only two steps from the coarsest level
		optional(spec, fmt.Sprintf("%spixel_decoder.%s.%d.", m, unused, levels-1))
	}
	perceptron(spec, m+"mask_predictor.mask_embed", width, width, width, width)
	conv(spec, m+"instance_seg_head", width, width, 1)
	conv(spec, m+"semantic_seg_head", width, 1, 1)
	return spec
}

// examplePoints reports whether checkpoints of the layout know exemplars that are points: those of transformers do not.
func (c Config) examplePoints() bool { return c.Layout == MetaSAM3 || c.Layout == MetaSAM31 }

// geometrySpec lists the tensors of the encoder of exemplars.
func geometrySpec(cfg Config) weights.Spec {
	width, g := cfg.ModelDim, geometryEncoder+"."
	spec := weights.Spec{}
	if cfg.examplePoints() {
		linear(spec, g+"points_direct_project", 2, width)
		linear(spec, g+"points_pool_project", width, width)
		linear(spec, g+"points_pos_enc_project", width, width)
	}
	linear(spec, g+"boxes_direct_project", 4, width)
	conv(spec, g+"boxes_pool_project", width, width, cfg.RoISize)
	linear(spec, g+"boxes_pos_enc_project", width+2, width)
	add(spec, g+"label_embed.weight", 2, width)
	add(spec, g+"cls_embed.weight", 1, width)
	for _, name := range []string{"img_pre_norm", "norm", "encode_norm"} {
		norm(spec, g+name, width)
	}
	linear(spec, g+"final_proj", width, width)
	for i := range cfg.GeometryLayers {
		fusionLayerSpec(spec, fmt.Sprintf("%sencode.%d.", g, i), cfg)
	}
	return spec
}

// fusionLayerSpec adds a layer of the fusion encoder, or of the encoder of exemplars.
func fusionLayerSpec(spec weights.Spec, layer string, cfg Config) {
	for n := 1; n <= 3; n++ {
		norm(spec, fmt.Sprintf("%snorm%d", layer, n), cfg.ModelDim)
	}
	packedSpec(spec, layer+"self_attn", cfg.ModelDim)
	packedSpec(spec, layer+"cross_attn_image", cfg.ModelDim)
	linear(spec, layer+"linear1", cfg.ModelDim, cfg.HeadMLP)
	linear(spec, layer+"linear2", cfg.HeadMLP, cfg.ModelDim)
}

// decoderSpec lists the tensors of the decoder of queries.
func decoderSpec(cfg Config) weights.Spec {
	width := cfg.ModelDim
	spec := weights.Spec{}
	add(spec, "query_embed.weight", cfg.Queries, width)
	add(spec, "reference_points.weight", cfg.Queries, 4)
	add(spec, "presence_token.weight", 1, width)
	perceptron(spec, "ref_point_head", 2*width, width, width)
	perceptron(spec, "boxRPB_embed_x", 2, width, cfg.Heads)
	perceptron(spec, "boxRPB_embed_y", 2, width, cfg.Heads)
	perceptron(spec, "bbox_embed", width, width, width, 4)
	norm(spec, "norm", width)
	perceptron(spec, "presence_token_head", width, width, width, 1)
	norm(spec, "presence_token_out_norm", width)
	for i := range cfg.DecoderLayers {
		layer := fmt.Sprintf("layers.%d.", i)
		for _, attention := range []string{"self_attn", "ca_text", "cross_attn"} {
			packedSpec(spec, layer+attention, width)
		}
		for _, name := range []string{"norm1", "norm2", "catext_norm", "norm3"} {
			norm(spec, layer+name, width)
		}
		linear(spec, layer+"linear1", width, cfg.HeadMLP)
		linear(spec, layer+"linear2", cfg.HeadMLP, width)
	}
	return spec
}
