// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"context"
	"fmt"
	"image"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/imageio"
	"github.com/gomlx3d/image3d/internal/nn"
)

// smallMerges is a vocabulary file of few pairs.
const smallMerges = "#version: 0.2\nc a\nca t</w>\nd o\ndo g</w>\n"

// smallGrounding is a network of the grounding head alone, whose vocabulary is that of smallMerges.
func smallGrounding() Config {
	cfg := small()
	cfg.Grounding, cfg.Interactive = true, false
	cfg.VocabularySize = 2*256 + strings.Count(smallMerges, "\n") - 1 + specialTokens
	cfg.BeginToken, cfg.EndToken = cfg.VocabularySize-2, cfg.VocabularySize-1
	return cfg
}

// groundingModel returns a network of the small configuration with its vocabulary, closed with the test.
func groundingModel(t *testing.T) *Model {
	t.Helper()
	cfg := smallGrounding()
	model, err := New(fixture.Backend(t), cfg, randomSet(cfg, 5))
	require.NoError(t, err)
	t.Cleanup(model.Close)
	path := filepath.Join(t.TempDir(), "merges.txt")
	require.NoError(t, os.WriteFile(path, []byte(smallMerges), 0o666))
	require.NoError(t, model.LoadVocabulary(path))
	return model
}

func TestSegment(t *testing.T) {
	model := groundingModel(t)
	encoding := encodeRandom(t, model, 33, 17)
	all, err := encoding.Segment(t.Context(), Prompt{Text: "cat", Threshold: -1})
	require.NoError(t, err)
	require.Len(t, all, model.cfg.Queries)
	// The masks must be those of the full list of logits, resized apart.
	s := &stage{ctx: t.Context()}
	defer s.free()
	d, release, err := encoding.detect(s, Prompt{Text: " cat\n"})
	require.NoError(t, err)
	defer release()
	every := tensors.FromFlatDataAndDimensions([]int32{0, 1, 2}, 1, 3)
	logits := s.floats(s.run1(model.grounding.programs.masks, model.grounding.mask,
		model.grounding.pixels(s, encoding.grounding, d), d.queries, every))
	require.NoError(t, s.err)
	side := 4 * model.cfg.grid()
	full, err := imageio.Resize(imageio.Planes{C: 3, H: side, W: side, Data: logits}, 17, 33, imageio.Bilinear)
	require.NoError(t, err)
	for i, detection := range all {
		require.Equal(t, image.Rect(0, 0, 33, 17), detection.Mask.Rect)
		wrong := 0
		for k, v := range full.Data[i*33*17 : (i+1)*33*17] {
			if (v > 0) != (detection.Mask.Pix[k] == 255) && math.Abs(float64(v)) > 1e-4 {
				wrong++
			}
		}
		require.Zero(t, wrong)
		require.InDelta(t, d.score(i), detection.Score, 1e-6)
	}
	// A threshold keeps the others' order.
	scores := []float32{all[0].Score, all[1].Score, all[2].Score}
	slices.Sort(scores)
	best, err := encoding.Segment(t.Context(), Prompt{Text: "cat", Threshold: float64(scores[0])})
	require.NoError(t, err)
	require.Equal(t, slices.DeleteFunc(slices.Clone(all), func(d Detection) bool { return d.Score == scores[0] }), best)
	none, err := encoding.Segment(t.Context(), Prompt{Text: "cat", Threshold: 1})
	require.NoError(t, err)
	require.Empty(t, none)
	mask, err := encoding.Semantic(t.Context(), Prompt{Text: "cat"})
	require.NoError(t, err)
	require.Equal(t, []int{side, side, side * side}, []int{mask.Width, mask.Height, len(mask.Values)})
}

