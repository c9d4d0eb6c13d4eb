// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestBytes(t *testing.T) {
	for text, want := range map[string]Bytes{
		"0": 0, "123": 123, "8GB": 8e9, "7.5 GiB": 15 << 29, "500mb": 5e8, "1b": 1, "2TiB": 2 << 40, "3KiB": 3072, "4kB": 4000,
	} {
		var got Bytes
		assert.NoError(t, got.Set(text), text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "GB", "-1", "1XB", "NaN", "Inf", "1e30GB", "8 G B"} {
		var got Bytes
		assert.Error(t, got.Set(text), text)
	}
}
