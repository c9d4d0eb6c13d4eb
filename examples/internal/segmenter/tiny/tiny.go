// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package tiny writes small segmenters with random weights, for tests.
package tiny

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"

	"github.com/gomlx3d/image3d/sam3d/segment"
	"github.com/gomlx3d/image3d/weights"
)

// Kind is how sure a network is of what it sees.
type Kind float32

// The kinds.
const (
	Doubtful Kind = 0  // scores are anywhere
	Sure     Kind = 9  // of all of its queries
	Blind    Kind = -9 // it sees nothing
)

// Queries are the objects that the network looks for.
const Queries = 2

// Write writes a network into a folder: its tensors, its sizes, and a vocabulary of letters and two pairs of them.
func Write(folder string, kind Kind) error {
	cfg := config()
	random, spec := rand.New(rand.NewPCG(9, 9)), segment.Spec(cfg)
	var entries []weights.Entry
	for _, name := range slices.Sorted(maps.Keys(spec)) {
		shape, n := spec[name].Shape, 1
		for _, dim := range shape {
			n *= dim
		}
		var data []byte
		for range n {
			v := random.Float32() - 0.5
			switch {
			case strings.Contains(name, "dot_prod_scoring") && strings.HasSuffix(name, "_proj.bias") && kind != Doubtful:
				v = float32(Sure)
			case strings.HasSuffix(name, "presence_token_head.layers.2.bias") && kind != Doubtful:
				v = float32(kind)
			}
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		}
		if !spec[name].Optional {
			entries = append(entries, weights.EntryOf(name, weights.Tensor{DType: dtypes.Float32, Shape: shape, Data: data}))
		}
	}
	if err := weights.WriteSafetensors(filepath.Join(folder, "sam3.safetensors"), false, entries); err != nil {
		return err
	}
	sizes, err := json.Marshal(cfg)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "sam3_config.json"), sizes, 0o666); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "merges.txt"), []byte("#version\nc a\nca t</w>\n"), 0o666)
}

// config is a network that runs in milliseconds.
func config() segment.Config {
	cfg := segment.SAM3()
	cfg.ImageSize, cfg.PatchSize, cfg.PretrainSize, cfg.WindowSize = 32, 4, 16, 4
	cfg.ViTDim, cfg.ViTDepth, cfg.ViTHeads, cfg.ViTMLP, cfg.GlobalBlocks = 16, 2, 2, 24, []int{1}
	cfg.ModelDim, cfg.Heads, cfg.HeadMLP, cfg.Queries, cfg.MaskChannels = 16, 2, 24, Queries, 8
	cfg.EncoderLayers, cfg.DecoderLayers, cfg.GeometryLayers = 1, 2, 1
	cfg.TextDim, cfg.TextHeads, cfg.TextLayers, cfg.TextProjection, cfg.ContextLength = 8, 2, 1, 8, 6
	cfg.VocabularySize, cfg.BeginToken, cfg.EndToken = 516, 514, 515
	return cfg
}
