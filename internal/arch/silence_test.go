// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// starts are the files that give programs their standard output.
var starts = []string{"examples/internal/cli/cli.go", "examples/service/main.go"}

// TestNobodyPrints fails if any other file names the standard output: what a program prints may be read by another one.
func TestNobodyPrints(t *testing.T) {
	top := root(t)
	require.NoError(t, filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != top && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		if name, err := filepath.Rel(top, path); err != nil || slices.Contains(starts, filepath.ToSlash(name)) {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				from, _ := n.X.(*ast.Ident)
				if from != nil && (from.Name == "os" && n.Sel.Name == "Stdout" || from.Name == "fmt" && strings.HasPrefix(n.Sel.Name, "Print")) {
					t.Errorf("%s: %s.%s", set.Position(n.Pos()), from.Name, n.Sel.Name)
				}
			case *ast.CallExpr:
				if name, ok := n.Fun.(*ast.Ident); ok && (name.Name == "print" || name.Name == "println") && name.Obj == nil {
					t.Errorf("%s: %s", set.Position(n.Pos()), name.Name)
				}
			}
			return true
		})
		return nil
	}))
}
