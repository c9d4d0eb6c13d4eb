// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/weights"
)

// openReleased opens a file like the released one, with all its tensors in bfloat16, but random.
func openReleased(b *testing.B, cfg Config) *Model {
	b.Helper()
	if testing.Short() {
		b.Skip("full size")
	}
	some := rounded(fixture.RandomWeights(weights.Spec{"some": weights.Param{Shape: []int{1 << 20}}})["some"]).Data
	var entries []weights.Entry
	for name, p := range Spec(cfg) {
		e := weights.Entry{Name: name, DType: dtypes.BFloat16, Shape: p.Shape}
		if len(p.DTypes) > 0 {
			e.DType = p.DTypes[0]
		}
		left := e.DType.Size()
		for _, dim := range p.Shape {
			left *= dim
		}
		e.Write = func(w io.Writer) (err error) {
			for ; left > 0 && err == nil; left -= len(some) {
				_, err = w.Write(some[:min(left, len(some))])
			}
			return err
		}
		entries = append(entries, e)
	}
	path := filepath.Join(b.TempDir(), string(cfg.Layout))
	require.NoError(b, weights.WriteTorch(path, false, weights.TorchObject{}, entries))
	began := time.Now()
	model, err := Open(b.Context(), fixture.Backend(b), path, weights.HubOptions{})
	require.NoError(b, err)
	b.Cleanup(model.Close)
	b.Logf("loaded in %.1f s", time.Since(began).Seconds())
	for name, w := range model.weights {
		require.Equal(b, dtypes.BFloat16, w.DType(), name)
	}
	require.NoError(b, model.LoadVocabulary(filepath.Join("..", "..", "testdata", "clip")))
	return model
}

// BenchmarkReleased measures SAM 3 at its size and precision, from the file to the masks of a picture of 1920 x 1080:
// what is done once, and what each prompt costs then. "s-compile" is the part of the first call that compiles.
func BenchmarkReleased(b *testing.B) {
	model := openReleased(b, SAM3())
	var e *Encoding
	encode := func() (err error) {
		if e != nil {
			e.Close()
		}
		e, err = model.Encode(b.Context(), picture(1920, 1080))
		return err
	}
	measure := func(name string, f func() error) {
		b.Run(name, func(b *testing.B) {
			if e == nil && name != "Encode" {
				require.NoError(b, encode())
			}
			before := nn.CompileTime()
			fixture.Benchmark(b, f)
			b.ReportMetric((nn.CompileTime() - before).Seconds(), "s-compile")
		})
	}
	click := func(prompt ClickPrompt) func() error {
		return func() error {
			_, err := e.Click(b.Context(), prompt)
			return err
		}
	}
	point := Point{X: 500, Y: 300, Label: Foreground}
	measure("Encode", encode)
	measure("Click", click(ClickPrompt{Points: []Point{point}}))
	measure("Box", click(ClickPrompt{Box: &Box{X0: 100, Y0: 200, X1: 900, Y1: 700}}))
	measure("Correct", click(ClickPrompt{Points: []Point{point, {X: 5, Y: 3, Label: Background}}, Mask: &Logits{
		Width: holeSide, Height: holeSide, Values: make([]float32, holeSide*holeSide),
	}}))
	words := 0
	measure("Words", func() error { // new ones each time, and eight objects
		words++
		return segmentSome(b, e, Prompt{Text: fmt.Sprint("yellow school bus ", words)}, 8)
	})
	measure("Exemplar", func() error {
		box := Box{X0: 100, Y0: 200, X1: 900, Y1: 700}
		return segmentSome(b, e, Prompt{Boxes: []ExampleBox{{box, Foreground}}}, 8)
	})
	if e != nil {
		e.Close()
	}
}

// segmentSome is Segment with a threshold that a number of queries pass, whatever their scores.
func segmentSome(b *testing.B, e *Encoding, prompt Prompt, n int) error {
	s := &stage{ctx: b.Context()}
	defer s.free()
	d, release, err := e.detect(s, prompt)
	if err != nil {
		return err
	}
	defer release()
	best := make([]int, len(d.logits))
	for i := range best {
		best[i] = i
	}
	slices.SortFunc(best, func(i, j int) int { return cmp.Compare(d.score(j), d.score(i)) })
	_, err = e.masks(s, d, best[:n])
	return err
}
