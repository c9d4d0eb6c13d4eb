// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package condition

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gomlx3d/image3d/dinov2"
)

var (
	// ErrConfig is wrapped by every error about a configuration.
	ErrConfig = errors.New("condition: invalid configuration")
	// ErrInput is wrapped by every error about the views to encode.
	ErrInput = errors.New("condition: invalid input")
)

// Modality names one of the six inputs, as the checkpoints' configuration files do.
type Modality string

// The modalities. The first of each pair is cut out around the object, the second shows the whole picture.
const (
	Image       Modality = "image"
	RGBImage    Modality = "rgb_image"
	Mask        Modality = "mask"
	RGBMask     Modality = "rgb_image_mask"
	PointMap    Modality = "pointmap"
	RGBPointMap Modality = "rgb_pointmap"
)

// points reports whether m is a map of points, false for a picture or a mask.
func (m Modality) points() bool { return m == PointMap || m == RGBPointMap }

var modalities = []Modality{Image, RGBImage, Mask, RGBMask, PointMap, RGBPointMap}

// Config describes how the condition tokens of one stage are made ("EmbedderFuser" of the original). The zero value is
// invalid; start from ReleasedStructure or ReleasedLatent.
type Config struct {
	// Embedders are the networks, in the order of embedder_list. The tokens of all their inputs are joined in this
	// order.
	Embedders []Embedder
	// ProjectionMultiplier sizes the projection of every embedder's tokens to the common width
	// (projection_net_hidden_dim_multiplier, 4). With 0 there is none, and all embedders must have one width.
	ProjectionMultiplier float64
	// NoProjectionNorm leaves out the layer norm before the projections (projection_pre_norm false).
	NoProjectionNorm bool
	// CompressionMultiplier, if positive, joins the tokens along the channels and projects them once more
	// (compression_projection_multiplier, 0).
	CompressionMultiplier float64
	// RandomPositions says that the group embeddings are a buffer [groups+1, 1, D] (use_pos_embedding "random"), not a
	// parameter [groups+1, D] ("learned", as released).
	RandomPositions bool
	// Drop lists modalities whose tokens are replaced by zeros (force_drop_modalities, none).
	Drop []Modality
}

// Embedder is one network with its inputs. Exactly one of Image and Points is set.
type Embedder struct {
	Image  *ImageEmbedder
	Points *PointEmbedder
	Inputs []Input
}

// Input is one input of an embedder.
type Input struct {
	Name Modality
	// Group names the embedding that is added to all tokens of the input ("cropped" or "full"). Groups are numbered as
	// they first appear in the configuration. Nothing is added if it is empty (null in the configuration file).
	Group string
}

// ImageEmbedder is a DINOv2 network for pictures and masks ("Dino" of the original, normalize_images true).
type ImageEmbedder struct {
	Backbone  dinov2.Config // dino_model (dinov2_vitl14_reg)
	InputSize int           // side of the network's input in pixels; other sizes are resized to it (518)
	// Prenorm keeps the registers and replaces the network's final norm by one without parameters (prenorm_features;
	// false in stage 1, true in stage 2).
	Prenorm bool
}

// PointEmbedder makes one token of each square window of a point map ("PointPatchEmbed" of the original).
type PointEmbedder struct {
	Width     int   // width of the tokens, a multiple of NumHeads (embed_dim, 512)
	InputSize int   // side that maps are resized to (256)
	PatchSize int   // side of a window in points, a divisor of InputSize (8)
	NumHeads  int   // 16 in all models
	Remap     Remap // linear
}

// ReleasedStructure is the configuration of stage 1: 7,528 tokens of width 1,024.
func ReleasedStructure() Config {
	points := PointEmbedder{Width: 512, InputSize: 256, PatchSize: 8, NumHeads: 16, Remap: RemapLinear}
	return Config{
		Embedders: append(releasedImages(false),
			Embedder{Points: &points, Inputs: []Input{{PointMap, "cropped"}, {RGBPointMap, "full"}}}),
		ProjectionMultiplier: 4,
	}
}

// ReleasedLatent is the configuration of stage 2: 5,496 tokens of width 1,024.
func ReleasedLatent() Config { return Config{Embedders: releasedImages(true), ProjectionMultiplier: 4} }

func releasedImages(prenorm bool) []Embedder {
	embedder := func(crop, full Modality) Embedder {
		return Embedder{
			Image:  &ImageEmbedder{Backbone: dinov2.ViTL14Reg(), InputSize: 518, Prenorm: prenorm},
			Inputs: []Input{{crop, "cropped"}, {full, "full"}},
		}
	}
	return []Embedder{embedder(Image, RGBImage), embedder(Mask, RGBMask)}
}

// Bounds that keep a hostile configuration from asking for absurd sizes.
const (
	maxSide      = 1 << 14
	maxWidth     = 1 << 14
	maxGridSide  = 1 << 9 // patches or windows along one side of an input
	maxEmbedders = 16
	maxMultiple  = 64
)

