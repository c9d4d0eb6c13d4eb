// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows a bar on a terminal, and nothing elsewhere.
type progress struct {
	out io.Writer
	bar *progressbar.ProgressBar
}

func newProgress(out io.Writer, frames int) *progress {
	p := &progress{out: out}
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		p.bar = progressbar.NewOptions(frames, progressbar.OptionSetWriter(out), progressbar.OptionSetWidth(30),
			progressbar.OptionSetDescription("frames"), progressbar.OptionShowCount(),
			progressbar.OptionSetElapsedTime(true), progressbar.OptionSetPredictTime(true))
	}
	return p
}

func (p *progress) done(frames int) {
	if p.bar != nil {
		_ = p.bar.Set(frames) // a bar that cannot be drawn is no reason to stop
	}
}

// close ends the bar's line.
func (p *progress) close() {
	if p.bar != nil {
		_ = p.bar.Exit()
		_, _ = io.WriteString(p.out, "\n")
		p.bar = nil
	}
}
