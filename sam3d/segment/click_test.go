// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/nn"
)

func TestClick(t *testing.T) {
	encoding := encodeRandom(t, smallModel(t), 33, 17)
	one := Point{X: 12, Y: 5, Label: Foreground}
	all, err := encoding.Click(t.Context(), ClickPrompt{Points: []Point{one}, All: true})
	require.NoError(t, err)
	require.Len(t, all, 3)
	best := slices.MaxFunc(all, func(a, b Object) int { return int(math.Copysign(1, float64(a.Score-b.Score))) })
	found, err := encoding.Click(t.Context(), ClickPrompt{Points: []Point{one}})
	require.NoError(t, err)
	require.Equal(t, []Object{best}, found, "a single click gives the best of three")
	object := found[0]
	require.Equal(t, []int{33, 17}, []int{object.Mask.Rect.Dx(), object.Mask.Rect.Dy()})
	require.Equal(t, Logits{20, 20, object.Logits.Values}, object.Logits)
	for _, v := range object.Mask.Pix {
		require.True(t, v == 0 || v == 255)
	}

	// The answer may be the next question.
	again, err := encoding.Click(t.Context(), ClickPrompt{Mask: &object.Logits, Points: []Point{one, {X: 0, Y: 17, Label: Background}}})
	require.NoError(t, err)
	require.Len(t, again, 1)
	require.NotEqual(t, object.Logits, again[0].Logits)
	_, err = encoding.Click(t.Context(), ClickPrompt{Mask: &Logits{Width: 3, Height: 5, Values: make([]float32, 15)}})
	require.NoError(t, err, "a mask of any size")
}

// TestMaskAlone: a mask without points and box is a prompt without tokens.
func TestMaskAlone(t *testing.T) {
	model := smallModel(t)
	encoding := encodeRandom(t, model, 20, 20)
	near := Logits{Width: 20, Height: 20, Values: randomFloats(400)}
	found, err := encoding.Click(t.Context(), ClickPrompt{Mask: &near})
	require.NoError(t, err)
	d, err := model.interactive.runPadded(encoding.clicks, clickTokens{}, 1, near.Values)
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.InDelta(t, d.scores[d.single(0.05, 0.98)], found[0].Score, 1e-6)
	ended := clickTokens{}
	ended.add(0, 0, tokenNoPoint)
	other, err := model.interactive.run(encoding.clicks, ended, near.Values)
	require.NoError(t, err)
	require.NotEqual(t, d.scores, other.scores, "the token that ends prompts would matter")
}

// TestLogitsAreBounded: an answer is a mild hint as the next question. The mask is made before.
func TestLogitsAreBounded(t *testing.T) {
	d := &decoded{side: 2, masks: [][]float32{{100, 2, -40, -40}}, scores: []float32{0.5}}
	encoding := &Encoding{Width: 2, Height: 5, model: smallModel(t)}
	objects, err := encoding.objects(t.Context(), d, []int{0})
	require.NoError(t, err)
	object := objects[0]
	require.Equal(t, []float32{maxLogit, 2, -maxLogit, -maxLogit}, object.Logits.Values)
	require.Equal(t, []byte{255, 255, 255, 0, 255, 0, 0, 0, 0, 0}, object.Mask.Pix, "at the middle there are 30, and not 0")
}

// TestPromptsRunNoEncoder: a click runs two programs, and a text that is known does without those of the text encoder.
func TestPromptsRunNoEncoder(t *testing.T) {
	cfg := smallGrounding()
	cfg.Interactive = true
	device := fixture.NewDevice(fixture.Backend(t))
	model, err := New(device, cfg, randomSet(cfg, 5))
	require.NoError(t, err)
	defer model.Close()
	model.lexicon.tokenizer, err = newTokenizer(strings.Split(smallMerges, "\n")[1:5], cfg)
	require.NoError(t, err)
	executed := 0
	device.Fail(func(_ int, operation string) error {
		if operation == "execute" {
			executed++
		}
		return nil
	})
	runs := func(f func() error) int {
		executed = 0
		require.NoError(t, f())
		return executed
	}
	encoding := encodeRandom(t, model, 40, 30)
	defer encoding.Close()
	require.GreaterOrEqual(t, executed, 1+cfg.ViTDepth+2*levels)
	click := func() error {
		_, err := encoding.Click(t.Context(), ClickPrompt{Points: []Point{{X: 3, Y: 4, Label: Foreground}}})
		return err
	}
	require.Equal(t, 2, runs(click))
	require.Equal(t, 2, runs(click))
	words := func() error {
		_, err := encoding.Segment(t.Context(), Prompt{Text: "cat", Threshold: -1})
		return err
	}
	first := runs(words)
	require.Equal(t, 2+cfg.TextLayers, first-runs(words))
}