// TestPromptsMatter: each part of a prompt changes the answer.
func TestPromptsMatter(t *testing.T) {
	encoding := encodeRandom(t, groundingModel(t), 20, 20)
	box, point := Box{2, 3, 12, 9}, Point{X: 4, Y: 5, Label: Foreground}
	away := point
	away.Label = Background
	seen := make(map[float32]int)
	for i, prompt := range []Prompt{
		{Text: "cat"}, {Text: "dog"}, {Text: "visual", Boxes: []ExampleBox{{box, Foreground}}},
		{Text: "visual", Boxes: []ExampleBox{{box, Background}}}, {Text: "cat", Points: []Point{point}},
		{Text: "cat", Points: []Point{away}}, {Text: "cat", Points: []Point{point, away}},
		{Text: "cat", Boxes: slices.Repeat([]ExampleBox{{box, Foreground}}, minExemplars+1)},
	} {
		prompt.Threshold = -1
		found, err := encoding.Segment(t.Context(), prompt)
		require.NoError(t, err)
		before, again := seen[found[0].Score]
		require.False(t, again, "prompts %d and %d", before, i)
		seen[found[0].Score] = i
	}
	worded, err := encoding.Segment(t.Context(), Prompt{Text: "visual", Boxes: []ExampleBox{{box, Foreground}}, Threshold: -1})
	require.NoError(t, err)
	wordless, err := encoding.Segment(t.Context(), Prompt{Text: " \t", Boxes: []ExampleBox{{box, Foreground}}, Threshold: -1})
	require.NoError(t, err)
	require.Equal(t, worded, wordless, "examples without words")
}

// TestNoPromptIsDropped: the last of many points, boxes and clicks changes the answer as the first does, at the sizes of
// compiled programs and beyond.
func TestNoPromptIsDropped(t *testing.T) {
	cfg := smallGrounding()
	cfg.Interactive = true
	model, err := New(fixture.Backend(t), cfg, randomSet(cfg, 5))
	require.NoError(t, err)
	defer model.Close()
	encoding := encodeRandom(t, model, 20, 20)
	s := &stage{ctx: t.Context()}
	defer s.free()
	text := words{tokens: s.run1(model.grounding.programs.textEnd, model.grounding.textEnd,
		tensors.FromFlatDataAndDimensions(make([]float32, 6*cfg.TextDim), 1, 6, cfg.TextDim)), valid: [][]bool{make([]bool, 6)}}
	for _, n := range []int{1, 3, 4, 5, 8, 9, 16, 17} {
		for name, answer := range map[string]func(label Label) float32{
			"clicks": func(label Label) float32 {
				points := slices.Repeat([]Point{{X: 3, Y: 4, Label: Foreground}}, n)
				points[n-1].Label = label
				found, err := encoding.Click(t.Context(), ClickPrompt{Points: points})
				require.NoError(t, err)
				return found[0].Score
			},
			"points": func(label Label) float32 {
				points := slices.Repeat([]examplePoint{{0.3, 0.4, true}}, n)
				points[n-1].positive = label == Foreground
				d := model.grounding.detect(s, encoding.grounding, text, []exemplars{{points: points, global: true}})
				require.NoError(t, s.err)
				return d.presence[0]
			},
			"boxes": func(label Label) float32 {
				boxes := slices.Repeat([]exampleBox{{0.3, 0.4, 0.2, 0.1, true}}, n)
				boxes[n-1].positive = label == Foreground
				d := model.grounding.detect(s, encoding.grounding, text, []exemplars{{boxes: boxes, global: true}})
				require.NoError(t, s.err)
				return d.presence[0]
			},
		} {
			require.NotEqual(t, answer(Foreground), answer(Background), "the last of %d %s", n, name)
		}
	}
}

// TestPlacesAreInvisible compares a prompt with the same beside a longer one, which needs more places.
func TestPlacesAreInvisible(t *testing.T) {
	model := groundingModel(t)
	encoding := encodeRandom(t, model, 20, 20)
	short := exemplars{global: true, boxes: []exampleBox{{0.4, 0.5, 0.3, 0.2, true}}, points: []examplePoint{{0.1, 0.9, false}}}
	long := exemplars{
		global: true, boxes: slices.Repeat(short.boxes, minExemplars+1), points: slices.Repeat(short.points, 3*minExemplars),
	}
	s := &stage{ctx: t.Context()}
	defer s.free()
	text, err := model.words(s, "dog")
	require.NoError(t, err)
	alone := model.grounding.detect(s, encoding.grounding, text, []exemplars{short})
	in := model.cfg.newExemplarInput([]exemplars{short, long})
	require.Equal(t, []int{4 * minExemplars, 2 * minExemplars}, []int{in.points, in.boxes})
	var twice []*tensors.Tensor
	for _, m := range append(slices.Clone(encoding.grounding), text.tokens) {
		flat := tensors.MustCopyFlatData[float32](m)
		dims := slices.Clone(m.Shape().Dimensions)
		dims[0] = 2
		twice = append(twice, tensors.FromFlatDataAndDimensions(append(flat, flat...), dims...))
	}
	both := model.grounding.detect(s, twice[:levels], words{twice[levels], [][]bool{text.valid[0], text.valid[0]}}, []exemplars{short, long})
	require.NoError(t, s.err)
	n := model.cfg.Queries
	require.InDeltaSlice(t, alone.logits, both.logits[:n], 1e-5)
	require.InDeltaSlice(t, alone.boxes, both.boxes[:4*n], 1e-5)
	require.InDelta(t, alone.presence[0], both.presence[0], 1e-5)
	require.NotEqual(t, alone.presence[0], both.presence[1])
}

