// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import (
	"slices"
	"strings"

	"github.com/gomlx3d/image3d/dinov2"
	"github.com/gomlx3d/image3d/sam3d/condition"
	"github.com/gomlx3d/image3d/sam3d/decoder"
	"github.com/gomlx3d/image3d/sam3d/flow"
	"github.com/gomlx3d/image3d/sam3d/pose"
)

// readOfficial reads the YAML trees of the official layout: the pipeline's and one for each model. Trees and keys that
// are absent keep the released values.
func (c *config) readOfficial(documents map[string]map[string]any, faults *faults) {
	for name, read := range map[string]func(tree){
		"pipeline":       c.readPipeline,
		"ss_generator":   c.readStructure,
		"slat_generator": c.readLatent,
		"ss_decoder":     func(t tree) { readStructureDecoder(t, &c.structureDecoder) },
		"slat_decoder_gs": func(t tree) {
			readGaussians(t, &c.gaussians)
		},
		"slat_decoder_gs_4": func(t tree) {
			readGaussians(t, &c.gaussians4)
		},
		"slat_decoder_mesh": func(t tree) { readMesh(t, &c.mesh) },
	} {
		if documents[name] == nil {
			continue
		}
		read(tree{documents[name], name + ".yaml", faults})
	}
}

// readPipeline reads pipeline.yaml, whose sampling settings overrule those of the generators.
func (c *config) readPipeline(t tree) {
	readSampling(t, "ss", &c.structureSampling)
	readSampling(t, "slat", &c.latentSampling)
	c.pruneRadius = t.at("downsample_ss_dist").int(c.pruneRadius)
	c.latentScale.Mean = float32s(t.at("slat_mean"), c.latentScale.Mean)
	c.latentScale.Std = float32s(t.at("slat_std"), c.latentScale.Std)
	c.convention = pose.Convention(t.at("pose_decoder_name").string(string(c.convention)))
	c.clipBeyond = t.at("clip_pointmap_beyond_scale").float(c.clipBeyond)
	for _, transform := range t.at("ss_preprocessor", "img_transform", "transforms").list() {
		if strings.HasSuffix(transform.at("_target_").string(""), ".Resize") {
			c.imageSize = transform.at("size").int(c.imageSize)
		}
	}
}

// readSampling reads the settings of one flow.
func readSampling(t tree, prefix string, s *flow.Sampling) {
	s.Steps = t.at(prefix + "_inference_steps").int(s.Steps)
	s.Rescale = t.at(prefix + "_rescale_t").float(s.Rescale)
	s.Guidance.Strength = t.at(prefix + "_cfg_strength").float(s.Guidance.Strength)
	if interval := t.at(prefix + "_cfg_interval"); interval.has() {
		s.Guidance.From, s.Guidance.To = interval.at(0).float(0), interval.at(1).float(0)
	}
}

func (c *config) readStructure(t tree) {
	module := t.at("module")
	readEmbedders(module.at("condition_embedder", "backbone"), &c.structureTokens)
	net := module.at("generator", "backbone", "reverse_fn", "backbone")
	s := &c.structure
	s.Width = net.at("model_channels").int(s.Width)
	s.Heads = net.at("num_heads").int(s.Heads)
	s.Blocks = net.at("num_blocks").int(s.Blocks)
	s.MLPRatio = net.at("mlp_ratio").float(s.MLPRatio)
	s.CondWidth = net.at("cond_channels").int(s.CondWidth)
	s.StepInput = net.at("is_shortcut_model").bool(s.StepInput)
	s.ZeroCondition = net.at("force_zeros_cond").bool(s.ZeroCondition)
	s.SharedModulation = net.at("share_mod").bool(s.SharedModulation)
	s.CrossNorm = net.at("qk_rms_norm_cross").bool(s.CrossNorm)
	if latents := net.at("latent_mapping"); latents.has() {
		s.Latents = nil
		for _, name := range slices.Sorted(slices.Values(latents.keys())) {
			s.Latents = append(s.Latents, readLatentMapping(name, latents.at(name)))
		}
	}
	if streams := net.at("latent_share_transformer"); streams.has() {
		s.Merged = nil
		for _, name := range slices.Sorted(slices.Values(streams.keys())) {
			stream := flow.StructureStream{Name: name}
			for _, latent := range streams.at(name).list() {
				stream.Latents = append(stream.Latents, latent.string(""))
			}
			s.Merged = append(s.Merged, stream)
		}
	}
}

