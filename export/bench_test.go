// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package export

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/gomlx3d/image3d/internal/fixture"
)

// sceneSplats is the size of a scene of 27 objects; with -short the benchmarks take one object's.
func sceneSplats() int {
	if testing.Short() {
		return 640_000
	}
	return 13_600_000
}

func BenchmarkWritePLY(b *testing.B) {
	g := wave(sceneSplats())
	b.SetBytes(68 * int64(g.Len()))
	b.ReportAllocs()
	fixture.Benchmark(b, func() error { return WritePLY(io.Discard, g, PLYOptions{}) })
}

func BenchmarkWritePLYFile(b *testing.B) {
	g := wave(sceneSplats())
	path := filepath.Join(b.TempDir(), "scene.ply")
	b.SetBytes(68 * int64(g.Len()))
	b.ReportAllocs()
	for b.Loop() {
		f, err := os.Create(path)
		if err != nil {
			b.Fatal(err)
		}
		if err := WritePLY(f, g, PLYOptions{}); err != nil {
			b.Fatal(err)
		}
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadPLY(b *testing.B) {
	file := plyBytes(b, wave(640_000), PLYOptions{})
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadPLY(bytes.NewReader(file)); err != nil {
			b.Fatal(err)
		}
	}
}

// A real object has half a million vertices.
func BenchmarkWriteMesh(b *testing.B) {
	m := ball(500)
	for name, write := range map[string]func(io.Writer) error{
		"GLB": func(w io.Writer) error { return WriteGLB(w, GLBOptions{}, Part{Mesh: m}) },
		"OBJ": func(w io.Writer) error { return WriteOBJ(w, m) },
		"STL": func(w io.Writer) error { return WriteSTL(w, m) },
	} {
		b.Run(name, func(b *testing.B) {
			var size count
			if err := write(&size); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if err := write(io.Discard); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
