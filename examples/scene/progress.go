// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/gomlx3d/image3d/sam3d"
)

// progress shows one bar for each stage of an object on a terminal, and one line for each step elsewhere.
type progress struct {
	out      io.Writer
	terminal bool
	bar      *progressbar.ProgressBar
}

func newProgress(out io.Writer) *progress {
	file, ok := out.(*os.File)
	return &progress{out: out, terminal: ok && term.IsTerminal(int(file.Fd()))}
}

// of returns what shows the events of one object.
func (p *progress) of(name string) func(sam3d.Event) {
	return func(e sam3d.Event) {
		if !p.terminal {
			if e.Step > 0 {
				fmt.Fprintf(p.out, "%s: %s %d/%d after %s\n", name, e.Stage, e.Step, e.Of, e.Elapsed.Round(10*time.Millisecond))
			}
			return
		}
		if e.Step == 0 {
			p.close()
			p.bar = progressbar.NewOptions(e.Of, progressbar.OptionSetWriter(p.out), progressbar.OptionSetWidth(30),
				progressbar.OptionSetDescription(fmt.Sprintf("%s %-10s", name, e.Stage)), progressbar.OptionShowCount(),
				progressbar.OptionSetElapsedTime(true), progressbar.OptionSetPredictTime(e.Of > 1),
				progressbar.OptionThrottle(0), progressbar.OptionSetRenderBlankState(true))
		}
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
