// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/internal/nn"
)

const (
	pointLabels  = 4 // negative, positive, upper left and lower right corner
	maskTokens   = 4 // one for a single mask, three for the whole, a part and a part of that
	twoWayLayers = 2
)

// clickFeatures are what the interactive head needs of a picture.
type clickFeatures struct {
	fine, middle *tensors.Tensor // [B, 4g, 4g, D/8], [B, 2g, 2g, D/4]
	coarse       *tensors.Tensor // [B, g, g, D]
}

func (f clickFeatures) free() { nn.Free(f.fine, f.middle, f.coarse) }

// interactive is the head for clicks.
type interactive struct{}

func newInteractive(backend compute.Backend, cfg Config, w nn.Weights) *interactive {
	return &interactive{}
}

func (h *interactive) close() {}

func (h *interactive) features(levels []*tensors.Tensor) (clickFeatures, error) {
	return clickFeatures{}, nil
}
