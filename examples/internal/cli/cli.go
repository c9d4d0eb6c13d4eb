// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package cli is what the command lines of the examples have in common.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Exit statuses.
const (
	Done = iota
	Failed
	Usage
)

// ErrUsage is a wrong command line.
var ErrUsage = errors.New("wrong command line")

// Main runs a program, whose context ends with an interrupt, and exits with the status that it returns.
func Main(run func(ctx context.Context, args []string, stdout, stderr io.Writer) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Program is where a program reports.
type Program struct {
	Name           string // before its messages
	Stdout, Stderr io.Writer
}

// Refuse tells why a command line was not parsed, and returns the exit status: asking for help is no failure.
func (p Program) Refuse(err error) int {
	if errors.Is(err, flag.ErrHelp) {
		return Done
	}
	fmt.Fprintf(p.Stderr, "%s: %v\n", p.Name, err)
	return Usage
}

// End tells how a program ended that prints nothing else, and returns the exit status.
func (p Program) End(err error) int {
	if err == nil {
		return Done
	}
	fmt.Fprintf(p.Stderr, "%s: %v\n", p.Name, err)
	return Failed
}

// Report prints the result of a program, by print or as JSON, or why there is none, and returns the exit status.
func (p Program) Report(result any, print func(io.Writer) error, asJSON bool, err error) int {
	switch {
	case err != nil && asJSON:
		_ = json.NewEncoder(p.Stdout).Encode(map[string]string{"error": err.Error()})
	case err != nil:
	case asJSON:
		err = WriteJSON(p.Stdout, result)
	default:
		err = print(p.Stdout)
	}
	return p.End(err)
}

// WriteJSON writes a value as JSON for people.
func WriteJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// Choices splits a list and checks that every entry is known.
func Choices(flag, list string, known []string) ([]string, error) {
	var out []string
	for word := range strings.SplitSeq(list, ",") {
		word = strings.TrimSpace(word)
		if !slices.Contains(known, word) {
			return nil, fmt.Errorf("%w: -%s: unknown %q; there are %s", ErrUsage, flag, word, strings.Join(known, ", "))
		}
		if !slices.Contains(out, word) {
			out = append(out, word)
		}
	}
	return out, nil
}

// MakeFolder makes the folder of the results. Unless they may be overwritten, it is an error if one of the files is
// there already.
func MakeFolder(folder string, overwrite bool, files ...string) error {
	if err := os.MkdirAll(folder, 0o777); err != nil || overwrite {
		return err
	}
	for _, name := range files {
		path := filepath.Join(folder, name)
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%s: %w; -force overwrites it", path, fs.ErrExist)
		}
	}
	return nil
}

// CheckWritable finds out, before any work, whether files can be made in a folder.
func CheckWritable(folder string) error {
	probe, err := os.CreateTemp(folder, ".image3d-*.tmp")
	if err != nil {
		return err
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}
