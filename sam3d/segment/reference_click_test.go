// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/nn"
)

// clickCase computes the outputs of a case of the interactive head: prompts in pixels of the working picture.
func clickCase(t *testing.T, c *fixture.Case) map[string]any {
	var config struct {
		Multimask bool `json:"multimask_output"`
	}
	c.Decode(t, &config)
	model := modelOf(t, c)
	cfg := model.Config()
	shape := c.Shape(t, "in/pixel_values")
	pixels := c.Float32s(t, "in/pixel_values")
	prompts := clickPrompts(t, c, cfg)
	require.Zero(t, len(prompts)%shape[0])
	masks := maskPrompts(t, c, model.interactive, len(prompts))
	var logits, scores, objects []float32
	for b, picture := range slices.Collect(slices.Chunk(pixels, len(pixels)/shape[0])) {
		input := tensors.FromFlatDataAndDimensions(picture, 1, shape[1], shape[2], shape[3])
		encoding, err := model.encode(t.Context(), input)
		nn.Free(input)
		require.NoError(t, err)
		for i := b * len(prompts) / shape[0]; i < (b+1)*len(prompts)/shape[0]; i++ {
			d, err := model.interactive.run(encoding.clicks, prompts[i], masks[i])
			require.NoError(t, err)
			chosen := []int{1, 2, 3}
			if !config.Multimask {
				chosen = []int{d.single(cfg.StabilityDelta, cfg.StabilityThreshold)}
			}
			for _, k := range chosen {
				logits, scores = append(logits, d.masks[k]...), append(scores, d.scores[k])
			}
			objects = append(objects, d.object)
		}
		encoding.Close()
	}
	return map[string]any{
		"out/pred_masks": logits, "out/low_res_masks": logits, "out/iou_scores": scores, "out/iou_predictions": scores,
		"out/object_score_logits": objects,
	}
}

// input returns the name of the one input whose name holds the word, or nothing.
func input(t *testing.T, c *fixture.Case, word string) string {
	found := ""
	for _, name := range c.Tensors.Names() {
		if strings.HasPrefix(name, "in/") && strings.Contains(name, word) {
			require.Empty(t, found, "two inputs for %q", word)
			found = name
		}
	}
	return found
}

// clickPrompts returns the prompts of all pictures in order.
func clickPrompts(t *testing.T, c *fixture.Case, cfg Config) []clickTokens {
	size := float64(cfg.ImageSize)
	var points, labels, boxes []float32
	perPrompt, count := 0, 0
	if name := input(t, c, "points"); name != "" && len(c.Float32s(t, name)) > 0 {
		shape := c.Shape(t, name)
		points, perPrompt = c.Float32s(t, name), shape[len(shape)-2]
		count = len(points) / (2 * perPrompt)
		if labels = slices.Repeat([]float32{1}, count*perPrompt); input(t, c, "labels") != "" {
			labels = c.Float32s(t, input(t, c, "labels"))
		}
	}
	if name := input(t, c, "box"); name != "" && len(c.Float32s(t, name)) > 0 {
		boxes = c.Float32s(t, name)
		count = len(boxes) / 4
	}
	if count == 0 {
		return promptsWithoutPlaces(t, c, cfg)
	}
	prompts := make([]clickTokens, count)
	place := func(i int, x, y float32, kind int32) {
		prompts[i].add((float64(x)+0.5)/size, (float64(y)+0.5)/size, kind)
	}
	for i := range prompts {
		if boxes != nil {
			place(i, boxes[4*i], boxes[4*i+1], tokenUpperLeft)
			place(i, boxes[4*i+2], boxes[4*i+3], tokenLowerRight)
		}
		for k := i * perPrompt; k < (i+1)*perPrompt; k++ {
			kind := int32(labels[k])
			switch kind {
			case -1:
				kind = tokenNoPoint
			case -10:
				kind = tokenZero
			}
			place(i, points[2*k], points[2*k+1], kind)
		}
		prompts[i].add(0, 0, tokenNoPoint)
	}
	return prompts
}

// promptsWithoutPlaces returns the prompts of a case without points and boxes: one for each picture, or one for each mask.
func promptsWithoutPlaces(t *testing.T, c *fixture.Case, cfg Config) []clickTokens {
	count := c.Shape(t, "in/pixel_values")[0]
	if name := input(t, c, "mask"); name != "" {
		shape := c.Shape(t, name)
		count = max(count, len(c.Float32s(t, name))/(shape[len(shape)-2]*shape[len(shape)-1]))
	}
	prompts := make([]clickTokens, count)
	for i := range prompts {
		if cfg.Layout == TransformersTracker { // puts a point without a place there, and ends the prompt with another
			prompts[i].add(0, 0, tokenNoPoint)
			prompts[i].add(0, 0, tokenNoPoint)
		}
	}
	return prompts
}

// maskPrompts returns the mask of each prompt, or nothing.
func maskPrompts(t *testing.T, c *fixture.Case, head *interactive, prompts int) [][]float32 {
	out := make([][]float32, prompts)
	if name := input(t, c, "mask"); name != "" {
		shape := c.Shape(t, name)
		height, width := shape[len(shape)-2], shape[len(shape)-1]
		masks := slices.Collect(slices.Chunk(c.Float32s(t, name), height*width))
		for i := range out { // one mask may serve several prompts
			var err error
			out[i], err = head.maskInput(&Logits{Width: width, Height: height, Values: masks[i*len(masks)/prompts]})
			require.NoError(t, err)
		}
	}
	return out
}