// TestPaddingIsInvisible compares a prompt with the same prompt among more tokens that do not count.
func TestPaddingIsInvisible(t *testing.T) {
	model := smallModel(t)
	encoding := encodeRandom(t, model, 20, 20)
	var long clickTokens
	for i := range minTokens + 1 { // padded to twice minTokens
		long.add(float64(i)/10, 0.5, tokenForeground)
	}
	padded, err := model.interactive.run(encoding.clicks, long, nil)
	require.NoError(t, err)
	exact, err := model.interactive.runPadded(encoding.clicks, long, len(long.kinds), nil)
	require.NoError(t, err)
	for i := range maskTokens {
		require.InDeltaSlice(t, exact.masks[i], padded.masks[i], 1e-5)
	}
	require.InDeltaSlice(t, exact.scores, padded.scores, 1e-6)
}

func TestSingleMask(t *testing.T) {
	for name, test := range map[string]struct {
		first []float32
		want  int
	}{
		"steady":  {[]float32{3, 2, -2, -3}, 0},
		"shaky":   {[]float32{3, 0.01, -0.01, -3}, 2},
		"nothing": {[]float32{-3, -2, -2, -3}, 0},
	} {
		d := &decoded{side: 2, masks: [][]float32{test.first}, scores: []float32{1, 0.2, 0.4, 0.4}}
		require.Equal(t, test.want, d.single(0.05, 0.98), name)
	}
}

