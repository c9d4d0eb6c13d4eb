// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package arch holds the tests of the module's structure.
package arch

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
)

const module = "github.com/gomlx3d/image3d/"

// allowed lists what each package may import of the module. Arrows never point back.
var allowed = map[string][]string{
	"internal/nn":       {},
	"internal/geom":     {},
	"internal/imageio":  {},
	"internal/numpy":    {"internal/bounded"},
	"internal/plugin":   {},
	"weights":           {"internal/bounded"},
	"internal/fixture":  {"weights"},
	"dinov2":            {"internal/nn", "weights"},
	"moge":              {"dinov2", "internal/nn", "internal/geom", "internal/imageio", "weights"},
	"sparse":            {"internal/nn", "internal/parallel"},
	"internal/bounded":  {},
	"internal/parallel": {},
	"flexicubes":        {"internal/geom", "internal/parallel"},
	"splat":             {"internal/geom"},
	"export":            {"splat", "flexicubes", "internal/geom"},
	"render":            {"splat", "flexicubes", "internal/geom", "internal/parallel"},
	"examples/render":   {"examples/internal/cli", "export", "render", "splat", "flexicubes"},
	"sam3d/input":       {"internal/imageio", "internal/geom"},
	"sam3d/condition":   {"dinov2", "internal/nn", "weights"},
	"sam3d/flow":        {"sparse", "internal/nn", "weights"},
	"sam3d/decoder":     {"sparse", "flexicubes", "splat", "internal/nn", "weights"},
	"sam3d/pose":        {"internal/geom"},
	"sam3d/segment":     {"internal/nn", "internal/imageio", "weights"},
	"sam3d": {"sam3d/input", "sam3d/condition", "sam3d/flow", "sam3d/decoder", "sam3d/pose", "moge", "dinov2", "sparse",
		"flexicubes", "splat", "weights", "internal/nn", "internal/geom", "internal/imageio", "internal/numpy"},
	"testdata":                         {},
	"examples/internal/cli":            {},
	"examples/internal/objects":        {"examples/internal/cli", "sam3d", "testdata", "weights"},
	"examples/internal/scenes":         {"examples/internal/cli", "examples/internal/objects", "sam3d", "export", "splat"},
	"examples/depth":                   {"examples/internal/cli", "moge", "sam3d", "sam3d/input", "export", "weights", "testdata", "internal/numpy"},
	"examples/generate":                {"examples/internal/cli", "examples/internal/objects", "examples/internal/scenes", "examples/internal/segmenter", "sam3d", "sam3d/segment", "export", "testdata"},
	"examples/segment":                 {"examples/internal/cli", "examples/internal/segmenter", "sam3d", "sam3d/segment", "export"},
	"examples/internal/segmenter":      {"examples/internal/cli", "sam3d", "sam3d/segment", "weights"},
	"examples/internal/segmenter/tiny": {"sam3d/segment", "weights"},
	"examples/randomweights":           {"examples/internal/cli", "sam3d", "sam3d/condition", "sam3d/decoder", "sam3d/flow", "moge", "weights", "internal/nn"},
	"examples/scene":                   {"examples/internal/cli", "examples/internal/objects", "examples/internal/scenes", "sam3d", "testdata"},
	"examples/service": {"examples/internal/cli", "examples/service/internal/api", "examples/service/internal/engine", "examples/service/internal/events",
		"examples/service/internal/finder", "examples/service/internal/metrics", "examples/service/internal/page", "examples/service/internal/store", "examples/service/internal/worker"},
	"examples/service/internal/store":   {},
	"examples/service/internal/events":  {},
	"examples/service/internal/metrics": {},
	"examples/service/internal/page":    {},
	"examples/service/internal/worker":  {"examples/service/internal/store", "examples/service/internal/events", "examples/service/internal/metrics", "sam3d"},
	"examples/service/internal/engine":  {"examples/service/internal/store", "sam3d", "sam3d/input", "export", "splat", "testdata"},
	"examples/service/internal/finder":  {"examples/internal/segmenter", "examples/service/internal/store", "sam3d/segment"},
	"examples/service/internal/api":     {"examples/service/internal/store", "examples/service/internal/events", "examples/service/internal/metrics", "examples/service/internal/worker", "examples/service/internal/engine", "examples/service/internal/finder", "examples/internal/segmenter", "sam3d", "sam3d/segment"},
}

// withoutGoMLX build without a machine-learning library, so that a program that only converts files links none.
var withoutGoMLX = []string{"export", "examples/internal/cli", "examples/render", "flexicubes", "render", "splat", "internal/geom", "internal/imageio", "sam3d/input", "sam3d/pose"}

func root(t *testing.T) string {
	wd, err := os.Getwd()
	require.NoError(t, err)
	return filepath.Dir(filepath.Dir(wd))
}

// TestImports fails on an import that is not in the table above.
func TestImports(t *testing.T) {
	top := root(t)
	require.NoError(t, filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != top {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		dir, err := filepath.Rel(top, filepath.Dir(path))
		if err != nil {
			return err
		}
		may, known := allowed[filepath.ToSlash(dir)]
		if !known {
			t.Errorf("package %s is not in the import table", dir)
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			imported := strings.Trim(spec.Path.Value, `"`)
			if own, ok := strings.CutPrefix(imported, module); ok && !slices.Contains(may, own) {
				t.Errorf("%s imports %s, which %s may not", path, own, dir)
			}
			if strings.HasPrefix(imported, "github.com/gomlx/") && slices.Contains(withoutGoMLX, filepath.ToSlash(dir)) {
				t.Errorf("%s imports %s: %s must build without GoMLX", path, imported, dir)
			}
		}
		return nil
	}))
}

// TestEveryReferenceFolderIsRead fails if a folder of reference cases is named by no test.
func TestEveryReferenceFolderIsRead(t *testing.T) {
	top := root(t)
	var sources []byte
	require.NoError(t, filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") && filepath.Dir(path) != filepath.Join(top, "internal", "arch") {
			data, readErr := os.ReadFile(path)
			sources = append(sources, data...)
			return readErr
		}
		return err
	}))
	components, err := fixture.Components()
	require.NoError(t, err)
	require.NotEmpty(t, components)
	for _, component := range components {
		if !regexp.MustCompile(`"` + regexp.QuoteMeta(component) + `["/]`).Match(sources) {
			t.Errorf("no test reads the reference folder %q", component)
		}
	}
}
