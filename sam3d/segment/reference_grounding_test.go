// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"path/filepath"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/nn"
)

// groundingCase computes the outputs of a case of the grounding head, and compares the intermediates that it has.
func groundingCase(t *testing.T, c *fixture.Case) map[string]any {
	model := modelOf(t, c)
	transformers := model.cfg.Layout == TransformersModel
	encoding, err := model.encode(t.Context(), c.Tensor(t, "in/pixel_values"))
	require.NoError(t, err)
	defer encoding.Close()
	batch := c.Shape(t, "in/pixel_values")[0]

	s := &stage{ctx: t.Context()}
	defer s.free()
	h := model.grounding
	text := words{tokens: h.encodeText(s, int32s(c.Ints(t, "in/input_ids")), batch)}
	for _, row := range slices.Collect(slices.Chunk(c.Ints(t, "in/attention_mask"), c.Shape(t, "in/attention_mask")[1])) {
		text.valid = append(text.valid, bools(row))
	}
	d := h.detect(s, encoding.grounding, text, exemplarsOf(t, c, batch))
	pixels := h.pixels(s, encoding.grounding, d)
	all := make([]int32, batch*model.cfg.Queries)
	for i := range all {
		all[i] = int32(i % model.cfg.Queries)
	}
	chosen := tensors.FromFlatDataAndDimensions(all, batch, model.cfg.Queries)
	masks := s.run1(h.programs.masks, h.mask, pixels, d.queries, chosen)
	semantic := s.run1(h.programs.semantics, h.semantic, pixels)
	require.NoError(t, s.err)

	tolerance := fixture.Tolerance{Abs: 1e-4}
	c.CheckWithin(t, "mid/encoder", d.cells, tolerance)
	c.CheckWithin(t, "mid/decoder_hidden_last", d.queries, tolerance)
	if transformers { // its heads differ in these
		d.boxes = corners(d.boxes)
		for i, v := range d.presence {
			d.presence[i] = min(max(v, -10), 10)
		}
	}
	return map[string]any{
		"out/pred_masks": s.floats(masks), "out/pred_boxes": d.boxes, "out/pred_logits": d.logits, "out/presence_logits": d.presence,
		"out/semantic_seg": s.floats(semantic),
	}
}

// exemplarsOf returns the exemplars of each picture of a case.
func exemplarsOf(t *testing.T, c *fixture.Case, batch int) []exemplars {
	out := make([]exemplars, batch)
	for i := range out {
		out[i].global = true // in Meta's model always
	}
	transformers := c.Has("in/input_boxes_labels") && c.Shape(t, "in/input_boxes_labels")[1] > 0
	if configOf(t, c).Layout == TransformersModel {
		for i := range out {
			out[i].global = transformers
		}
	}
	boxes, labels, valid := "in/boxes", "in/box_labels", "in/box_valid"
	if transformers {
		boxes, labels, valid = "in/input_boxes", "in/input_boxes_labels", ""
	}
	each := func(name, labels, valid string, put func(e *exemplars, v []float32, positive bool)) {
		if !c.Has(name) || c.Shape(t, name)[1] == 0 {
			return
		}
		n := c.Shape(t, name)[1]
		values, kinds := c.Float32s(t, name), c.Ints(t, labels)
		width := len(values) / (batch * n)
		for i, kind := range kinds {
			if valid == "" && kind == -10 || valid != "" && c.Ints(t, valid)[i] == 0 {
				continue
			}
			put(&out[i/n], values[i*width:(i+1)*width], kind == 1)
		}
	}
	each(boxes, labels, valid, func(e *exemplars, v []float32, positive bool) {
		e.boxes = append(e.boxes, exampleBox{v[0], v[1], v[2], v[3], positive})
	})
	each("in/points", "in/point_labels", "in/point_valid", func(e *exemplars, v []float32, positive bool) {
		e.points = append(e.points, examplePoint{v[0], v[1], positive})
	})
	return out
}

// corners turns boxes of centre and size into boxes of two corners.
func corners(boxes []float32) []float32 {
	out := make([]float32, 0, len(boxes))
	for b := range slices.Chunk(boxes, 4) {
		out = append(out, b[0]-b[2]/2, b[1]-b[3]/2, b[0]+b[2]/2, b[1]+b[3]/2)
	}
	return out
}

func int32s(values []int) []int32 {
	out := make([]int32, len(values))
	for i, v := range values {
		out[i] = int32(v)
	}
	return out
}

func bools(values []int) []bool {
	out := make([]bool, len(values))
	for i, v := range values {
		out[i] = v != 0
	}
	return out
}

// preprocessCase computes the outputs of a case of the preparation of pictures.
func preprocessCase(t *testing.T, c *fixture.Case) map[string]any {
	var config struct {
		Resolution int `json:"resolution"`
	}
	c.Decode(t, &config)
	shape, bytes := c.Shape(t, "in/image"), c.Bytes(t, "in/image")
	picture := newOpaque(shape[1], shape[0], bytes)
	pixels, err := preprocess(picture, config.Resolution)
	require.NoError(t, err)
	return map[string]any{"out/pixel_values": pixels}
}