func TestClickRefuses(t *testing.T) {
	encoding := encodeRandom(t, smallModel(t), 33, 17)
	nan := float32(math.NaN())
	on := Point{X: 1, Y: 1, Label: Foreground}
	for name, prompt := range map[string]ClickPrompt{
		"nothing":             {},
		"no label":            {Points: []Point{{X: 1, Y: 1}}},
		"unknown label":       {Points: []Point{on, {X: 1, Y: 1, Label: 2}}},
		"right of it":         {Points: []Point{{X: 33.1, Y: 1, Label: Foreground}}},
		"above it":            {Points: []Point{{X: 3, Y: -0.1, Label: Background}}},
		"NaN":                 {Points: []Point{{X: math.NaN(), Y: 1, Label: Foreground}}},
		"infinite":            {Points: []Point{{X: math.Inf(1), Y: 1, Label: Foreground}}},
		"too many":            {Points: slices.Repeat([]Point{on}, maxClicks+1)},
		"empty box":           {Box: &Box{3, 3, 3, 5}},
		"box upside down":     {Box: &Box{3, 5, 4, 3}},
		"box outside":         {Box: &Box{3, 3, 34, 5}},
		"box NaN":             {Box: &Box{math.NaN(), 3, 30, 5}},
		"mask without values": {Mask: &Logits{Width: 4, Height: 4}},
		"mask too short":      {Mask: &Logits{Width: 2, Height: 2, Values: make([]float32, 3)}},
		"mask of no size":     {Mask: &Logits{Width: -2, Height: -2, Values: make([]float32, 4)}},
		"mask too wide":       {Mask: &Logits{Width: 1 << 40, Height: 1 << 40}},
		"mask NaN":            {Mask: &Logits{Width: 1, Height: 1, Values: []float32{nan}}},
	} {
		_, err := encoding.Click(t.Context(), prompt)
		require.ErrorIs(t, err, ErrInput, name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := encoding.Click(ctx, ClickPrompt{Points: []Point{on}})
	require.ErrorIs(t, err, context.Canceled)
	encoding.Close()
	_, err = encoding.Click(t.Context(), ClickPrompt{Points: []Point{on}})
	require.ErrorIs(t, err, ErrClosed)
	encoding.Close() // again, without harm
	(&Encoding{model: &Model{}}).Close()
	_, err = (&Encoding{model: &Model{}}).Click(t.Context(), ClickPrompt{Points: []Point{on}})
	require.ErrorIs(t, err, ErrNoHead)
}

// TestClicksAtOnce asks different questions from several goroutines; each must get the answer it gets alone.
func TestClicksAtOnce(t *testing.T) {
	encoding := encodeRandom(t, smallModel(t), 40, 30)
	var prompts []ClickPrompt
	for i := range 8 {
		prompt := ClickPrompt{Points: slices.Repeat([]Point{{X: float64(5 * i), Y: float64(3 * i), Label: Foreground}}, 1+i), All: i%2 == 0}
		if i > 4 {
			prompt.Box = &Box{1, 2, 30, float64(10 + i)}
		}
		prompts = append(prompts, prompt)
	}
	alone := make([][]Object, len(prompts))
	for i, prompt := range prompts {
		var err error
		alone[i], err = encoding.Click(t.Context(), prompt)
		require.NoError(t, err)
	}
	together, errs := make([][]Object, len(prompts)), make([]error, len(prompts))
	var group sync.WaitGroup
	for i, prompt := range prompts {
		group.Go(func() {
			for range 3 {
				together[i], errs[i] = encoding.Click(t.Context(), prompt)
			}
		})
	}
	group.Wait()
	for i := range prompts {
		require.NoError(t, errs[i])
		require.Equal(t, alone[i], together[i], i)
	}
	require.NotEqual(t, alone[0], alone[2])
}

// TestCloseDuringClicks closes an encoding that is in use: calls succeed or fail with ErrClosed.
func TestCloseDuringClicks(t *testing.T) {
	encoding := encodeRandom(t, smallModel(t), 40, 30)
	var group sync.WaitGroup
	errs := make(chan error, 64)
	for i := range 8 {
		group.Go(func() {
			for range 8 {
				_, err := encoding.Click(t.Context(), ClickPrompt{Points: []Point{{X: float64(i), Y: 1, Label: Foreground}}})
				errs <- err
			}
		})
	}
	encoding.Close()
	group.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			require.ErrorIs(t, err, ErrClosed)
		}
	}
}

// TestClicksCompileOnce checks that prompts of about the same length share a program.
func TestClicksCompileOnce(t *testing.T) {
	encoding := encodeRandom(t, smallModel(t), 40, 30)
	click := func(n int) {
		_, err := encoding.Click(t.Context(), ClickPrompt{Points: slices.Repeat([]Point{{X: 3, Y: 4, Label: Foreground}}, n)})
		require.NoError(t, err)
	}
	click(1)
	before := nn.Compilations()
	for n := 1; n < minTokens; n++ {
		click(n)
	}
	require.Equal(t, before, nn.Compilations())
	for n := minTokens; n < 2*minTokens; n++ {
		click(n)
	}
	require.Equal(t, before+1, nn.Compilations())
}

func TestEncodeStops(t *testing.T) {
	model := smallModel(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := model.Encode(ctx, nil)
	require.ErrorIs(t, err, ErrInput)
	size := model.cfg.ImageSize
	input := tensors.FromFlatDataAndDimensions(make([]float32, 3*size*size), 1, 3, size, size)
	for after := range 6 { // looks: before the encoder, after each of two blocks and three levels
		_, err := model.encode(&expiring{Context: t.Context(), left: after}, input)
		require.ErrorIs(t, err, context.Canceled, after)
	}
	for _, dims := range [][]int{{1, 3, size, size + 1}, {1, 1, size, size}, {3, size, size}} {
		_, err := model.encode(t.Context(), tensors.FromShape(shapes.Make(dtypes.Float32, dims...)))
		require.ErrorIs(t, err, ErrInput)
	}
}
