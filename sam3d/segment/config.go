// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

var (
	// ErrConfig is wrapped by every error about a configuration.
	ErrConfig = errors.New("segment: invalid configuration")
	// ErrInput is wrapped by every error about a picture or a prompt.
	ErrInput = errors.New("segment: invalid input")
	// ErrNoHead says that the model was loaded without the part that a call needs.
	ErrNoHead = errors.New("segment: the model has no such head")
	// ErrClosed says that an Encoding was used after Close.
	ErrClosed = errors.New("segment: encoding is closed")
)

// Layout says whose names and axis orders a checkpoint has.
type Layout string

// The known layouts.
const (
	MetaSAM3            Layout = "sam3.pt"                       // of facebookresearch/sam3
	MetaSAM31           Layout = "sam3.1_multiplex.pt"           // the same of SAM 3.1
	TransformersVideo   Layout = "transformers Sam3VideoModel"   // model.safetensors of facebook/sam3, both heads
	TransformersModel   Layout = "transformers Sam3Model"        // the grounding head alone
	TransformersTracker Layout = "transformers Sam3TrackerModel" // the interactive head alone
)

// Config describes a SAM 3 network. The zero value is invalid; start from SAM3 or SAM31. The field tags are the keys of
// the original configurations, as far as these have such keys.
type Config struct {
	Layout      Layout `json:"layout"`
	Grounding   bool   `json:"-"` // whether the head for words, exemplar boxes and exemplar points is loaded
	Interactive bool   `json:"-"` // whether the head for clicks is loaded

	// The image encoder.
	ImageSize    int       `json:"image_size"`          // side of the working picture in pixels (1008)
	PatchSize    int       `json:"patch_size"`          // side of a patch in pixels (14)
	PretrainSize int       `json:"pretrain_image_size"` // side of the picture of the position table, in pixels (336)
	ViTDim       int       `json:"vit_dim"`             // (1024)
	ViTDepth     int       `json:"vit_depth"`           // blocks (32)
	ViTHeads     int       `json:"vit_heads"`           // attention heads, a divisor of ViTDim (16)
	ViTMLP       int       `json:"vit_mlp"`             // hidden width of the perceptrons (4736)
	GlobalBlocks []int     `json:"global_blocks"`       // ascending indices of the blocks that attend everywhere (7, 15, 23, 31)
	WindowSize   int       `json:"window_size"`         // side in patches of the windows of the other blocks (24)
	ViTEpsilon   float64   `json:"vit_eps"`             // of the encoder's layer norms (1e-5)
	ScaleFactors []float64 `json:"scale_factors"`       // of the neck's levels: 4, 2, 1 and, unused, 0.5

	// Both heads.
	ModelDim int `json:"d_model"` // model width D (256)
	Heads    int `json:"heads"`   // attention heads (8)
	HeadMLP  int `json:"d_ff"`    // hidden width of the perceptrons (2048)

	// The grounding head.
	EncoderLayers  int `json:"enc_layers"`     // of the fusion encoder (6)
	DecoderLayers  int `json:"dec_layers"`     // (6)
	GeometryLayers int `json:"geo_layers"`     // of the encoder of exemplars (3)
	Queries        int `json:"num_queries"`    // objects that the decoder looks for (200)
	RoISize        int `json:"roi_size"`       // side of the grid that an exemplar box is pooled to (7)
	TextDim        int `json:"text_dim"`       // width of the text encoder (1024)
	TextHeads      int `json:"text_heads"`     // (16)
	TextLayers     int `json:"text_layers"`    // (24)
	TextProjection int `json:"text_proj_dim"`  // of an unused projection in the checkpoint (512)
	ContextLength  int `json:"context_length"` // tokens of a text (32)
	VocabularySize int `json:"vocab_size"`     // (49408)
	BeginToken     int `json:"bos"`            // (49406)
	EndToken       int `json:"eos"`            // (49407)
	PadToken       int `json:"pad"`            // without influence (0)

	// The interactive head.
	MaskChannels       int     `json:"mask_in_chans"`    // of the encoder of mask prompts (16)
	StabilityDelta     float64 `json:"stability_delta"`  // how far the mask threshold is moved to see what changes (0.05)
	StabilityThreshold float64 `json:"stability_thresh"` // share of the pixels that must not change (0.98)
}

// SAM3 is the released SAM 3 (facebook/sam3), with Meta's names and both heads.
func SAM3() Config {
	return Config{
		Layout: MetaSAM3, Grounding: true, Interactive: true,
		ImageSize: 1008, PatchSize: 14, PretrainSize: 336,
		ViTDim: 1024, ViTDepth: 32, ViTHeads: 16, ViTMLP: 4736, GlobalBlocks: []int{7, 15, 23, 31}, WindowSize: 24,
		ViTEpsilon: 1e-5, ScaleFactors: []float64{4, 2, 1, 0.5},
		ModelDim: 256, Heads: 8, HeadMLP: 2048,
		EncoderLayers: 6, DecoderLayers: 6, GeometryLayers: 3, Queries: 200, RoISize: 7,
		TextDim: 1024, TextHeads: 16, TextLayers: 24, TextProjection: 512,
		ContextLength: 32, VocabularySize: 49408, BeginToken: 49406, EndToken: 49407,
		MaskChannels: 16, StabilityDelta: 0.05, StabilityThreshold: 0.98,
	}
}

// SAM31 is the released SAM 3.1 (facebook/sam3.1). On single pictures it differs from SAM 3 in its weights and in
// their names.
func SAM31() Config {
	cfg := SAM3()
	cfg.Layout, cfg.ScaleFactors = MetaSAM31, []float64{4, 2, 1}
	return cfg
}

