// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"slices"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
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
	masks := s.run1(h.programs.maskLogits, h.mask, pixels, d.queries, chosen)
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
	transformers := c.Has("in/input_boxes_labels")
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
		if !c.Has(name) {
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

func postprocessCase(t *testing.T, c *fixture.Case) map[string]any { return nil }
func tokenizeCase(t *testing.T, c *fixture.Case) map[string]any    { return nil }