func TestSegmentRefuses(t *testing.T) {
	model := groundingModel(t)
	encoding := encodeRandom(t, model, 33, 17)
	box := func(x0, y0, x1, y1 float64, label Label) []ExampleBox {
		return []ExampleBox{{Box{x0, y0, x1, y1}, label}}
	}
	nan := math.NaN()
	for name, prompt := range map[string]Prompt{
		"nothing":           {},
		"blanks":            {Text: " \n"},
		"box outside":       {Boxes: box(3, 3, 34, 5, Foreground)},
		"box before":        {Boxes: box(-1, 3, 30, 5, Foreground)},
		"box upside down":   {Boxes: box(3, 5, 30, 3, Foreground)},
		"box NaN":           {Boxes: box(3, nan, 30, 3, Foreground)},
		"box of no label":   {Boxes: box(3, 3, 30, 5, 0)},
		"point outside":     {Points: []Point{{X: 3, Y: 18, Label: Foreground}}},
		"point NaN":         {Points: []Point{{X: nan, Y: 1, Label: Foreground}}},
		"point of no label": {Points: []Point{{X: 3, Y: 1}}},
		"too many":          {Points: slices.Repeat([]Point{{X: 3, Y: 1, Label: Foreground}}, maxPromptExamples+1)},
		"threshold":         {Text: "cat", Threshold: nan},
		"long word":         {Text: strings.Repeat("cat", 4000)},
	} {
		_, err := encoding.Segment(t.Context(), prompt)
		require.ErrorIs(t, err, ErrInput, name)
		_, err = encoding.Semantic(t.Context(), prompt)
		require.ErrorIs(t, err, ErrInput, name)
	}
	large := &Encoding{Width: 1 << 16, Height: 1 << 16, model: model, grounding: encoding.grounding}
	_, err := large.Segment(t.Context(), Prompt{Text: "cat", Threshold: -1})
	require.ErrorIs(t, err, ErrInput, "masks of 12 GiB")
	for looks := range 12 {
		_, err := encoding.Segment(&expiring{Context: t.Context(), left: looks}, Prompt{Text: fmt.Sprint("cat", looks), Threshold: -1})
		require.ErrorIs(t, err, context.Canceled, looks)
	}
	encoding.Close()
	_, err = encoding.Segment(t.Context(), Prompt{Text: "cat"})
	require.ErrorIs(t, err, ErrClosed)
	_, err = (&Encoding{model: &Model{}}).Segment(t.Context(), Prompt{Text: "cat"})
	require.ErrorIs(t, err, ErrNoHead)
	cfg := smallGrounding()
	cfg.Layout = TransformersModel
	_, err = (&Encoding{Width: 9, Height: 9, model: &Model{cfg: cfg, grounding: &grounding{}}}).
		Segment(t.Context(), Prompt{Points: []Point{{X: 3, Y: 1, Label: Foreground}}})
	require.ErrorIs(t, err, ErrNoHead)
}

