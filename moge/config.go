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

// Config describes a MoGe-1 network. The zero value is invalid; start from ViTL or ConfigFromMap.
type Config struct {
	Backbone dinov2.Config // image encoder, without registers (ViT-L/14)
	Layers   []int         // ascending indices of the encoder's blocks that the head sees (20, 21, 22, 23)

	ProjectDim   int    // channels of the projected features (512)
	UpsampleDims [3]int // channels after each doubling of the size (256, 128, 64)
	HiddenRatio  int    // hidden channels of a residual block over its channels (2)
	ResBlocks    int    // residual blocks after each doubling (2)

	LastResBlocks int // residual blocks of each output branch (0)
	LastChannels  int // channels of an output branch before its last convolution (32)
	LastKernel    int // side of the last convolution's kernel, odd (1)

	Remap         Remap   // (exp)
	MaskThreshold float32 // a pixel is valid whose raw mask value exceeds it (0.5)
	MinTokens     int     // patches at resolution level 0 (1275)
	MaxTokens     int     // patches at resolution level 9 (2551)
}

// ViTL is the released model, moge-vitl.
func ViTL() Config {
	return Config{
		Backbone: dinov2.ViTL14(), Layers: []int{20, 21, 22, 23},
		ProjectDim: 512, UpsampleDims: [3]int{256, 128, 64}, HiddenRatio: 2, ResBlocks: 2,
		LastChannels: 32, LastKernel: 1,
		Remap: RemapExp, MaskThreshold: 0.5, MinTokens: 1275, MaxTokens: 2551,
	}
}

const (
	normGroup    = 32      // channels of a group in the second norm of a residual block
	normEpsilon  = 1e-5    // of the group norms
	maxChannels  = 1 << 13 // no released width comes near these
	maxBlocks    = 1 << 6
	maxNumTokens = 1 << 14 // some 3.2 million working pixels
)

// Validate returns an error that wraps ErrConfig if a field is out of range.
func (c Config) Validate() error {
	if err := c.Backbone.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if c.Backbone.Registers != 0 || c.Backbone.PatchSize != patch {
		return fmt.Errorf("%w: a backbone of %d registers and patches of %d", ErrConfig, c.Backbone.Registers, c.Backbone.PatchSize)
	}
	if err := c.validateLayers(); err != nil {
		return err
	}
	for _, f := range []struct {
		name          string
		value, lo, hi int
	}{
		{"ProjectDim", c.ProjectDim, 1, maxChannels},
		{"UpsampleDims[0]", c.UpsampleDims[0], 1, maxChannels},
		{"UpsampleDims[1]", c.UpsampleDims[1], 1, maxChannels},
		{"UpsampleDims[2]", c.UpsampleDims[2], 1, maxChannels},
		{"HiddenRatio", c.HiddenRatio, 1, normGroup},
		{"ResBlocks", c.ResBlocks, 0, maxBlocks},
		{"LastResBlocks", c.LastResBlocks, 0, maxBlocks},
		{"LastChannels", c.LastChannels, 1, maxChannels},
		{"LastKernel", c.LastKernel, 1, 15},
		{"MinTokens", c.MinTokens, 1, maxNumTokens},
		{"MaxTokens", c.MaxTokens, c.MinTokens, maxNumTokens},
	} {
		if f.value < f.lo || f.value > f.hi {
			return fmt.Errorf("%w: %s is %d, not in %d to %d", ErrConfig, f.name, f.value, f.lo, f.hi)
		}
	}
	if c.LastKernel%2 == 0 {
		return fmt.Errorf("%w: LastKernel %d is even", ErrConfig, c.LastKernel)
	}
	if math.IsNaN(float64(c.MaskThreshold)) {
		return fmt.Errorf("%w: MaskThreshold is NaN", ErrConfig)
	}
	return c.validateHead()
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

// validateHead checks that hidden channels divide into groups, and the remap.
func (c Config) validateHead() error {
	widths := map[int]int{} // number of residual blocks by channels
	for _, width := range c.UpsampleDims {
		widths[width] += c.ResBlocks
	}
	widths[c.LastChannels] += c.LastResBlocks
	for width, blocks := range widths {
		if hidden := width * c.HiddenRatio; blocks > 0 && (hidden < normGroup || hidden%(hidden/normGroup) != 0) {
			return fmt.Errorf("%w: %d hidden channels do not divide into groups of about %d", ErrConfig, hidden, normGroup)
		}
	}
	switch c.Remap {
	case RemapLinear, RemapSinh, RemapExp, RemapSinhExp:
		return nil
	}
	return fmt.Errorf("%w: unknown Remap %q", ErrConfig, c.Remap)
}
