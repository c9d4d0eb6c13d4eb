// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"github.com/gomlx/compute"

	"github.com/gomlx3d/image3d/internal/nn"
)

// grounding is the head for words and exemplars.
type grounding struct{}

func newGrounding(backend compute.Backend, cfg Config, w nn.Weights) *grounding { return &grounding{} }

func (h *grounding) close() {}

// validateGrounding checks the fields of the head.
func (c Config) validateGrounding() error { return nil }