// readLatentMapping reads one latent. The tokens of a grid are its cells.
func readLatentMapping(name string, t tree) flow.StructureLatent {
	l := flow.StructureLatent{Name: name, Channels: t.at("in_channels").int(0)}
	position := t.at("pos_embedder")
	if side := position.at("resolution"); side.has() {
		l.Tokens = cube(side.int(0) / max(1, position.at("patch_size").int(1)))
	} else {
		l.Tokens = position.at("token_len").int(1)
	}
	return l
}

func (c *config) readLatent(t tree) {
	module := t.at("module")
	readEmbedders(module.at("condition_embedder", "backbone"), &c.latentTokens)
	net := module.at("generator", "backbone", "reverse_fn", "backbone")
	l := &c.latent
	l.Resolution = net.at("resolution").int(l.Resolution)
	l.Channels = net.at("in_channels").int(l.Channels)
	l.Width = net.at("model_channels").int(l.Width)
	l.Heads = net.at("num_heads").int(l.Heads)
	l.Blocks = net.at("num_blocks").int(l.Blocks)
	l.MLPRatio = net.at("mlp_ratio").float(l.MLPRatio)
	l.CondWidth = net.at("cond_channels").int(l.CondWidth)
	l.IOWidth = net.at("io_block_channels", 0).int(l.IOWidth)
	l.IOBlocks = net.at("num_io_res_blocks").int(l.IOBlocks)
	l.HeadNorm = net.at("qk_rms_norm").bool(l.HeadNorm)
	l.StepInput = net.at("is_shortcut_model").bool(l.StepInput)
	l.ZeroCondition = net.at("force_zeros_cond").bool(l.ZeroCondition)
}

// readEmbedders reads a condition embedder: a list of pairs of a network and its inputs.
func readEmbedders(t tree, c *condition.Config) {
	if list := t.at("embedder_list"); list.has() {
		c.Embedders = nil
		for _, pair := range list.list() {
			var inputs []condition.Input
			for _, in := range pair.at(1).list() {
				inputs = append(inputs, condition.Input{Name: condition.Modality(in.at(0).string("")), Group: in.at(1).string("")})
			}
			c.Embedders = append(c.Embedders, readEmbedder(pair.at(0), inputs))
		}
	}
	c.ProjectionMultiplier = t.at("projection_net_hidden_dim_multiplier").float(c.ProjectionMultiplier)
	c.NoProjectionNorm = !t.at("projection_pre_norm").bool(!c.NoProjectionNorm)
	c.CompressionMultiplier = t.at("compression_projection_multiplier").float(c.CompressionMultiplier)
	c.RandomPositions = t.at("use_pos_embedding").string("learned") == "random"
	c.Drop = nil
	for _, name := range t.at("force_drop_modalities").list() {
		c.Drop = append(c.Drop, condition.Modality(name.string("")))
	}
}

