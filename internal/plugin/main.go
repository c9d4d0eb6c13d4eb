// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Command plugin installs the CPU PJRT plugin that go-xla was tested with into a folder, with go-xla's own installer.
package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/gomlx/go-xla/installer"
)

// version is go-xla v0.4.2's default.
const version = "v0.114.0"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: plugin FOLDER")
		os.Exit(2)
	}
	platform := runtime.GOOS + "_" + runtime.GOARCH
	if err := installer.CPUInstall(platform, version, os.Args[1], true, installer.Quiet); err != nil {
		fmt.Fprintf(os.Stderr, "plugin: %v\n", err)
		os.Exit(1)
	}
}