// Validate returns an error that wraps ErrConfig if a field is out of range.
func (c Config) Validate() error {
	if len(c.Embedders) < 1 || len(c.Embedders) > maxEmbedders {
		return fmt.Errorf("%w: %d embedders, not 1 to %d", ErrConfig, len(c.Embedders), maxEmbedders)
	}
	for i, e := range c.Embedders {
		if err := e.validate(); err != nil {
			return fmt.Errorf("%w: embedder %d: %w", ErrConfig, i, err)
		}
	}
	for name, m := range map[string]float64{"projection": c.ProjectionMultiplier, "compression": c.CompressionMultiplier} {
		if !(m >= 0 && m <= maxMultiple) || m > 0 && c.hidden(m) == 0 {
			return fmt.Errorf("%w: %s multiplier is %g, out of range", ErrConfig, name, m)
		}
	}
	for _, m := range c.Drop {
		if !slices.Contains(modalities, m) {
			return fmt.Errorf("%w: unknown modality %q to drop", ErrConfig, m)
		}
	}
	return c.validateJoin()
}

// validateJoin checks that the embedders' tokens fit together.
func (c Config) validateJoin() error {
	for _, e := range c.Embedders {
		if w := e.width(); w != c.Width() && (c.ProjectionMultiplier == 0 || c.CompressionMultiplier > 0) {
			return fmt.Errorf("%w: embedders of widths %d and %d cannot be joined as they are", ErrConfig, w, c.Width())
		}
		if n := e.tokens(); c.CompressionMultiplier > 0 && n != c.Embedders[0].tokens() {
			return fmt.Errorf("%w: embedders of %d and %d tokens cannot be compressed", ErrConfig, n, c.Embedders[0].tokens())
		}
	}
	return nil
}

func (e Embedder) validate() error {
	if (e.Image == nil) == (e.Points == nil) {
		return errors.New("it must be either for images or for points")
	}
	if len(e.Inputs) < 1 || len(e.Inputs) > len(modalities) {
		return fmt.Errorf("it has %d inputs", len(e.Inputs))
	}
	for _, in := range e.Inputs {
		if !slices.Contains(modalities, in.Name) || in.Name.points() != (e.Points != nil) {
			return fmt.Errorf("it cannot read %q", in.Name)
		}
	}
	if e.Image != nil {
		return e.Image.validate()
	}
	return e.Points.validate()
}

func (e ImageEmbedder) validate() error {
	if err := e.Backbone.Validate(); err != nil {
		return err
	}
	patch := e.Backbone.PatchSize
	if e.InputSize < 1 || e.InputSize > maxSide || e.InputSize%patch != 0 || e.InputSize/patch > maxGridSide {
		return fmt.Errorf("InputSize %d is no multiple of the patch size %d, or too large", e.InputSize, patch)
	}
	return nil
}

func (e PointEmbedder) validate() error {
	if e.Width < 1 || e.Width > maxWidth || e.NumHeads < 1 || e.Width%e.NumHeads != 0 {
		return fmt.Errorf("Width %d is no multiple of NumHeads %d, or too large", e.Width, e.NumHeads)
	}
	if e.PatchSize < 1 || e.InputSize < 1 || e.InputSize > maxSide || e.InputSize%e.PatchSize != 0 ||
		e.grid() > maxGridSide || e.PatchSize > maxGridSide {
		return fmt.Errorf("InputSize %d is no multiple of PatchSize %d, or out of range", e.InputSize, e.PatchSize)
	}
	return e.Remap.validate()
}

// width is the width of the embedder's own tokens.
func (e Embedder) width() int {
	if e.Image != nil {
		return e.Image.Backbone.EmbedDim
	}
	return e.Points.Width
}

// tokens is the number of tokens of each input.
func (e Embedder) tokens() int {
	if e.Image == nil {
		return e.Points.grid() * e.Points.grid()
	}
	side := e.Image.InputSize / e.Image.Backbone.PatchSize
	if e.Image.Prenorm {
		return e.Image.Backbone.Special() + side*side
	}
	return 1 + side*side
}

// grid is the number of windows along a side.
func (e PointEmbedder) grid() int { return e.InputSize / e.PatchSize }

// Width returns the width D of the condition tokens, that of the widest embedder.
func (c Config) Width() int {
	width := 0
	for _, e := range c.Embedders {
		width = max(width, e.width())
	}
	return width
}

// Tokens returns the number T of condition tokens.
func (c Config) Tokens() int {
	if c.CompressionMultiplier > 0 {
		return c.Embedders[0].tokens()
	}
	total := 0
	for _, e := range c.Embedders {
		total += len(e.Inputs) * e.tokens()
	}
	return total
}

// groups returns the names of the groups in the order of their rows.
func (c Config) groups() []string {
	var groups []string
	for _, e := range c.Embedders {
		for _, in := range e.Inputs {
			if in.Group != "" && !slices.Contains(groups, in.Group) {
				groups = append(groups, in.Group)
			}
		}
	}
	return groups
}

// hidden is the hidden width of a projection: two thirds of multiplier times the width, up to the next multiple of 256.
func (c Config) hidden(multiplier float64) int {
	const multiple = 256
	wide := math.Floor(multiplier * float64(c.Width()))
	n := int(2 * wide / 3)
	return multiple * ((n + multiple - 1) / multiple)
}
