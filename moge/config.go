// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"errors"
	"fmt"
	"math"

	"github.com/gomlx3d/image3d/dinov2"
)

var (
	// ErrConfig is wrapped by every error about a configuration.
	ErrConfig = errors.New("moge: invalid configuration")
	// ErrInput is wrapped by every error about a picture, a point map or an option.
	ErrInput = errors.New("moge: invalid input")
)

// Remap is how the network's three raw values become a point.
type Remap string

// The remaps of the original. The network's values are (a, b, c).
const (
	RemapLinear  Remap = "linear"   // (a, b, c)
	RemapSinh    Remap = "sinh"     // (sinh a, sinh b, sinh c)
	RemapExp     Remap = "exp"      // (a e^c, b e^c, e^c)
	RemapSinhExp Remap = "sinh_exp" // (sinh a, sinh b, e^c)
)

// Config describes a network of any version. The zero value is invalid; start from V1, V2, V3 or ConfigFromMap.
type Config struct {
	Version int // 1, 2 or 3

	Backbone dinov2.Config // image encoder, without registers (ViT-L/14)
	Layers   []int         // ascending indices of the encoder's blocks that are looked at (20 to 23; 5, 11, 17, 23)

	Remap         Remap   // (exp)
	MaskThreshold float32 // a pixel is valid whose mask value exceeds it (0.5)
	MinTokens     int     // patches at resolution level 0 (1275; 1200)
	MaxTokens     int     // patches at resolution level 9 (2551; 3600)

	Trunk   TrunkConfig    // the head of MoGe-1
	Pyramid PyramidConfig  // neck and heads of MoGe-2 and MoGe-3
	Refiner *RefinerConfig // of MoGe-3; nil if there is none
}

const (
	normGroup    = 32      // channels of a group in the inner norm of a residual block
	normEpsilon  = 1e-5    // of the group norms
	maxChannels  = 1 << 13 // no released width comes near these
	maxBlocks    = 1 << 6
	maxNumTokens = 1 << 14 // some 3.2 million working pixels
)

// bound is a field of a configuration with the range that it must be in.
type bound struct {
	name          string
	value, lo, hi int
}

func checkBounds(bounds ...bound) error {
	for _, f := range bounds {
		if f.value < f.lo || f.value > f.hi {
			return fmt.Errorf("%w: %s is %d, not in %d to %d", ErrConfig, f.name, f.value, f.lo, f.hi)
		}
	}
	return nil
}

// Validate returns an error that wraps ErrConfig if a field is out of range.
func (c Config) Validate() error {
	if err := c.Backbone.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if c.Backbone.Registers != 0 || c.Backbone.PatchSize != patch {
		return fmt.Errorf("%w: a backbone of %d registers and patches of %d", ErrConfig, c.Backbone.Registers, c.Backbone.PatchSize)
	}
	if err := checkBounds(
		bound{"MinTokens", c.MinTokens, 1, maxNumTokens}, bound{"MaxTokens", c.MaxTokens, c.MinTokens, maxNumTokens},
	); err != nil {
		return err
	}
	if math.IsNaN(float64(c.MaskThreshold)) {
		return fmt.Errorf("%w: MaskThreshold is NaN", ErrConfig)
	}
	if err := c.validateLayers(); err != nil {
		return err
	}
	switch c.Remap {
	case RemapLinear, RemapSinh, RemapExp, RemapSinhExp:
	default:
		return fmt.Errorf("%w: unknown Remap %q", ErrConfig, c.Remap)
	}
	return c.validateVersion()
}

// validateVersion checks what the versions have of their own.
func (c Config) validateVersion() error {
	switch c.Version {
	case 1:
		return c.Trunk.validate()
	case 2:
		return c.Pyramid.validate(c.Backbone.EmbedDim)
	case 3:
		return errors.Join(c.Pyramid.validate(c.Backbone.EmbedDim), c.validateRefiner())
	}
	return fmt.Errorf("%w: version %d; there are 1, 2 and 3", ErrConfig, c.Version)
}

func (c Config) validateLayers() error {
	if len(c.Layers) == 0 {
		return fmt.Errorf("%w: no Layers", ErrConfig)
	}
	for i, layer := range c.Layers {
		if layer < 0 || layer >= c.Backbone.Depth || i > 0 && layer <= c.Layers[i-1] {
			return fmt.Errorf("%w: Layers %v of %d blocks, not ascending or out of range", ErrConfig, c.Layers, c.Backbone.Depth)
		}
	}
	return nil
}
