// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"fmt"

	"github.com/gomlx3d/image3d/weights"
)

// Resampler is how a stack doubles the size of a map.
type Resampler string

// The resamplers that can be run. Each ends with a 3x3 convolution.
const (
	ConvTranspose Resampler = "conv_transpose" // transposed convolution, kernel and stride 2
	Bilinear      Resampler = "bilinear"
	Nearest       Resampler = "nearest"
)

// Norm is a group norm within the residual blocks of a stack.
type Norm string

// The norms that can be run.
const (
	NormNone  Norm = "none"
	NormLayer Norm = "layer_norm" // one group of all channels
	NormGroup Norm = "group_norm" // groups of 32 channels, or one
)

// StackConfig is a stack of convolutions of MoGe-2 and MoGe-3, which climbs from the grid of patches to maps of twice
// the size a level: the neck, or a head. The lists have one entry a level, the coarsest first.
type StackConfig struct {
	In          []int       // channels of what comes in, which a 1x1 convolution brings to Channels; 0: it has those already
	Channels    []int       // width of a level (1024, 256, 128, 64, 32)
	Out         []int       // channels of the 1x1 convolution at the output; 0: there is none
	Blocks      []int       // residual blocks of a level (0, 2, 2, 2, 0 and 0, 1, 1, 1, 0)
	HiddenRatio int         // hidden channels of a residual block over its channels (1)
	Resamplers  []Resampler // between the levels, one less than there are
	InNorm      Norm        // before a block's first activation (none)
	HiddenNorm  Norm        // before its second (none)
}

const maxLevels = 7 // doublings of a grid of patches that is itself bounded

func (c *StackConfig) levels() int { return len(c.Channels) }

// hidden is the width within the residual blocks of a level.
func (c *StackConfig) hidden(level int) int { return c.HiddenRatio * c.Channels[level] }

// given is the channels of a level's output.
func (c *StackConfig) given(level int) int {
	if c.Out[level] > 0 {
		return c.Out[level]
	}
	return c.Channels[level]
}

// validate checks a stack whose levels get maps of the given channels.
func (c *StackConfig) validate(name string, inputs []int) error {
	levels := c.levels()
	if levels < 2 || levels > maxLevels || len(c.In) != levels || len(c.Out) != levels || len(c.Blocks) != levels ||
		len(c.Resamplers) != levels-1 || len(inputs) != levels {
		return fmt.Errorf("%w: the lists of %s have %d, %d, %d, %d and %d entries for the %d levels of the neck", ErrConfig, name,
			len(c.Channels), len(c.In), len(c.Out), len(c.Blocks), len(c.Resamplers), len(inputs))
	}
	for level := range levels {
		field := func(of string) string { return fmt.Sprintf("%s of level %d of %s", of, level, name) }
		if err := checkBounds(
			bound{field("Channels"), c.Channels[level], 1, maxChannels},
			bound{field("Out"), c.Out[level], 0, maxChannels},
			bound{field("Blocks"), c.Blocks[level], 0, maxBlocks},
			bound{field("HiddenRatio"), c.HiddenRatio, 1, normGroup},
		); err != nil {
			return err
		}
		want := c.In[level]
		if want == 0 {
			want = c.Channels[level]
		}
		if want != inputs[level] {
			return fmt.Errorf("%w: level %d of %s takes %d channels and gets %d", ErrConfig, level, name, want, inputs[level])
		}
		if c.Blocks[level] > 0 && (!c.InNorm.divides(c.Channels[level]) || !c.HiddenNorm.divides(c.hidden(level))) {
			return fmt.Errorf("%w: norms %q and %q of %d and %d channels in %s", ErrConfig, c.InNorm, c.HiddenNorm,
				c.Channels[level], c.hidden(level), name)
		}
	}
	for _, r := range c.Resamplers {
		if r != ConvTranspose && r != Bilinear && r != Nearest {
			return fmt.Errorf("%w: unknown resampler %.32q in %s", ErrConfig, r, name)
		}
	}
	return nil
}

// groups is the number of groups of a norm, or 0 if there is none.
func (n Norm) groups(channels int) int {
	switch n {
	case NormLayer:
		return 1
	case NormGroup:
		return max(1, channels/normGroup)
	}
	return 0
}

// divides reports whether the norm is known and can be applied to so many channels.
func (n Norm) divides(channels int) bool {
	return n == NormNone || (n == NormLayer || n == NormGroup) && channels%n.groups(channels) == 0
}

// spec lists the tensors of the stack.
func (c *StackConfig) spec() weights.Spec {
	spec := make(weights.Spec)
	for level, channels := range c.Channels {
		if c.In[level] > 0 {
			conv(spec, fmt.Sprintf("input_blocks.%d", level), channels, c.In[level], 1)
		}
		for block := range c.Blocks[level] {
			prefix := fmt.Sprintf("res_blocks.%d.%d.layers.", level, block)
			conv(spec, prefix+"2", c.hidden(level), channels, 3)
			conv(spec, prefix+"5", channels, c.hidden(level), 3)
			if c.InNorm != NormNone {
				vectors(spec, prefix+"0", channels)
			}
			if c.HiddenNorm != NormNone {
				vectors(spec, prefix+"3", c.hidden(level))
			}
		}
		if c.Out[level] > 0 {
			conv(spec, fmt.Sprintf("output_blocks.%d", level), c.Out[level], channels, 1)
		}
	}
	for i, r := range c.Resamplers {
		name, from, to := fmt.Sprintf("resamplers.%d.", i), c.Channels[i], c.Channels[i+1]
		if r == ConvTranspose {
			spec[name+"0.weight"] = weights.Param{Shape: []int{from, to, 2, 2}} // transposed: [in, out]
			spec[name+"0.bias"] = weights.Param{Shape: []int{to}}
			from = to
		}
		conv(spec, name+"1", to, from, 3)
	}
	return spec
}
