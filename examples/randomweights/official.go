// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/gomlx3d/image3d/sam3d/condition"
	"github.com/gomlx3d/image3d/sam3d/decoder"
	"github.com/gomlx3d/image3d/sam3d/flow"
	"github.com/gomlx3d/image3d/weights"
)

// Names in the files of the generators.
const (
	generatorPrefix = "_base_models.generator.reverse_fn.backbone."
	embedderPrefix  = "_base_models.condition_embedder."
)

// object is a mapping of a YAML or JSON file.
type object = map[string]any

// writeOfficial writes a folder in the official layout.
func (j job) writeOfficial() error {
	for stem, document := range j.model.documents() {
		if err := j.writeYAML(stem+".yaml", document); err != nil {
			return err
		}
	}
	for _, file := range []struct {
		name   string
		object weights.TorchObject
		parts  map[string]string // component by prefix
	}{
		{"ss_generator.ckpt", weights.TorchObject{Key: "state_dict"},
			map[string]string{generatorPrefix: weights.SSGenerator, embedderPrefix: weights.SSConditionEmbedder}},
		{"slat_generator.ckpt", weights.TorchObject{Key: "state_dict"},
			map[string]string{generatorPrefix: weights.SLATGenerator, embedderPrefix: weights.SLATConditionEmbedder}},
		{"ss_decoder.ckpt", weights.TorchObject{}, map[string]string{"": weights.SSDecoder}},
		{"slat_decoder_gs.ckpt", weights.TorchObject{}, map[string]string{"": weights.SLATDecoderGS}},
		{"slat_decoder_gs_4.ckpt", weights.TorchObject{}, map[string]string{"": weights.SLATDecoderGS4}},
		{"slat_decoder_mesh.ckpt", weights.TorchObject{}, map[string]string{"": weights.SLATDecoderMesh}},
		{"moge-vitl/model.pt", weights.TorchObject{Key: "model", Config: j.model.depthConfig()},
			map[string]string{"": weights.Depth}},
	} {
		var entries []weights.Entry
		for prefix, component := range file.parts {
			entries = append(entries, j.entries(component, prefix, nil)...)
		}
		path := filepath.Join(j.out, filepath.FromSlash(file.name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		j.say(file.name, entries)
		if err := weights.WriteTorch(path, j.force, file.object, entries); err != nil {
			return err
		}
	}
	return nil
}

func (j job) writeYAML(name string, document object) error {
	text, err := yaml.Marshal(document)
	if err != nil {
		return err
	}
	return j.writeText(name, text)
}

// documents are the YAML files of the official layout, by their stems: what decides the model, under the official keys.
func (m model) documents() map[string]object {
	const root = "sam3d_objects.model.backbone.tdfy_dit.models."
	structureDecoder := object{
		"_target_":        root + "sparse_structure_vae.SparseStructureDecoderTdfyWrapper",
		"latent_channels": m.structureDecoder.LatentChannels, "out_channels": m.structureDecoder.OutChannels,
		"channels": m.structureDecoder.Channels, "num_res_blocks": m.structureDecoder.ResBlocks,
		"num_res_blocks_middle": m.structureDecoder.MiddleBlocks,
	}
	mesh := torsoDocument(m.mesh.TorsoConfig, root+"structured_latent_vae.decoder_mesh.SLatMeshDecoderTdfyWrapper")
	mesh["representation_config"] = object{"use_color": m.mesh.Color}
	return map[string]object{
		"pipeline":          m.pipelineDocument(),
		"ss_generator":      generatorDocument(m.structureTokens, structureDocument(m.structure)),
		"slat_generator":    generatorDocument(m.latentTokens, latentDocument(m.latent)),
		"ss_decoder":        structureDecoder,
		"slat_decoder_gs":   gaussiansDocument(m.gaussians),
		"slat_decoder_gs_4": gaussiansDocument(m.gaussians4),
		"slat_decoder_mesh": mesh,
	}
}

func (m model) pipelineDocument() object {
	structure, latent, scale := flow.ReleasedStructureSampling(), flow.ReleasedLatentSampling(), flow.ReleasedLatentScale()
	resize := object{"_target_": "torchvision.transforms.Resize", "size": m.imageSize}
	p := object{
		"_target_":           "sam3d_objects.pipeline.inference_pipeline_pointmap.InferencePipelinePointMap",
		"ss_inference_steps": structure.Steps, "ss_rescale_t": structure.Rescale,
		"ss_cfg_strength": structure.Guidance.Strength, "ss_cfg_interval": []float64{structure.Guidance.From, structure.Guidance.To},
		"slat_inference_steps": latent.Steps, "slat_rescale_t": latent.Rescale,
		"slat_cfg_strength": latent.Guidance.Strength, "slat_cfg_interval": []float64{latent.Guidance.From, latent.Guidance.To},
		"slat_mean": scale.Mean, "slat_std": scale.Std,
		"downsample_ss_dist": decoder.PruneRadius, "pose_decoder_name": "ScaleShiftInvariant",
		"ss_preprocessor": object{"img_transform": object{"transforms": []object{resize}}},
		"depth_model":     object{"model": object{"pretrained_model_name_or_path": "moge-vitl/model.pt"}},
	}
	for _, stem := range []string{"ss_generator", "slat_generator", "ss_decoder", "slat_decoder_gs", "slat_decoder_gs_4", "slat_decoder_mesh"} {
		p[stem+"_config_path"], p[stem+"_ckpt_path"] = stem+".yaml", stem+".ckpt"
	}
	return p
}

func generatorDocument(tokens condition.Config, network object) object {
	return object{"module": object{
		"condition_embedder": object{"backbone": embedderDocument(tokens)},
		"generator":          object{"backbone": object{"reverse_fn": object{"backbone": network}}},
	}}
}

func embedderDocument(c condition.Config) object {
	const root = "sam3d_objects.model.backbone.dit.embedder."
	var list []any
	for _, e := range c.Embedders {
		var network object
		if e.Image != nil {
			b := e.Image.Backbone
			network = object{
				"_target_": root + "dino.Dino", "dino_model": "dinov2_vitl14_reg", "normalize_images": true,
				"input_size": e.Image.InputSize, "prenorm_features": e.Image.Prenorm,
				"backbone_kwargs": object{"embed_dim": b.EmbedDim, "depth": b.Depth, "num_heads": b.NumHeads, "img_size": b.Grid * b.PatchSize},
			}
		} else {
			network = object{
				"_target_": root + "pointmap.PointPatchEmbed", "embed_dim": e.Points.Width, "input_size": e.Points.InputSize,
				"patch_size": e.Points.PatchSize, "remap_output": string(e.Points.Remap),
			}
		}
		var inputs []any
		for _, in := range e.Inputs {
			inputs = append(inputs, []string{string(in.Name), in.Group})
		}
		list = append(list, []any{network, inputs})
	}
	return object{
		"_target_": root + "embedder_fuser.EmbedderFuser", "embedder_list": list,
		"projection_net_hidden_dim_multiplier": c.ProjectionMultiplier, "use_pos_embedding": "learned",
	}
}

func structureDocument(c flow.StructureConfig) object {
	latents, merged := object{}, object{}
	for _, l := range c.Latents {
		position := object{"token_len": l.Tokens}
		if l.Name == flow.ShapeLatent {
			position = object{"resolution": cubeRoot(l.Tokens), "patch_size": 1}
		}
		latents[l.Name] = object{"in_channels": l.Channels, "model_channels": c.Width, "pos_embedder": position}
	}
	for _, s := range c.Merged {
		merged[s.Name] = s.Latents
	}
	return object{
		"model_channels": c.Width, "num_heads": c.Heads, "num_blocks": c.Blocks, "mlp_ratio": c.MLPRatio,
		"cond_channels": c.CondWidth, "is_shortcut_model": c.StepInput, "force_zeros_cond": c.ZeroCondition,
		"qk_rms_norm": true, "latent_mapping": latents, "latent_share_transformer": merged,
	}
}

// cubeRoot returns the n whose cube is cells.
func cubeRoot(cells int) (n int) {
	for n*n*n < cells {
		n++
	}
	return n
}

func latentDocument(c flow.LatentConfig) object {
	return object{
		"resolution": c.Resolution, "in_channels": c.Channels, "out_channels": c.Channels, "model_channels": c.Width,
		"num_heads": c.Heads, "num_blocks": c.Blocks, "mlp_ratio": c.MLPRatio, "cond_channels": c.CondWidth,
		"io_block_channels": []int{c.IOWidth}, "num_io_res_blocks": c.IOBlocks, "patch_size": 2, "pe_mode": "ape",
		"qk_rms_norm": c.HeadNorm, "is_shortcut_model": c.StepInput, "force_zeros_cond": c.ZeroCondition,
	}
}

func torsoDocument(c decoder.TorsoConfig, target string) object {
	return object{
		"_target_": target, "resolution": c.Resolution, "latent_channels": c.LatentChannels, "model_channels": c.Width,
		"num_heads": c.Heads, "num_blocks": c.Blocks, "mlp_ratio": c.MLPRatio, "window_size": c.Window, "attn_mode": "swin",
	}
}

func gaussiansDocument(c decoder.GaussiansConfig) object {
	document := torsoDocument(c.TorsoConfig,
		"sam3d_objects.model.backbone.tdfy_dit.models.structured_latent_vae.decoder_gs.SLatGaussianDecoderTdfyWrapper")
	document["representation_config"] = object{
		"num_gaussians": c.Gaussians, "voxel_size": c.VoxelSize, "perturb_offset": c.Perturb,
		"3d_filter_kernel_size": c.Kernel, "scaling_bias": c.ScaleBias, "opacity_bias": c.OpacityBias,
		"scaling_activation": "softplus",
		"lr": object{
			"_xyz": c.Rates.Position, "_features_dc": c.Rates.SH, "_opacity": c.Rates.Opacity,
			"_scaling": c.Rates.Scaling, "_rotation": c.Rates.Rotation,
		},
	}
	return document
}

// depthConfig is "model_config" of the depth model's file.
func (m model) depthConfig() object {
	d := m.depth
	layers := make([]any, len(d.Layers))
	for i, layer := range d.Layers {
		layers[i] = layer
	}
	return object{
		"encoder": "dinov2_vitl14", "intermediate_layers": layers, "dim_proj": d.Trunk.ProjectDim,
		"dim_upsample":               []any{d.Trunk.UpsampleDims[0], d.Trunk.UpsampleDims[1], d.Trunk.UpsampleDims[2]},
		"dim_times_res_block_hidden": d.Trunk.HiddenRatio, "num_res_blocks": d.Trunk.ResBlocks, "last_res_blocks": d.Trunk.LastResBlocks,
		"last_conv_channels": d.Trunk.LastChannels, "last_conv_size": d.Trunk.LastKernel, "remap_output": string(d.Remap),
		"mask_threshold": float64(d.MaskThreshold), "num_tokens_range": []any{d.MinTokens, d.MaxTokens},
	}
}