// postprocessCase computes the outputs of a case of what follows the network, after Meta and after transformers.
func postprocessCase(t *testing.T, c *fixture.Case) map[string]any {
	var config struct {
		Threshold     float64 `json:"threshold"`
		MaskThreshold float32 `json:"mask_threshold"`
		Height        int     `json:"target_height"`
		Width         int     `json:"target_width"`
		ClickLevel    float32 `json:"interactive_mask_threshold"`
		MaxHole       float64 `json:"max_hole_area"`
		MaxSpeck      float64 `json:"max_sprinkle_area"`
	}
	c.Decode(t, &config)
	d := &detected{
		boxes: c.Float32s(t, "in/pred_boxes"), logits: c.Float32s(t, "in/pred_logits"), presence: c.Float32s(t, "in/presence_logits"),
	}
	found := d.above(config.Threshold)
	keep := make([]uint8, len(d.logits))
	var scores, boxes, logits, probabilities []float32
	shape, all := c.Shape(t, "in/pred_masks"), c.Float32s(t, "in/pred_masks")
	for _, query := range found {
		keep[query] = 1
		scores = append(scores, d.score(query))
		box := d.box(query, config.Width, config.Height)
		boxes = append(boxes, float32(box.X0), float32(box.Y0), float32(box.X1), float32(box.Y1))
		cells := shape[2] * shape[3]
		logits = append(logits, all[query*cells:(query+1)*cells]...)
	}
	for _, v := range logits {
		probabilities = append(probabilities, float32(sigmoid(v)))
	}
	enlarged := enlargedOf(t, logits, shape[2], shape[3], config.Height, config.Width)
	for i, v := range enlarged {
		enlarged[i] = float32(sigmoid(v))
	}
	out := map[string]any{
		"out/scores": scores, "out/boxes_xyxy": boxes, "out/keep": keep, "out/mask_probabilities": enlarged,
		"out/masks":    above(enlarged, config.MaskThreshold),
		"out/hf_masks": above(enlargedOf(t, probabilities, shape[2], shape[3], config.Height, config.Width), config.MaskThreshold),
	}
	shape = c.Shape(t, "in/interactive_low_res_masks")
	var clicks []float32
	for mask := range slices.Chunk(c.Float32s(t, "in/interactive_low_res_masks"), shape[2]*shape[3]) {
		for i := range mask {
			mask[i] -= config.ClickLevel
		}
		whole := tidy(Logits{shape[3], shape[2], mask}, int(config.MaxHole), int(config.MaxSpeck))
		for _, v := range enlargedOf(t, whole.Values, shape[2], shape[3], config.Height, config.Width) {
			clicks = append(clicks, v+config.ClickLevel)
		}
	}
	out["out/interactive_mask_logits"], out["out/interactive_masks"] = clicks, above(clicks, config.ClickLevel)
	return out
}

// enlargedOf enlarges maps of rows x cols as Segment does.
func enlargedOf(t *testing.T, maps []float32, rows, cols, height, width int) []float32 {
	if len(maps) == 0 {
		return nil
	}
	program := nn.NewProgram(fixture.Backend(t), "enlarge", func(_ nn.Params, in []*Node) []*Node { return []*Node{enlarge(in)} })
	defer program.Close()
	s := &stage{ctx: t.Context()}
	defer s.free()
	in := slices.Concat([]*tensors.Tensor{tensors.FromFlatDataAndDimensions(maps, len(maps)/(rows*cols), rows, cols)},
		taps(cols, width, width), taps(rows, height, height))
	s.own(in...)
	out := s.floats(s.run1(program, nil, in...))
	require.NoError(t, s.err)
	return out
}

func above(values []float32, level float32) []uint8 {
	out := make([]uint8, len(values))
	for i, v := range values {
		if v > level {
			out[i] = 1
		}
	}
	return out
}

// releasedTokenizer reads CLIP's vocabulary.
func releasedTokenizer(t *testing.T, cfg Config) *tokenizer {
	t.Helper()
	tokens, err := readTokenizer(filepath.Join("..", "..", "testdata", "clip"), cfg)
	require.NoError(t, err)
	return tokens
}

// tokenizeCase computes the outputs of a case of the tokenizer.
func tokenizeCase(t *testing.T, c *fixture.Case) map[string]any {
	var config struct {
		Texts []string `json:"texts"`
		Start int      `json:"sot"`
		End   int      `json:"eot"`
	}
	cfg := Config{}
	c.Decode(t, &cfg)
	c.Decode(t, &config)
	cfg.BeginToken, cfg.EndToken = config.Start, config.End
	tokenizer := releasedTokenizer(t, cfg)
	var ids, valid []int32
	for _, text := range config.Texts {
		tokens, err := tokenizer.encode(text)
		require.NoError(t, err)
		padding := make([]int32, cfg.ContextLength-len(tokens))
		ids = append(append(ids, tokens...), padding...)
		valid = append(append(valid, slices.Repeat([]int32{1}, len(tokens))...), padding...)
	}
	return map[string]any{"out/input_ids": ids, "out/attention_mask": valid}
}
