// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package objects

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/gomlx3d/image3d/sam3d"
)

// Progress shows one bar for each stage of an object on a terminal, and one line for each step elsewhere.
type Progress struct {
	out      io.Writer
	terminal bool
	bar      *progressbar.ProgressBar
}

// NewProgress shows progress on an output.
func NewProgress(out io.Writer) *Progress {
	file, ok := out.(*os.File)
	return &Progress{out: out, terminal: ok && term.IsTerminal(int(file.Fd()))}
}

// Of returns what shows the events of one object, after its name if it has one.
func (p *Progress) Of(name string) func(sam3d.Event) {
	line, label := "", ""
	if name != "" {
		line, label = name+": ", name+" "
	}
	return func(e sam3d.Event) {
		if !p.terminal {
			if e.Step > 0 {
				fmt.Fprintf(p.out, "%s%s %d/%d after %s%s\n", line, e.Stage, e.Step, e.Of, e.Elapsed.Round(10*time.Millisecond), compiling(e))
			}
			return
		}
		if e.Step == 0 {
			p.Close()
			p.bar = progressbar.NewOptions(e.Of, progressbar.OptionSetWriter(p.out), progressbar.OptionSetWidth(30),
				progressbar.OptionSetDescription(fmt.Sprintf("%s%-10s", label, e.Stage)), progressbar.OptionShowCount(),
				progressbar.OptionSetElapsedTime(true), progressbar.OptionSetPredictTime(e.Of > 1),
				progressbar.OptionThrottle(0), progressbar.OptionSetRenderBlankState(true))
		}
		_ = p.bar.Set(e.Step) // a bar that cannot be drawn is no reason to stop
	}
}

// compiling tells at the end of a stage how much of it was spent on compiling programs.
func compiling(e sam3d.Event) string {
	if took := e.Compile.Round(10 * time.Millisecond); e.Step == e.Of && took > 0 {
		return fmt.Sprintf(" (compiling took %s)", took)
	}
	return ""
}

// Close ends the bar's line.
func (p *Progress) Close() {
	if p.bar != nil {
		_ = p.bar.Exit()
		_, _ = io.WriteString(p.out, "\n")
		p.bar = nil
	}
}
