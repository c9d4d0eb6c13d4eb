// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/nn"
)

// groundingStage returns a full-size network's grounding head, and a stage to run it in.
func groundingStage(b *testing.B) (*Model, *stage) {
	b.Helper()
	cfg := SAM3()
	cfg.Interactive, cfg.ViTDepth, cfg.GlobalBlocks = false, 1, nil
	return fullSize(b, cfg), &stage{ctx: b.Context()}
}

// repeat runs f once, which compiles, and then as often as asked for.
func repeat(b *testing.B, s *stage, f func()) {
	for i := -1; i < 0 || b.Loop(); i = 0 {
		f()
		require.NoError(b, s.err)
		s.free()
	}
}

func BenchmarkText(b *testing.B) {
	model, s := groundingStage(b)
	repeat(b, s, func() { s.floats(model.grounding.encodeText(s, make([]int32, model.cfg.ContextLength), 1)) })
}

// BenchmarkDetect looks for what a text and a box describe in an encoded picture.
func BenchmarkDetect(b *testing.B) {
	model, s := groundingStage(b)
	maps, text := featuresOf(model.cfg), wordsOf(model.cfg)
	repeat(b, s, func() {
		model.grounding.detect(s, maps, text, []exemplars{{global: true, boxes: []exampleBox{{0.5, 0.5, 0.2, 0.3, true}}}})
	})
}

// BenchmarkMasks makes the masks of eight detections in a picture of 1920 x 1080.
func BenchmarkMasks(b *testing.B) {
	model, s := groundingStage(b)
	maps, text := featuresOf(model.cfg), wordsOf(model.cfg)
	once := &stage{ctx: b.Context()}
	defer once.free()
	d := model.grounding.detect(once, maps, text, []exemplars{{global: true}})
	encoding := &Encoding{Width: 1920, Height: 1080, model: model, grounding: maps}
	repeat(b, s, func() {
		_, err := encoding.masks(s, d, []int{0, 1, 2, 3, 4, 5, 6, 7})
		require.NoError(b, err)
	})
}

// BenchmarkEnlarge brings the logits of eight masks to the size of a picture of 1920 x 1080 and cuts them at zero.
func BenchmarkEnlarge(b *testing.B) {
	const side, masks = 288, 8
	encoding := &Encoding{Width: 1920, Height: 1080, model: &Model{enlarge: newEnlarge(fixture.Backend(b))}}
	defer encoding.model.enlarge.Close()
	values := make([]float32, masks*side*side)
	for i := range values {
		values[i] = float32(i%side + i/side%side - side)
	}
	logits := tensors.FromFlatDataAndDimensions(values, masks, side, side)
	defer nn.Free(logits)
	fixture.Benchmark(b, func() error {
		s := &stage{ctx: b.Context()}
		defer s.free()
		encoding.enlarged(s, logits, masks)
		return s.err
	})
}

func featuresOf(cfg Config) []*tensors.Tensor {
	var maps []*tensors.Tensor
	for _, factor := range []int{4, 2, 1} {
		side := factor * cfg.grid()
		maps = append(maps, tensors.FromShape(shapes.Make(dtypes.Float32, 1, side, side, cfg.ModelDim)))
	}
	return maps
}

func wordsOf(cfg Config) words {
	return words{
		tokens: tensors.FromShape(shapes.Make(dtypes.Float32, 1, cfg.ContextLength, cfg.ModelDim)),
		valid:  [][]bool{slices.Repeat([]bool{true}, cfg.ContextLength)},
	}
}
