// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"

	"github.com/schollz/progressbar/v3"

	"github.com/gomlx3d/image3d/sam3d"
)

// progress shows one bar for each stage.
type progress struct {
	out io.Writer
	bar *progressbar.ProgressBar
}

func newProgress(out io.Writer) *progress { return &progress{out: out} }

func (p *progress) event(e sam3d.Event) {
	if e.Step == 0 {
		p.close()
		p.bar = progressbar.NewOptions(e.Of, progressbar.OptionSetWriter(p.out), progressbar.OptionSetWidth(30),
			progressbar.OptionSetDescription(padded(string(e.Stage))), progressbar.OptionShowCount(),
			progressbar.OptionSetElapsedTime(true), progressbar.OptionSetPredictTime(e.Of > 1),
			progressbar.OptionThrottle(0), progressbar.OptionSetRenderBlankState(true))
	}
	if p.bar != nil {
		_ = p.bar.Set(e.Step) // a bar that cannot be drawn is no reason to stop
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

// padded aligns the bars.
func padded(stage string) string {
	for len(stage) < len(sam3d.StageGaussians4) {
		stage += " "
	}
	return stage
}
