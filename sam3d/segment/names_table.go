// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

// Prefixes of Meta's names.
const (
	metaPrefix    = "detector."
	trackerPrefix = "tracker."
)

// namesSAM31 are the names that SAM 3.1 has instead of those of SAM 3.
var namesSAM31 = [][2]string{
	{interactiveNeck + ".", "detector.backbone.vision_backbone.interactive_convs."},
	{promptEncoder + ".", "tracker.model.interactive_sam_prompt_encoder."},
	{maskDecoder + ".", "tracker.model.interactive_sam_mask_decoder."},
	{noMemory, "tracker.model.interactivity_no_mem_embed"},
}

// namesTracker are the names that the tracker of transformers has instead of those of the video model.
var namesTracker = [][2]string{
	{"detector_model.vision_encoder.backbone.", "vision_encoder.backbone."},
	{"tracker_neck.", "vision_encoder.neck."},
	{"tracker_model.", ""},
}

// transformersNames are the names of transformers' video model. Where queries, keys and values are kept apart there, @
// stands for q, k and v.
var transformersNames = []struct {
	meta, transformers string
	modules            [][2]string // the first that fits counts
}{
	{trunkPrefix, "detector_model.vision_encoder.backbone.", [][2]string{
		{"patch_embed.proj.", "embeddings.patch_embeddings.projection."},
		{"ln_pre.", "layer_norm."},
		{"blocks.*.norm1.", "layers.*.layer_norm1."},
		{"blocks.*.norm2.", "layers.*.layer_norm2."},
		{"blocks.*.attn.qkv.", "layers.*.attention.@_proj."},
		{"blocks.*.attn.proj.", "layers.*.attention.o_proj."},
		{"blocks.*.mlp.", "layers.*.mlp."},
	}},
	{groundingNeck + ".", "detector_model.vision_encoder.neck.fpn_layers.", neckNames},
	{interactiveNeck + ".", "tracker_neck.fpn_layers.", neckNames},
	{"detector.backbone.language_backbone.resizer.", "detector_model.text_projection.", nil},
	{"detector.backbone.language_backbone.encoder.", "detector_model.text_encoder.", [][2]string{
		{"token_embedding.", "text_model.embeddings.token_embedding."},
		{"positional_embedding", "text_model.embeddings.position_embedding.weight"},
		{"transformer.resblocks.*.attn.in_proj_", "text_model.encoder.layers.*.self_attn.@_proj."},
		{"transformer.resblocks.*.attn.out_proj.", "text_model.encoder.layers.*.self_attn.out_proj."},
		{"transformer.resblocks.*.ln_1.", "text_model.encoder.layers.*.layer_norm1."},
		{"transformer.resblocks.*.ln_2.", "text_model.encoder.layers.*.layer_norm2."},
		{"transformer.resblocks.*.mlp.c_fc.", "text_model.encoder.layers.*.mlp.fc1."},
		{"transformer.resblocks.*.mlp.c_proj.", "text_model.encoder.layers.*.mlp.fc2."},
		{"ln_final.", "text_model.final_layer_norm."},
		{"text_projection", "text_projection.weight"},
	}},
	{"detector.geometry_encoder.encode.", "detector_model.geometry_encoder.layers.", fusionNames},
	{"detector.geometry_encoder.", "detector_model.geometry_encoder.", [][2]string{
		{"img_pre_norm.", "vision_layer_norm."},
		{"norm.", "prompt_layer_norm."},
		{"encode_norm.", "output_layer_norm."},
	}},
	{"detector.transformer.encoder.layers.", "detector_model.detr_encoder.layers.", fusionNames},
	{"detector.transformer.decoder.layers.", "detector_model.detr_decoder.layers.", [][2]string{
		{"*.self_attn.in_proj_", "*.self_attn.@_proj."},
		{"*.self_attn.out_proj.", "*.self_attn.o_proj."},
		{"*.norm2.", "*.self_attn_layer_norm."},
		{"*.ca_text.in_proj_", "*.text_cross_attn.@_proj."},
		{"*.ca_text.out_proj.", "*.text_cross_attn.o_proj."},
		{"*.catext_norm.", "*.text_cross_attn_layer_norm."},
		{"*.cross_attn.in_proj_", "*.vision_cross_attn.@_proj."},
		{"*.cross_attn.out_proj.", "*.vision_cross_attn.o_proj."},
		{"*.norm1.", "*.vision_cross_attn_layer_norm."},
		{"*.linear1.", "*.mlp.fc1."},
		{"*.linear2.", "*.mlp.fc2."},
		{"*.norm3.", "*.mlp_layer_norm."},
	}},
	{"detector.transformer.decoder.", "detector_model.detr_decoder.", [][2]string{
		{"norm.", "output_layer_norm."},
		{"presence_token_out_norm.", "presence_layer_norm."},
		{"bbox_embed.layers.0.", "box_head.layer1."},
		{"bbox_embed.layers.1.", "box_head.layer2."},
		{"bbox_embed.layers.2.", "box_head.layer3."},
		{"presence_token_head.layers.0.", "presence_head.layer1."},
		{"presence_token_head.layers.1.", "presence_head.layer2."},
		{"presence_token_head.layers.2.", "presence_head.layer3."},
		{"ref_point_head.layers.0.", "ref_point_head.layer1."},
		{"ref_point_head.layers.1.", "ref_point_head.layer2."},
		{"boxRPB_embed_x.layers.0.", "box_rpb_embed_x.layer1."},
		{"boxRPB_embed_x.layers.1.", "box_rpb_embed_x.layer2."},
		{"boxRPB_embed_y.layers.0.", "box_rpb_embed_y.layer1."},
		{"boxRPB_embed_y.layers.1.", "box_rpb_embed_y.layer2."},
	}},
	{"detector.dot_prod_scoring.", "detector_model.dot_product_scoring.", [][2]string{
		{"prompt_mlp.layers.0.", "text_mlp.layer1."},
		{"prompt_mlp.layers.1.", "text_mlp.layer2."},
		{"prompt_mlp.out_norm.", "text_mlp_out_norm."},
		{"prompt_proj.", "text_proj."},
		{"hs_proj.", "query_proj."},
	}},
	{"detector.segmentation_head.", "detector_model.mask_decoder.", [][2]string{
		{"mask_predictor.mask_embed.layers.*.", "mask_embedder.layers.*."},
		{"instance_seg_head.", "instance_projection."},
		{"semantic_seg_head.", "semantic_projection."},
		{"cross_attend_prompt.in_proj_", "prompt_cross_attn.@_proj."},
		{"cross_attend_prompt.out_proj.", "prompt_cross_attn.o_proj."},
		{"cross_attn_norm.", "prompt_cross_attn_norm."},
	}},
	{noMemory, "tracker_model.no_memory_embedding", nil},
	{promptEncoder + ".", "tracker_model.prompt_encoder.", [][2]string{
		{"mask_downscaling.0.", "mask_embed.conv1."},
		{"mask_downscaling.1.", "mask_embed.layer_norm1."},
		{"mask_downscaling.3.", "mask_embed.conv2."},
		{"mask_downscaling.4.", "mask_embed.layer_norm2."},
		{"mask_downscaling.6.", "mask_embed.conv3."},
	}},
	{maskDecoder + ".transformer.layers.", "tracker_model.mask_decoder.transformer.layers.", [][2]string{
		{"*.self_attn.out_proj.", "*.self_attn.o_proj."},
		{"*.cross_attn_token_to_image.out_proj.", "*.cross_attn_token_to_image.o_proj."},
		{"*.cross_attn_image_to_token.out_proj.", "*.cross_attn_image_to_token.o_proj."},
		{"*.norm1.", "*.layer_norm1."},
		{"*.norm2.", "*.layer_norm2."},
		{"*.norm3.", "*.layer_norm3."},
		{"*.norm4.", "*.layer_norm4."},
		{"*.mlp.lin1.", "*.mlp.proj_in."},
		{"*.mlp.lin2.", "*.mlp.proj_out."},
	}},
	{maskDecoder + ".", "tracker_model.mask_decoder.", [][2]string{
		{"transformer.final_attn_token_to_image.out_proj.", "transformer.final_attn_token_to_image.o_proj."},
		{"transformer.norm_final_attn.", "transformer.layer_norm_final_attn."},
		{"output_upscaling.0.", "upscale_conv1."},
		{"output_upscaling.1.", "upscale_layer_norm."},
		{"output_upscaling.3.", "upscale_conv2."},
		{"output_hypernetworks_mlps.*.layers.0.", "output_hypernetworks_mlps.*.proj_in."},
		{"output_hypernetworks_mlps.*.layers.1.", "output_hypernetworks_mlps.*.layers.0."},
		{"output_hypernetworks_mlps.*.layers.2.", "output_hypernetworks_mlps.*.proj_out."},
		{"iou_prediction_head.layers.0.", "iou_prediction_head.proj_in."},
		{"iou_prediction_head.layers.1.", "iou_prediction_head.layers.0."},
		{"iou_prediction_head.layers.2.", "iou_prediction_head.proj_out."},
		{"pred_obj_score_head.layers.0.", "pred_obj_score_head.proj_in."},
		{"pred_obj_score_head.layers.1.", "pred_obj_score_head.layers.0."},
		{"pred_obj_score_head.layers.2.", "pred_obj_score_head.proj_out."},
	}},
}

