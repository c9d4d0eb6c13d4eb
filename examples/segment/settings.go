// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/gomlx3d/image3d/examples/internal/cli"
	"github.com/gomlx3d/image3d/sam3d"
	"github.com/gomlx3d/image3d/sam3d/segment"
)

// settings are the flags.
type settings struct {
	model, vocabulary, backend string
	image, text, out           string
	points                     []segment.Point
	boxes                      []segment.ExampleBox
	threshold                  float64
	maxPixels                  int
	json, force                bool
}

// clicks reports whether the points are clicks on one object, rather than examples of many.
func (s settings) clicks() bool { return s.text == "" && len(s.boxes) == 0 }

func parse(args []string, stderr io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("segment", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&s.model, "model", "", "checkpoint of SAM 3 or SAM 3.1: a file, a folder, or a repository owner/name[@revision] of the model hub")
	flags.StringVar(&s.vocabulary, "vocabulary", "", "vocabulary of the text encoder: bpe_simple_vocab_16e6.txt.gz, merges.txt or tokenizer.json (default: beside the checkpoint)")
	flags.StringVar(&s.image, "image", "", "photograph: PNG, JPEG, GIF, WebP, TIFF or BMP")
	flags.StringVar(&s.text, "text", "", "what to look for, in a few words")
	flags.Func("points", "x,y[,label];... in pixels, label 1 (the default) for on it or 0 for not on it; alone they find the one object under them, with -text or -boxes they are examples", s.setPoints)
	flags.Func("boxes", "x0,y0,x1,y1[,label];... around examples of what to look for", s.setBoxes)
	flags.Float64Var(&s.threshold, "threshold", 0.5, "score that a detection must exceed; below 0 all queries pass")
	flags.IntVar(&s.maxPixels, "max-pixels", sam3d.DefaultMaxPixels, "most pixels of the photograph")
	flags.StringVar(&s.out, "out", "out", "folder of the results")
	flags.StringVar(&s.backend, "backend", "", "go, xla:cpu, xla:cuda or xla:rocm (default: $GOMLX_BACKEND, or go)")
	flags.BoolVar(&s.json, "json", false, "print the result as JSON")
	flags.BoolVar(&s.force, "force", false, "overwrite results that exist")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	return s, s.check(flags)
}

// check reports flags that are missing or do not go together.
func (s *settings) check(flags *flag.FlagSet) error {
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("%w: unexpected argument %q", cli.ErrUsage, flags.Arg(0))
	case s.model == "" || s.image == "":
		return fmt.Errorf("%w: -model and -image are needed", cli.ErrUsage)
	case s.text == "" && len(s.points) == 0 && len(s.boxes) == 0:
		return fmt.Errorf("%w: -text, -points or -boxes is needed", cli.ErrUsage)
	case !(s.threshold < 1) || s.threshold < -1:
		return fmt.Errorf("%w: -threshold %g is not in -1 to 1", cli.ErrUsage, s.threshold)
	case s.maxPixels < 1:
		return fmt.Errorf("%w: -max-pixels %d", cli.ErrUsage, s.maxPixels)
	}
	if s.threshold == 0 {
		s.threshold = math.SmallestNonzeroFloat64 // 0 would mean the library's default
	}
	return nil
}

func (s *settings) setPoints(text string) error {
	return parseList(text, 2, func(v []float64, label segment.Label) {
		s.points = append(s.points, segment.Point{X: v[0], Y: v[1], Label: label})
	})
}

func (s *settings) setBoxes(text string) error {
	return parseList(text, 4, func(v []float64, label segment.Label) {
		s.boxes = append(s.boxes, segment.ExampleBox{Box: segment.Box{X0: v[0], Y0: v[1], X1: v[2], Y1: v[3]}, Label: label})
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
