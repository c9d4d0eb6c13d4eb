// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package dinov2

import (
	"errors"
	"fmt"
	"math"
)

var (
	// ErrConfig is wrapped by every error about a configuration.
	ErrConfig = errors.New("dinov2: invalid configuration")
	// ErrInput is wrapped by every error about an image or a choice of layers.
	ErrInput = errors.New("dinov2: invalid input")
)

// Config describes a vision transformer of the DINOv2 family. The zero value is invalid; start from a preset.
type Config struct {
	EmbedDim  int     // model width D (ViT-L: 1024)
	Depth     int     // number of blocks (24)
	NumHeads  int     // attention heads, a divisor of EmbedDim (16)
	MLPRatio  float64 // hidden width of the perceptron over EmbedDim (4)
	PatchSize int     // side of a patch in pixels (14)
	Grid      int     // side of the position table in patches (518/14 = 37)
	Registers int     // register tokens between the class token and the patches (4, or 0 in the plain models)

	// How the position table is resampled for a grid of another size, with cubic interpolation. The models with
	// registers antialias and have no offset; the plain ones do not antialias and add 0.1 to the grid's size before
	// they divide, so that the step between samples is Grid/(size+0.1).
	InterpolateAntialias bool
	InterpolateOffset    float64

	NormEpsilon float64 // of every layer norm (1e-6)
}

// ViTL14Reg is dinov2_vitl14_reg, the image encoder of SAM 3D Objects.
func ViTL14Reg() Config { return withRegisters(ViTL14()) }

// ViTL14 is dinov2_vitl14, the backbone of MoGe.
func ViTL14() Config { return plain(1024, 24, 16) }

// Named returns the preset that the DINOv2 hub calls name: dinov2_vits14, dinov2_vitb14 or dinov2_vitl14, each also
// with _reg at its end. It fails with ErrConfig for any other.
func Named(name string) (Config, error) {
	switch name {
	case "dinov2_vits14":
		return plain(384, 12, 6), nil
	case "dinov2_vits14_reg":
		return withRegisters(plain(384, 12, 6)), nil
	case "dinov2_vitb14":
		return plain(768, 12, 12), nil
	case "dinov2_vitb14_reg":
		return withRegisters(plain(768, 12, 12)), nil
	case "dinov2_vitl14":
		return ViTL14(), nil
	case "dinov2_vitl14_reg":
		return ViTL14Reg(), nil
	}
	return Config{}, fmt.Errorf("%w: unknown model %q", ErrConfig, name)
}

func plain(width, depth, heads int) Config {
	return Config{
		EmbedDim: width, Depth: depth, NumHeads: heads, MLPRatio: 4, PatchSize: 14, Grid: 37,
		InterpolateOffset: 0.1, NormEpsilon: 1e-6,
	}
}

func withRegisters(c Config) Config {
	c.Registers, c.InterpolateAntialias, c.InterpolateOffset = 4, true, 0
	return c
}

// Bounds that no model of the family comes near. They keep a hostile configuration from asking for absurd sizes.
const (
	maxWidth = 1 << 14
	maxDepth = 1 << 10
	maxGrid  = 1 << 10
)

// Validate returns an error that wraps ErrConfig if a field is out of range.
func (c Config) Validate() error {
	for _, f := range []struct {
		name          string
		value, lo, hi int
	}{
		{"EmbedDim", c.EmbedDim, 1, maxWidth},
		{"Depth", c.Depth, 1, maxDepth},
		{"NumHeads", c.NumHeads, 1, maxWidth},
		{"PatchSize", c.PatchSize, 1, maxGrid},
		{"Grid", c.Grid, 1, maxGrid},
		{"Registers", c.Registers, 0, maxGrid},
	} {
		if f.value < f.lo || f.value > f.hi {
			return fmt.Errorf("%w: %s is %d, not in %d to %d", ErrConfig, f.name, f.value, f.lo, f.hi)
		}
	}
	if c.EmbedDim%c.NumHeads != 0 {
		return fmt.Errorf("%w: EmbedDim %d is no multiple of NumHeads %d", ErrConfig, c.EmbedDim, c.NumHeads)
	}
	if hidden := float64(c.EmbedDim) * c.MLPRatio; !(hidden >= 1 && hidden <= 16*maxWidth) {
		return fmt.Errorf("%w: MLPRatio is %g", ErrConfig, c.MLPRatio)
	}
	if !(c.InterpolateOffset >= 0 && c.InterpolateOffset < 1) {
		return fmt.Errorf("%w: InterpolateOffset is %g, not in [0, 1)", ErrConfig, c.InterpolateOffset)
	}
	if !(c.NormEpsilon > 0) || math.IsInf(c.NormEpsilon, 0) {
		return fmt.Errorf("%w: NormEpsilon is %g", ErrConfig, c.NormEpsilon)
	}
	return nil
}

// hidden is the width of the perceptrons' hidden layer.
func (c Config) hidden() int { return int(float64(c.EmbedDim) * c.MLPRatio) }

// Special is the number of tokens before the patches: the class token and the registers.
func (c Config) Special() int { return 1 + c.Registers }
