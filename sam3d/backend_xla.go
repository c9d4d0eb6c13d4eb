// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

//go:build ((linux && (amd64 || arm64)) || (darwin && arm64) || (windows && amd64)) && cgo && !noxla

package sam3d

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx/go-xla/compute/xla"
	"github.com/gomlx/go-xla/pjrt"
)

// oldestPlugin is the oldest minor version of the PJRT C API that was found to run the models.
const oldestPlugin = 81

func init() {
	// A library must not download native code behind its user's back.
	xla.EnableAutoInstall(false)
}

// checkPlugin loads the plugin of a configuration "cpu", "cuda,preallocate=false" and so on, so that a missing or an
// old one is reported with its path, its version and the way out.
func checkPlugin(config string) error {
	name, _, _ := strings.Cut(config, ",")
	if name == "" {
		name = "cpu"
	}
	plugin, err := findPlugin(name)
	if err != nil {
		where := os.Getenv("PJRT_PLUGIN_LIBRARY_PATH")
		if where == "" {
			where = "the default folders, as PJRT_PLUGIN_LIBRARY_PATH is not set"
		}
		return fmt.Errorf("no PJRT plugin %q in %s: %w; install it with \"make plugin\" (plugin-cuda, plugin-rocm) and set "+
			"PJRT_PLUGIN_LIBRARY_PATH to its folder, or choose the backend \"go\"", name, where, err)
	}
	major, minor := plugin.Version()
	return checkVersion(plugin.Path(), major, minor)
}

// checkVersion refuses a plugin whose API is another than that of the models.
func checkVersion(path string, major, minor int) error {
	if major != 0 || minor < oldestPlugin {
		return fmt.Errorf("the PJRT plugin %s has API version %d.%d, and 0.%d or newer is needed; install one with "+
			"\"make plugin\" (plugin-cuda, plugin-rocm)", path, major, minor, oldestPlugin)
	}
	return nil
}

// findPlugin loads a plugin by its path, its name, or the name of a version of it ("cpu_v0.114.0" for "cpu").
// go-xla v0.4.2 panics for a file that is no library.
func findPlugin(name string) (plugin *pjrt.Plugin, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("a file there cannot be loaded as a plugin")
		}
	}()
	available := pjrt.AvailablePlugins()
	if _, exact := available[name]; !exact && !filepath.IsAbs(name) {
		for _, candidate := range slices.Sorted(maps.Keys(available)) {
			if strings.HasPrefix(candidate, name+"_v") {
				return pjrt.GetPlugin(candidate)
			}
		}
	}
	return pjrt.GetPlugin(name)
}
