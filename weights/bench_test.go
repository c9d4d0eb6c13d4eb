// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights_test

import (
	"path/filepath"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/weights"
)

// BenchmarkOpen opens an archive with 257 tensors.
func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(fixture.Dir(), "checkpoint_official_tiny", "ss_generator.ckpt")
	b.ReportAllocs()
	for b.Loop() {
		set, err := weights.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		_ = set.Close()
	}
}

// BenchmarkUpload copies 8 tensors of 16 MB to the backend.
func BenchmarkUpload(b *testing.B) {
	backend := fixture.Backend(b)
	tensors := make(map[string]weights.Tensor)
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		tensors[name] = weights.Tensor{DType: dtypes.BFloat16, Shape: []int{2048, 4096}, Data: make([]byte, 2*2048*4096)}
	}
	set := weights.NewSet(tensors)
	b.SetBytes(8 << 24)
	for b.Loop() {
		device, err := set.Upload(backend)
		if err != nil {
			b.Fatal(err)
		}
		for _, d := range device {
			_ = d.FinalizeAll()
		}
	}
}