func readEmbedder(t tree, inputs []condition.Input) condition.Embedder {
	target := t.at("_target_").string("")
	switch {
	case strings.HasSuffix(target, ".Dino"):
		name := t.at("dino_model").string("dinov2_vitl14_reg")
		backbone, err := dinov2.Named(name)
		if err != nil {
			t.at("dino_model").fail("a DINOv2 model")
			return condition.Embedder{}
		}
		// The original builds the named model; these keys exist to make small ones for tests.
		small := t.at("backbone_kwargs")
		backbone.EmbedDim = small.at("embed_dim").int(backbone.EmbedDim)
		backbone.Depth = small.at("depth").int(backbone.Depth)
		backbone.NumHeads = small.at("num_heads").int(backbone.NumHeads)
		backbone.Grid = small.at("img_size").int(backbone.Grid*backbone.PatchSize) / backbone.PatchSize
		return condition.Embedder{Inputs: inputs, Image: &condition.ImageEmbedder{
			Backbone: backbone, InputSize: t.at("input_size").int(518), Prenorm: t.at("prenorm_features").bool(false),
		}}
	case strings.HasSuffix(target, ".PointPatchEmbed"):
		return condition.Embedder{Inputs: inputs, Points: &condition.PointEmbedder{
			Width: t.at("embed_dim").int(512), InputSize: t.at("input_size").int(256), PatchSize: t.at("patch_size").int(8),
			NumHeads: 16, Remap: condition.Remap(t.at("remap_output").string(string(condition.RemapLinear))),
		}}
	}
	t.at("_target_").fail("an embedder that is known (Dino, PointPatchEmbed)")
	return condition.Embedder{}
}

func readStructureDecoder(t tree, c *decoder.StructureConfig) {
	c.LatentChannels = t.at("latent_channels").int(c.LatentChannels)
	c.OutChannels = t.at("out_channels").int(c.OutChannels)
	c.Channels = t.at("channels").ints(c.Channels)
	c.ResBlocks = t.at("num_res_blocks").int(c.ResBlocks)
	c.MiddleBlocks = t.at("num_res_blocks_middle").int(c.MiddleBlocks)
	c.GroupNorm = t.at("norm_type").string("layer") == "group"
}

// float32s reads a list of numbers.
func float32s(t tree, otherwise []float32) []float32 {
	if !t.has() {
		return otherwise
	}
	var out []float32
	for _, v := range t.floats(nil) {
		out = append(out, float32(v))
	}
	return out
}

// readTorso reads what both latent decoders share.
func readTorso(t tree, c *decoder.TorsoConfig) {
	c.Resolution = t.at("resolution").int(c.Resolution)
	c.LatentChannels = t.at("latent_channels").int(c.LatentChannels)
	c.Width = t.at("model_channels").int(c.Width)
	c.Heads = t.at("num_heads").int(c.Heads)
	c.Blocks = t.at("num_blocks").int(c.Blocks)
	c.MLPRatio = t.at("mlp_ratio").float(c.MLPRatio)
	c.Window = t.at("window_size").int(c.Window)
}

func readGaussians(t tree, c *decoder.GaussiansConfig) {
	readTorso(t, &c.TorsoConfig)
	t = t.at("representation_config")
	c.Gaussians = t.at("num_gaussians").int(c.Gaussians)
	c.VoxelSize = t.at("voxel_size").float(c.VoxelSize)
	c.Perturb = t.at("perturb_offset").bool(c.Perturb)
	c.Kernel = t.at("3d_filter_kernel_size").float(c.Kernel)
	c.ScaleBias = t.at("scaling_bias").float(c.ScaleBias)
	c.OpacityBias = t.at("opacity_bias").float(c.OpacityBias)
	switch activation := t.at("scaling_activation"); activation.string("softplus") {
	case "softplus":
		c.ExpScale = false
	case "exp":
		c.ExpScale = true
	default:
		activation.fail("softplus or exp")
	}
	for key, rate := range map[string]*float64{
		"_xyz": &c.Rates.Position, "_features_dc": &c.Rates.SH, "_scaling": &c.Rates.Scaling,
		"_rotation": &c.Rates.Rotation, "_opacity": &c.Rates.Opacity,
	} {
		*rate = t.at("lr", key).float(*rate)
	}
}

func readMesh(t tree, c *decoder.MeshConfig) {
	readTorso(t, &c.TorsoConfig)
	c.Color = t.at("representation_config", "use_color").bool(c.Color)
}
