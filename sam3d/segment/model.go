// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package segment finds objects in pictures: by words, by exemplars or by clicks (Carion et al., "SAM 3: Segment
// Anything with Concepts", 2025). It is the image path of SAM 3 and SAM 3.1; what follows objects through a video is
// left out.
//
// A Model encodes a picture once. The Encoding then answers any number of prompts: Click, for one object under points,
// in a box or near a mask, and Segment, for all objects that a text or exemplars describe.
//
// Dimension letters: B batch, D model width, g side of the grid of patches, S = g PatchSize side of the working picture,
// P prompt tokens, H heads, K head width. Feature maps are channels last.
package segment

import (
	"fmt"

	"github.com/gomlx/compute"

	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/weights"
)

// Model holds a network's weights on a device, in their own precision. Arithmetic is float32. It is safe for concurrent
// use until closed.
type Model struct {
	cfg         Config
	weights     nn.Weights // all, by the names of Spec
	vision      *vision
	enlarge     *nn.Program  // of masks, to a picture's size
	grounding   *grounding   // nil if not loaded
	interactive *interactive // nil if not loaded
	lexicon     lexicon
}

// New checks the weights against the configuration and uploads them. The set may be closed afterwards. Errors wrap
// ErrConfig, or are those of package weights.
func New(backend compute.Backend, cfg Config, set *weights.Set) (*Model, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	canonical, err := canonicalSet(cfg, set)
	if err != nil {
		return nil, fmt.Errorf("segment: %w", err)
	}
	uploaded, err := canonical.Upload(backend)
	if err != nil {
		return nil, fmt.Errorf("segment: %w", err)
	}
	m := &Model{cfg: cfg, weights: uploaded}
	m.enlarge = newEnlarge(backend)
	m.vision = newVision(backend, cfg, m.weights)
	if cfg.Grounding {
		m.grounding = newGrounding(backend, cfg, m.weights)
	}
	if cfg.Interactive {
		m.interactive = newInteractive(backend, cfg, m.weights)
	}
	return m, nil
}

// Config returns the hyperparameters.
func (m *Model) Config() Config { return m.cfg }

// Close frees the weights and the compiled programs. It must not be called during another call, and no Encoding is of
// use afterwards.
func (m *Model) Close() {
	m.vision.close()
	m.enlarge.Close()
	if m.grounding != nil {
		m.grounding.close()
	}
	if m.interactive != nil {
		m.interactive.close()
	}
	m.weights.Free()
}
