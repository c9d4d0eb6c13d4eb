// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segmenter

import (
	"context"
	"flag"
	"fmt"
	"image"
	"math"
	"strconv"
	"strings"

	"github.com/gomlx3d/image3d/examples/internal/cli"
	"github.com/gomlx3d/image3d/sam3d/segment"
)

// Flags are the flags that say what to look for, and with which network.
type Flags struct {
	Checkpoint, Vocabulary string
	Text                   string
	Points                 []segment.Point
	Boxes                  []segment.ExampleBox
	Threshold              float64
}

// Define adds the flags. The names of those for the checkpoint and the points, and what is said of these, are the
// program's.
func (f *Flags) Define(flags *flag.FlagSet, checkpoint, aboutCheckpoint, points, aboutPoints string) {
	flags.StringVar(&f.Checkpoint, checkpoint, "", "checkpoint of SAM 3 or SAM 3.1"+aboutCheckpoint+": a file, a folder, or a repository owner/name[@revision] of the model hub")
	flags.StringVar(&f.Vocabulary, "vocabulary", "", "vocabulary of the text encoder: bpe_simple_vocab_16e6.txt.gz, merges.txt or tokenizer.json (default: beside the checkpoint)")
	flags.StringVar(&f.Text, "text", "", "what to look for, in a few words")
	flags.Func(points, "x,y[,label];... in pixels, label 1 (the default) for on it or 0 for not on it; "+aboutPoints, f.addPoints)
	flags.Func("boxes", "x0,y0,x1,y1[,label];... around examples of what to look for", f.addBoxes)
	flags.Float64Var(&f.Threshold, "threshold", 0.5, "score that a detection must exceed; below 0 all queries pass")
}

// Given reports whether anything is asked for.
func (f *Flags) Given() bool { return f.Text != "" || len(f.Points) > 0 || len(f.Boxes) > 0 }

// Clicks reports whether the points are clicks on one object, rather than examples of many.
func (f *Flags) Clicks() bool { return f.Text == "" && len(f.Boxes) == 0 }

// Check reports values that make no sense.
func (f *Flags) Check() error {
	if !(f.Threshold < 1) || f.Threshold < -1 {
		return fmt.Errorf("%w: -threshold %g is not in -1 to 1", cli.ErrUsage, f.Threshold)
	}
	if f.Threshold == 0 {
		f.Threshold = math.SmallestNonzeroFloat64 // 0 would mean the library's default
	}
	return nil
}

// Encoded calls use with the encoding of a picture. The network is gone again when it returns.
func (f *Flags) Encoded(ctx context.Context, backendName string, picture image.Image, use func(*segment.Encoding) error) error {
	model, err := Open(ctx, backendName, f.Checkpoint, f.Vocabulary)
	if err != nil {
		return err
	}
	defer model.Close()
	encoding, err := model.Encode(ctx, picture)
	if err != nil {
		return err
	}
	defer encoding.Close()
	return use(encoding)
}

// Find finds what the flags ask for: one object under clicks, at most, or all that words and examples describe.
func (f *Flags) Find(ctx context.Context, encoding *segment.Encoding) ([]Object, error) {
	if f.Clicks() {
		return Click(ctx, encoding, segment.ClickPrompt{Points: f.Points})
	}
	return Words(ctx, encoding, segment.Prompt{Text: f.Text, Boxes: f.Boxes, Points: f.Points, Threshold: f.Threshold})
}

func (f *Flags) addPoints(text string) error {
	return parseList(text, 2, func(v []float64, label segment.Label) {
		f.Points = append(f.Points, segment.Point{X: v[0], Y: v[1], Label: label})
	})
}

func (f *Flags) addBoxes(text string) error {
	return parseList(text, 4, func(v []float64, label segment.Label) {
		f.Boxes = append(f.Boxes, segment.ExampleBox{Box: segment.Box{X0: v[0], Y0: v[1], X1: v[2], Y1: v[3]}, Label: label})
	})
}

// parseList reads entries between semicolons, of n numbers and perhaps a label each.
func parseList(text string, n int, put func(values []float64, label segment.Label)) error {
	for entry := range strings.SplitSeq(strings.TrimRight(text, "; "), ";") {
		var values []float64
		for word := range strings.SplitSeq(entry, ",") {
			v, err := strconv.ParseFloat(strings.TrimSpace(word), 64)
			if err != nil {
				return fmt.Errorf("%q: %w", entry, err)
			}
			values = append(values, v)
		}
		label := segment.Foreground
		switch {
		case len(values) == n+1 && values[n] == 0:
			label = segment.Background
		case len(values) == n+1 && values[n] != 1:
			return fmt.Errorf("%q: label %g, neither 1 nor 0", entry, values[n])
		case len(values) != n && len(values) != n+1:
			return fmt.Errorf("%q: %d numbers, not %d and perhaps a label", entry, len(values), n)
		}
		put(values[:n], label)
	}
	return nil
}