// neckNames are those of a neck's levels.
var neckNames = [][2]string{
	{"*.dconv_2x2_0.", "*.scale_layers.0."},
	{"*.dconv_2x2_1.", "*.scale_layers.2."},
	{"*.dconv_2x2.", "*.scale_layers.0."},
	{"*.conv_1x1.", "*.proj1."},
	{"*.conv_3x3.", "*.proj2."},
}

// fusionNames are those of the layers of the fusion encoder and of the encoder of exemplars.
var fusionNames = [][2]string{
	{"*.norm1.", "*.layer_norm1."},
	{"*.norm2.", "*.layer_norm2."},
	{"*.norm3.", "*.layer_norm3."},
	{"*.self_attn.in_proj_", "*.self_attn.@_proj."},
	{"*.self_attn.out_proj.", "*.self_attn.o_proj."},
	{"*.cross_attn_image.in_proj_", "*.cross_attn.@_proj."},
	{"*.cross_attn_image.out_proj.", "*.cross_attn.o_proj."},
	{"*.linear1.", "*.mlp.fc1."},
	{"*.linear2.", "*.mlp.fc2."},
}

// purposes lists prefixes of names by what their tensors are for. A name under a head's prefix is the head's even if it
// is under one of video too.
var purposes = map[Layout]struct{ grounding, interactive, video []string }{
	MetaSAM3: {metaGrounding, []string{interactiveNeck + ".", promptEncoder + ".", maskDecoder + "."}, []string{trackerPrefix}},
	MetaSAM31: {
		metaGrounding,
		[]string{namesSAM31[0][1], namesSAM31[1][1], namesSAM31[2][1]},
		[]string{trackerPrefix, "detector.backbone.vision_backbone.propagation_convs."},
	},
	TransformersVideo: {
		[]string{
			"detector_model.vision_encoder.neck.", "detector_model.text_encoder.", "detector_model.text_projection.",
			"detector_model.geometry_encoder.", "detector_model.detr_encoder.", "detector_model.detr_decoder.",
			"detector_model.dot_product_scoring.", "detector_model.mask_decoder.",
		},
		[]string{
			"tracker_neck.", "tracker_model.prompt_encoder.", "tracker_model.mask_decoder.", "tracker_model.shared_image_embedding.",
		},
		[]string{"tracker_model."},
	},
}

// metaGrounding are Meta's names of the grounding head.
var metaGrounding = []string{
	groundingNeck + ".", "detector.backbone.language_backbone.", "detector.geometry_encoder.", "detector.transformer.",
	"detector.dot_prod_scoring.", "detector.segmentation_head.",
}
