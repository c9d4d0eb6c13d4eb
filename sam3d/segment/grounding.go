// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"fmt"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gomlx3d/image3d/internal/nn"
)

// grounding is the head for words and exemplars: a detector that looks for everything that a prompt describes.
type grounding struct {
	cfg Config

	textStart, textEnd nn.Weights
	textBlocks         []nn.Weights
	geometry, prompt   nn.Weights
	geometryLayers     []nn.Weights
	fusionLayers       []nn.Weights
	decoderStart       nn.Weights
	decoderLayers      []nn.Weights
	scoring            nn.Weights
	pixel, mask        nn.Weights
	semantic           nn.Weights

	programs groundingPrograms
}

type groundingPrograms struct {
	textStart, textBlock, textEnd       *nn.Program
	flat, geometry, geometryLayer       *nn.Program
	prompt, fusionLayer                 *nn.Program
	decoderStart, decoderLayer, scoring *nn.Program
	pixels, masks, semantics            *nn.Program
}

func newGrounding(backend compute.Backend, cfg Config, w nn.Weights) *grounding {
	text, geometry, decoder, mask := w.In(textEncoder), w.In(geometryEncoder), w.In(queryDecoder), w.In(maskHead)
	h := &grounding{
		cfg:       cfg,
		textStart: text.Only("token_embedding", "positional_embedding"),
		textEnd:   below(nil, "ln_final", text.In("ln_final")),
		geometry: geometry.Only("points_direct_project", "points_pool_project", "points_pos_enc_project", "boxes_direct_project",
			"boxes_pool_project", "boxes_pos_enc_project", "label_embed", "cls_embed", "img_pre_norm", "final_proj", "norm"),
		prompt:       geometry.Only("encode_norm"),
		decoderStart: decoder.Only("presence_token", "query_embed", "reference_points"),
		scoring:      below(nil, "decoder", decoder.Only("norm", "presence_token_out_norm", "presence_token_head")),
		pixel:        mask.Only("cross_attn_norm", "cross_attend_prompt", "pixel_decoder"),
		mask:         mask.Only("instance_seg_head", "mask_predictor"),
		semantic:     mask.Only("semantic_seg_head"),
		programs:     newGroundingPrograms(backend, cfg),
	}
	below(h.textEnd, "resizer", w.In(textResizer))
	below(h.scoring, "scoring", w.In(scoringHead))
	for i := range cfg.TextLayers {
		h.textBlocks = append(h.textBlocks, text.In("transformer.resblocks.%d", i))
	}
	for i := range cfg.GeometryLayers {
		h.geometryLayers = append(h.geometryLayers, geometry.In("encode.%d", i))
	}
	for i := range cfg.EncoderLayers {
		h.fusionLayers = append(h.fusionLayers, w.In("%s.layers.%d", fusionEncoder, i))
	}
	for i := range cfg.DecoderLayers {
		layer := decoder.Only("ref_point_head", "boxRPB_embed_x", "boxRPB_embed_y", "bbox_embed", "norm")
		h.decoderLayers = append(h.decoderLayers, below(layer, "layer", decoder.In("layers.%d", i)))
	}
	return h
}

// below adds parameters to w under a module's name. It makes w if that is nil.
func below(w nn.Weights, module string, params nn.Weights) nn.Weights {
	if w == nil {
		w = make(nn.Weights)
	}
	for name, t := range params {
		w[module+"."+name] = t
	}
	return w
}

func newGroundingPrograms(backend compute.Backend, cfg Config) groundingPrograms {
	program := func(name string, build nn.GraphFn) *nn.Program {
		return nn.NewProgram(backend, "segment.ground."+name, build)
	}
	one := func(name string, build func(p nn.Params, in []*Node) *Node) *nn.Program {
		return program(name, func(p nn.Params, in []*Node) []*Node { return []*Node{build(p, in)} })
	}
	return groundingPrograms{
		textStart:     one("text.start", func(p nn.Params, in []*Node) *Node { return embedText(p, in[0]) }),
		textBlock:     one("text.block", func(p nn.Params, in []*Node) *Node { return textBlock(p, cfg, in[0]) }),
		textEnd:       one("text.end", func(p nn.Params, in []*Node) *Node { return finishText(p, in[0]) }),
		flat:          one("flat", func(_ nn.Params, in []*Node) *Node { return cfg.flat(in[0]) }),
		geometry:      one("geometry", cfg.geometryTokens),
		geometryLayer: one("geometry.layer", cfg.geometryLayer),
		prompt:        one("prompt", cfg.joinPrompt),
		fusionLayer: one("fusion", func(p nn.Params, in []*Node) *Node {
			position := cfg.cellPositions(in[0].Graph(), cfg.grid())
			return cfg.fusionLayer(p, in[0], position, nil, in[1], in[1], keyBias(in[2]))
		}),
		decoderStart: program("decoder.start", func(p nn.Params, in []*Node) []*Node { return cfg.startDecoder(p, in[0]) }),
		decoderLayer: program("decoder", cfg.decoderLayer),
		scoring:      program("score", cfg.score),
		pixels:       one("pixels", cfg.pixels),
		masks:        one("masks", func(p nn.Params, in []*Node) *Node { return cfg.masks(p, in[0], in[1], in[2]) }),
		semantics:    one("semantic", func(p nn.Params, in []*Node) *Node { return semantic(p, in[0]) }),
	}
}

func (h *grounding) close() {
	p := h.programs
	for _, program := range []*nn.Program{
		p.textStart, p.textBlock, p.textEnd, p.flat, p.geometry, p.geometryLayer, p.prompt, p.fusionLayer, p.decoderStart,
		p.decoderLayer, p.scoring, p.pixels, p.masks, p.semantics,
	} {
		program.Close()
	}
}

// validateGrounding checks the fields of the head.
func (c Config) validateGrounding() error {
	if err := within([]bound{
		{"EncoderLayers", c.EncoderLayers, 1, maxLayers}, {"DecoderLayers", c.DecoderLayers, 1, maxLayers},
		{"GeometryLayers", c.GeometryLayers, 1, maxLayers}, {"Queries", c.Queries, 1, maxWidth},
		{"RoISize", c.RoISize, 1, maxGrid}, {"TextDim", c.TextDim, 1, maxWidth}, {"TextHeads", c.TextHeads, 1, maxWidth},
		{"TextLayers", c.TextLayers, 1, maxLayers}, {"TextProjection", c.TextProjection, 1, maxWidth},
		{"ContextLength", c.ContextLength, 2, maxWidth}, {"VocabularySize", c.VocabularySize, 2, maxVocab},
	}); err != nil {
		return err
	}
	if c.TextDim%c.TextHeads != 0 {
		return fmt.Errorf("%w: TextDim %d is no multiple of TextHeads %d", ErrConfig, c.TextDim, c.TextHeads)
	}
	last := c.VocabularySize - 1
	return within([]bound{
		{"BeginToken", c.BeginToken, 0, last}, {"EndToken", c.EndToken, 0, last}, {"PadToken", c.PadToken, 0, last},
	})
}