// TestTextsAreKept: a text is encoded once, and not again where the vocabulary is gone.
func TestTextsAreKept(t *testing.T) {
	model := groundingModel(t)
	encoding := encodeRandom(t, model, 20, 20)
	first, err := encoding.Segment(t.Context(), Prompt{Text: "cat", Threshold: -1})
	require.NoError(t, err)
	missing := filepath.Join(t.TempDir(), "none")
	err = model.LoadVocabulary(missing)
	require.ErrorIs(t, err, ErrVocabulary)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Contains(t, err.Error(), missing)
	model.lexicon.tokenizer, model.lexicon.missing = nil, err
	again, err := encoding.Segment(t.Context(), Prompt{Text: "cat", Threshold: -1})
	require.NoError(t, err)
	require.Equal(t, first, again)
	_, err = encoding.Segment(t.Context(), Prompt{Text: "dog"})
	require.ErrorIs(t, err, ErrVocabulary)
	require.Contains(t, err.Error(), missing)
	var l lexicon
	for i := range 2 * maxCachedTexts {
		l.keep(fmt.Sprint(i), encodedText{})
	}
	require.Len(t, l.known, maxCachedTexts)
	require.Contains(t, l.known, fmt.Sprint(2*maxCachedTexts-1))
}

func TestSegmentCompilesOnce(t *testing.T) {
	encoding := encodeRandom(t, groundingModel(t), 40, 30)
	segment := func(prompt Prompt) {
		prompt.Threshold = -1
		_, err := encoding.Segment(t.Context(), prompt)
		require.NoError(t, err)
	}
	segment(Prompt{Text: "cat"})
	before := nn.Compilations()
	for n := 1; n <= minExemplars; n++ {
		segment(Prompt{Text: "a dog", Boxes: slices.Repeat([]ExampleBox{{Box{1, 2, 3, 4}, Foreground}}, n)})
		segment(Prompt{Points: slices.Repeat([]Point{{X: 1, Y: 2, Label: Background}}, n)})
	}
	encoding.Width, encoding.Height = 250, 3
	segment(Prompt{Text: "cat"})
	require.Equal(t, before, nn.Compilations())
}

// TestAwkwardPictures runs pictures of few pixels and of long sides from the file to the masks.
func TestAwkwardPictures(t *testing.T) {
	model := groundingModel(t)
	for _, size := range []image.Point{{1, 1}, {2, 1}, {3000, 2}, {1, 700}} {
		picture := image.NewGray(image.Rectangle{Max: size})
		for i := range picture.Pix {
			picture.Pix[i] = uint8(i)
		}
		encoding, err := model.Encode(t.Context(), picture)
		require.NoError(t, err)
		found, err := encoding.Segment(t.Context(), Prompt{
			Text: "cat", Boxes: []ExampleBox{{Box{0, 0, float64(size.X), float64(size.Y)}, Foreground}},
			Points: []Point{{X: float64(size.X), Y: 0, Label: Background}}, Threshold: -1,
		})
		require.NoError(t, err)
		require.Len(t, found, model.cfg.Queries)
		for _, detection := range found {
			require.Equal(t, size, detection.Mask.Rect.Size())
			require.False(t, detection.Score != detection.Score)
		}
		encoding.Close()
	}
	_, err := model.Encode(t.Context(), image.NewGray(image.Rectangle{}))
	require.ErrorIs(t, err, ErrInput)
	_, err = model.Encode(t.Context(), (*image.NRGBA)(nil))
	require.ErrorIs(t, err, ErrInput)
}

// TestSegmentAtOnce asks different questions from several goroutines; each must get the answer it gets alone.
func TestSegmentAtOnce(t *testing.T) {
	encoding := encodeRandom(t, groundingModel(t), 40, 30)
	var prompts []Prompt
	for i := range 6 {
		prompts = append(prompts, Prompt{
			Text: []string{"cat", "dog", "cat dog"}[i%3], Threshold: -1,
			Boxes: slices.Repeat([]ExampleBox{{Box{1, 2, float64(5 + i), 9}, Foreground}}, i),
		})
	}
	alone, together, errs := make([][]Detection, len(prompts)), make([][]Detection, len(prompts)), make([]error, len(prompts))
	for i, prompt := range prompts {
		var err error
		alone[i], err = encoding.Segment(t.Context(), prompt)
		require.NoError(t, err)
	}
	encoding.model.lexicon.known, encoding.model.lexicon.order = nil, nil
	var group sync.WaitGroup
	for i, prompt := range prompts {
		group.Go(func() { together[i], errs[i] = encoding.Segment(t.Context(), prompt) })
	}
	group.Wait()
	for i := range prompts {
		require.NoError(t, errs[i])
		require.Equal(t, alone[i], together[i], i)
	}
}