// Bounds that no model of the family comes near. They keep a hostile configuration from asking for absurd sizes.
const (
	maxWidth  = 1 << 14
	maxLayers = 1 << 8
	maxGrid   = 1 << 8
	maxVocab  = 1 << 20
)

// grid is the side of the working picture in patches.
func (c Config) grid() int { return c.ImageSize / c.PatchSize }

// table is the side of the position table in patches.
func (c Config) table() int { return c.PretrainSize / c.PatchSize }

// global reports whether a block of the image encoder attends everywhere.
func (c Config) global(block int) bool { return slices.Contains(c.GlobalBlocks, block) }

// bound is an integer field and its range.
type bound struct {
	name          string
	value, lo, hi int
}

// Validate returns an error that wraps ErrConfig if a field is out of range. Fields of heads that are not loaded do not
// count.
func (c Config) Validate() error {
	switch c.Layout {
	case MetaSAM3, MetaSAM31, TransformersVideo, TransformersModel, TransformersTracker:
	default:
		return fmt.Errorf("%w: unknown Layout %q", ErrConfig, c.Layout)
	}
	if !c.Grounding && !c.Interactive {
		return fmt.Errorf("%w: neither Grounding nor Interactive", ErrConfig)
	}
	if c.Grounding && c.Layout == TransformersTracker || c.Interactive && c.Layout == TransformersModel {
		return fmt.Errorf("%w: Layout %q has one head only, and not the one asked for", ErrConfig, c.Layout)
	}
	if err := c.validateVision(); err != nil {
		return err
	}
	if err := within([]bound{
		{"ModelDim", c.ModelDim, 8, maxWidth}, {"Heads", c.Heads, 1, maxWidth}, {"HeadMLP", c.HeadMLP, 1, maxWidth},
	}); err != nil {
		return err
	}
	if c.ModelDim%8 != 0 || c.ModelDim%(2*c.Heads) != 0 {
		return fmt.Errorf("%w: ModelDim %d is no multiple of 8, or of twice Heads %d", ErrConfig, c.ModelDim, c.Heads)
	}
	if c.Grounding {
		if err := c.validateGrounding(); err != nil {
			return err
		}
	}
	if c.Interactive {
		return c.validateInteractive()
	}
	return nil
}

func within(bounds []bound) error {
	for _, b := range bounds {
		if b.value < b.lo || b.value > b.hi {
			return fmt.Errorf("%w: %s is %d, not in %d to %d", ErrConfig, b.name, b.value, b.lo, b.hi)
		}
	}
	return nil
}

func (c Config) validateVision() error {
	if err := within([]bound{
		{"PatchSize", c.PatchSize, 1, maxGrid}, {"ViTDim", c.ViTDim, 4, maxWidth}, {"ViTDepth", c.ViTDepth, 1, maxLayers},
		{"ViTHeads", c.ViTHeads, 1, maxWidth}, {"ViTMLP", c.ViTMLP, 1, maxWidth}, {"WindowSize", c.WindowSize, 1, maxGrid},
	}); err != nil {
		return err
	}
	if err := within([]bound{
		{"ImageSize", c.ImageSize, c.PatchSize, maxGrid * c.PatchSize},
		{"PretrainSize", c.PretrainSize, c.PatchSize, maxGrid * c.PatchSize},
	}); err != nil {
		return err
	}
	if c.ImageSize%c.PatchSize != 0 || c.PretrainSize%c.PatchSize != 0 {
		return fmt.Errorf("%w: ImageSize %d or PretrainSize %d is no multiple of PatchSize %d",
			ErrConfig, c.ImageSize, c.PretrainSize, c.PatchSize)
	}
	if c.ViTDim%(4*c.ViTHeads) != 0 { // four values of a head make a pair of rotations
		return fmt.Errorf("%w: ViTDim %d is no multiple of four times ViTHeads %d", ErrConfig, c.ViTDim, c.ViTHeads)
	}
	if !(c.ViTEpsilon > 0) || math.IsInf(c.ViTEpsilon, 0) {
		return fmt.Errorf("%w: ViTEpsilon is %g", ErrConfig, c.ViTEpsilon)
	}
	for i, block := range c.GlobalBlocks {
		if block < 0 || block >= c.ViTDepth || i > 0 && block <= c.GlobalBlocks[i-1] {
			return fmt.Errorf("%w: GlobalBlocks %v of %d blocks, not ascending or out of range", ErrConfig, c.GlobalBlocks, c.ViTDepth)
		}
	}
	if !slices.Equal(c.ScaleFactors, []float64{4, 2, 1}) && !slices.Equal(c.ScaleFactors, []float64{4, 2, 1, 0.5}) {
		return fmt.Errorf("%w: ScaleFactors are %v, not 4, 2, 1 and perhaps 0.5", ErrConfig, c.ScaleFactors)
	}
	return nil
}

func (c Config) validateInteractive() error {
	if err := within([]bound{{"MaskChannels", c.MaskChannels, 4, maxWidth}}); err != nil {
		return err
	}
	if c.MaskChannels%4 != 0 {
		return fmt.Errorf("%w: MaskChannels %d is no multiple of 4", ErrConfig, c.MaskChannels)
	}
	if !(c.StabilityDelta >= 0) || math.IsInf(c.StabilityDelta, 0) {
		return fmt.Errorf("%w: StabilityDelta is %g", ErrConfig, c.StabilityDelta)
	}
	if math.IsNaN(c.StabilityThreshold) {
		return fmt.Errorf("%w: StabilityThreshold is NaN", ErrConfig)
	}
	return nil
}
