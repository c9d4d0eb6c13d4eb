// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTF32 has CUDA alone multiply in float32 unless it is told otherwise.
func TestTF32(t *testing.T) {
	for config, want := range map[string]string{
		"xla:cuda":                           "xla:cuda,tf32=false",
		"xla:cuda,preallocate=false":         "xla:cuda,preallocate=false,tf32=false",
		"xla:/lib/pjrt_c_api_cuda_plugin.so": "xla:/lib/pjrt_c_api_cuda_plugin.so,tf32=false",
		"xla:cuda,tf32":                      "xla:cuda,tf32",
		"xla:cuda,tf32=true":                 "xla:cuda,tf32=true",
		"xla:cuda,notf32":                    "xla:cuda,notf32",
		"xla:rocm":                           "xla:rocm",
		"xla:cpu":                            "xla:cpu",
		"go":                                 "go",
	} {
		require.Equal(t, want, withoutTF32(config))
	}
}
