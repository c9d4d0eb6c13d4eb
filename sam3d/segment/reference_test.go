// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"strings"
	"testing"

	"github.com/gomlx3d/image3d/internal/fixture"
)

// TestReference computes every output of every case and compares.
func TestReference(t *testing.T) {
	requireCases(t)
	fixture.Run(t, "sam3", func(t *testing.T, c *fixture.Case) {
		kind, _, _ := strings.Cut(c.Name, "_")
		var got map[string]any
		switch kind {
		case "point", "interactive":
			got = clickCase(t, c)
		case "text", "box", "grounding":
			got = groundingCase(t, c)
		case "preprocess":
			got = preprocessCase(t, c)
		case "postprocess":
			got = postprocessCase(t, c)
		case "tokenize":
			got = tokenizeCase(t, c)
		default:
			t.Fatalf("unknown kind of case %q", kind)
		}
		for _, name := range c.Outputs() {
			value, ok := got[name]
			if !ok {
				t.Errorf("nothing computes %s", name)
				continue
			}
			c.Check(t, name, value)
		}
	})
}
