// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/gomlx3d/image3d/sam3d/flow"
	"github.com/gomlx3d/image3d/weights"
)

// shards are the components of each file of a bundle, as in the released one. The depth model of that layout is another
// one, MoGe-3, and is left out.
var shards = [][]string{
	{weights.SSConditionEmbedder, weights.SSGenerator}, {weights.SLATConditionEmbedder, weights.SLATGenerator},
	{weights.SSDecoder}, {weights.SLATDecoderGS}, {weights.SLATDecoderGS4}, {weights.SLATDecoderMesh},
}

// writeBundle writes a folder in the MLX layout.
func (j job) writeBundle() error {
	index := make(map[string]string)
	for i, components := range shards {
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(shards))
		var entries []weights.Entry
		for _, component := range components {
			entries = append(entries, j.entries(component, component+".", channelsLast)...)
		}
		for _, e := range entries {
			index[e.Name] = name
		}
		j.say(name, entries)
		if err := weights.WriteSafetensors(filepath.Join(j.out, name), j.force, entries); err != nil {
			return err
		}
	}
	for name, document := range map[string]object{
		"config.json": j.model.bundleConfig(string(j.dtypeName)), "model.safetensors.index.json": {"weight_map": index},
	} {
		text, err := json.MarshalIndent(document, "", "  ")
		if err != nil {
			return err
		}
		if err := j.writeText(name, append(text, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// channelsLast reports whether the second axis of a tensor is the last one in the bundle: of dense convolutions.
func channelsLast(component, name string, shape []int) bool {
	return len(shape) == 5 && component == weights.SSDecoder ||
		len(shape) == 4 && strings.HasSuffix(name, "patch_embed.proj.weight")
}

// bundleConfig is config.json.
func (m model) bundleConfig(dtype string) object {
	points, dino := m.structureTokens.Embedders[2].Points, m.structureTokens.Embedders[0].Image
	structure, latent, scale := flow.ReleasedStructureSampling(), flow.ReleasedLatentSampling(), flow.ReleasedLatentScale()
	side := 0
	for _, l := range m.structure.Latents {
		if l.Name == flow.ShapeLatent {
			side = cubeRoot(l.Tokens)
		}
	}
	return object{
		"model_type": "sam3d_objects", "dtype": dtype,
		"hidden_size": m.structure.Width, "num_heads": m.structure.Heads, "num_blocks": m.structure.Blocks,
		"cond_channels": m.structure.CondWidth, "latent_channels": m.latent.Channels, "latent_resolution": side,
		"resolution": m.latent.Resolution, "io_channels": m.latent.IOWidth,
		"decoder_channels": m.mesh.Width, "decoder_heads": m.mesh.Heads, "decoder_blocks": m.mesh.Blocks, "window_size": m.mesh.Window,
		"structure_channels": m.structureDecoder.Channels, "structure_res_blocks": m.structureDecoder.ResBlocks,
		"dino_hidden_size": dino.Backbone.EmbedDim, "dino_heads": dino.Backbone.NumHeads, "dino_layers": dino.Backbone.Depth,
		"dino_image_size": dino.InputSize, "image_size": m.imageSize,
		"point_size": points.InputSize, "point_patch_size": points.PatchSize, "point_channels": points.Width, "point_heads": points.NumHeads,
		"ss_steps": structure.Steps, "ss_rescale_t": structure.Rescale, "ss_guidance": structure.Guidance.Strength,
		"slat_steps": latent.Steps, "slat_rescale_t": latent.Rescale, "slat_guidance": latent.Guidance.Strength,
		"slat_mean": scale.Mean, "slat_std": scale.Std, "depth_model": nil,
	}
}

// moved is an entry with its second axis as the last. Unlike the others it is in memory while it is written.
func moved(e weights.Entry) weights.Entry {
	shape, rest := e.Shape, 1
	for _, dim := range shape[2:] {
		rest *= dim
	}
	width := e.DType.Size()
	return weights.Entry{Name: e.Name, DType: e.DType, Shape: append(append([]int{shape[0]}, shape[2:]...), shape[1]),
		Write: func(w io.Writer) error {
			var from bytes.Buffer
			if err := e.Write(&from); err != nil {
				return err
			}
			to := make([]byte, 0, from.Len())
			for o := range shape[0] {
				for r := range rest {
					for i := range shape[1] {
						at := ((o*shape[1]+i)*rest + r) * width
						to = append(to, from.Bytes()[at:at+width]...)
					}
				}
			}
			_, err := w.Write(to)
			return err
		}}
}
