// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"testing"

	"github.com/gomlx3d/image3d/internal/fixture"
)

func groundingCase(t *testing.T, c *fixture.Case) map[string]any   { return nil }
func preprocessCase(t *testing.T, c *fixture.Case) map[string]any  { return nil }
func postprocessCase(t *testing.T, c *fixture.Case) map[string]any { return nil }
func tokenizeCase(t *testing.T, c *fixture.Case) map[string]any    { return nil }
