// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package condition

import (
	"encoding/json"
	"image"
	"path/filepath"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/dinov2"
	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/sam3d/input"
	"github.com/gomlx3d/image3d/weights"
)

// fuserCase is the configuration of a stage in a reference case.
type fuserCase struct {
	Embedders []embedderCase `json:"embedders"`
	Fuser     struct {
		Positions   string     `json:"use_pos_embedding"`
		PreNorm     *bool      `json:"projection_pre_norm"`
		Projection  *float64   `json:"projection_net_hidden_dim_multiplier"`
		Compression float64    `json:"compression_projection_multiplier"`
		Drop        []Modality `json:"force_drop_modalities"`
	} `json:"fuser"`
}

type embedderCase struct {
	Type string `json:"type"`
	ViT  struct {
		Dim       int     `json:"dim"`
		Depth     int     `json:"depth"`
		Heads     int     `json:"heads"`
		ImageSize int     `json:"img_size"`
		Registers int     `json:"regs"`
		Antialias bool    `json:"aa"`
		Offset    float64 `json:"offset"`
	} `json:"vit"`
	Prenorm bool        `json:"prenorm"`
	Kwargs  [][]*string `json:"kwargs"`
	pointCase
}

type pointCase struct {
	EmbedDim  int     `json:"embed_dim"`
	InputSize int     `json:"input_size"`
	PatchSize int     `json:"patch_size"`
	Remap     Remap   `json:"remap_output"`
	NumHeads  int     `json:"num_heads"`
	MLPRatio  float64 `json:"mlp_ratio"`
}

func (c pointCase) config(t *testing.T) PointEmbedder {
	require.EqualValues(t, pointMLPRatio, c.MLPRatio)
	return PointEmbedder{Width: c.EmbedDim, InputSize: c.InputSize, PatchSize: c.PatchSize, NumHeads: c.NumHeads, Remap: c.Remap}
}

func (c embedderCase) config(t *testing.T) Embedder {
	var e Embedder
	switch c.Type {
	case "dino":
		e.Image = &ImageEmbedder{InputSize: c.InputSize, Prenorm: c.Prenorm, Backbone: dinov2.Config{
			EmbedDim: c.ViT.Dim, Depth: c.ViT.Depth, NumHeads: c.ViT.Heads, MLPRatio: 4, PatchSize: 14,
			Grid: c.ViT.ImageSize / 14, Registers: c.ViT.Registers, InterpolateAntialias: c.ViT.Antialias,
			InterpolateOffset: c.ViT.Offset, NormEpsilon: 1e-6,
		}}
	case "pointmap":
		points := c.pointCase.config(t)
		e.Points = &points
	default:
		t.Fatalf("unknown embedder %q", c.Type)
	}
	for _, kwarg := range c.Kwargs {
		in := Input{Name: Modality(*kwarg[0])}
		if kwarg[1] != nil {
			in.Group = *kwarg[1]
		}
		e.Inputs = append(e.Inputs, in)
	}
	return e
}

func (c fuserCase) config(t *testing.T) Config {
	require.Contains(t, []string{"learned", "random"}, c.Fuser.Positions)
	cfg := Config{
		CompressionMultiplier: c.Fuser.Compression, Drop: c.Fuser.Drop, ProjectionMultiplier: 4,
		RandomPositions: c.Fuser.Positions == "random",
	}
	if c.Fuser.Projection != nil {
		cfg.ProjectionMultiplier = *c.Fuser.Projection
	}
	if c.Fuser.PreNorm != nil {
		cfg.NoProjectionNorm = !*c.Fuser.PreNorm
	}
	for _, e := range c.Embedders {
		cfg.Embedders = append(cfg.Embedders, e.config(t))
	}
	return cfg
}

func TestReference(t *testing.T) {
	fixture.Run(t, "embedder", func(t *testing.T, c *fixture.Case) {
		var config struct {
			Kind string `json:"kind"`
			fuserCase
		}
		c.Decode(t, &config)
		switch {
		case config.Kind == "PointRemapper":
			checkRemaps(t, c)
		case config.Kind == "PointPatchEmbed":
			checkPoints(t, c)
		case config.Kind == "end to end":
			checkEndToEnd(t, c)
		case config.Kind == "" && config.Embedders != nil:
			checkFuser(t, c, config.config(t))
		default:
			t.Fatalf("unknown kind %q", config.Kind)
		}
	})
}

func checkRemaps(t *testing.T, c *fixture.Case) {
	var config struct {
		Types []Remap `json:"types"`
	}
	c.Decode(t, &config)
	got := make(map[string][]float32)
	points := c.Float32s(t, "in/points")
	for _, remap := range config.Types {
		require.NoError(t, remap.validate())
		var forward, inverse []float32
		for i := 0; i < len(points); i += 3 {
			p := remap.Apply([3]float32(points[i:]))
			q := remap.Invert(p)
			forward, inverse = append(forward, p[:]...), append(inverse, q[:]...)
		}
		got["out/"+string(remap)], got["out/"+string(remap)+"_inverse"] = forward, inverse
	}
	for _, name := range c.Outputs() {
		require.Contains(t, got, name)
		c.Check(t, name, got[name])
	}
}

func checkPoints(t *testing.T, c *fixture.Case) {
	var config pointCase
	c.Decode(t, &config)
	cfg := config.config(t)
	set := c.Tensors.Sub("param/")
	require.NoError(t, set.Check(pointSpec(cfg)))
	backend := fixture.Backend(t)
	net := newPointNet(backend, cfg, c.Params(t, backend, "param/"))
	t.Cleanup(net.close)
	shape := c.Shape(t, "in/xyz")
	var got []float32
	for _, points := range items(c.Float32s(t, "in/xyz"), shape[0]) {
		tokens, err := net.embed(t.Context(), points, shape[2], shape[3])
		require.NoError(t, err)
		require.Equal(t, c.Shape(t, "out/tokens")[1:], tokens.Shape().Dimensions[1:])
		got = append(got, take(tokens)...)
	}
	require.Equal(t, []string{"out/tokens"}, c.Outputs())
	c.Check(t, "out/tokens", got)
}

// checkFuser runs one stage's configuration as both stages, whose networks are then shared.
func checkFuser(t *testing.T, c *fixture.Case, cfg Config) {
	set := c.Tensors.Sub("param/")
	encoder, err := New(fixture.Backend(t), cfg, set, cfg, set)
	require.NoError(t, err)
	t.Cleanup(encoder.Close)

	shape := c.Shape(t, "out/tokens")
	inputs := make(map[Modality][][]float32)
	for _, m := range modalities {
		if name := "in/" + string(m); c.Has(name) {
			inputs[m] = items(c.Float32s(t, name), shape[0])
		}
	}
	var first, second []float32
	for i := range shape[0] {
		v := Views{Size: c.Shape(t, "in/image")[2]}
		for m, all := range inputs {
			v.set(m, all[i])
		}
		structure, latent, err := encoder.Encode(t.Context(), v)
		require.NoError(t, err)
		require.Equal(t, []int{1, cfg.Tokens(), cfg.Width()}, structure.Shape().Dimensions)
		first, second = append(first, take(structure)...), append(second, take(latent)...)
	}
	require.Equal(t, []string{"out/tokens"}, c.Outputs())
	require.Equal(t, shape[1:], []int{cfg.Tokens(), cfg.Width()})
	c.Check(t, "out/tokens", first)
	require.Equal(t, first, second)
}

// set replaces one of the inputs.
func (v *Views) set(m Modality, flat []float32) {
	switch m {
	case Image:
		v.Image = flat
	case RGBImage:
		v.RGBImage = flat
	case Mask:
		v.Mask = flat
	case RGBMask:
		v.RGBMask = flat
	case PointMap:
		v.PointMap = flat
	case RGBPointMap:
		v.RGBPointMap = flat
	}
}

// checkEndToEnd goes from a picture to the tokens of both stages.
func checkEndToEnd(t *testing.T, c *fixture.Case) {
	var config struct {
		Size      int       `json:"preprocess_size"`
		BoxFactor float64   `json:"box_size_factor"`
		SS        fuserCase `json:"ss"`
		SLAT      fuserCase `json:"slat"`
	}
	c.Decode(t, &config)
	require.Equal(t, 1.2, config.BoxFactor)
	encoder, err := New(fixture.Backend(t), config.SS.config(t), c.Tensors.Sub("param/ss."),
		config.SLAT.config(t), c.Tensors.Sub("param/slat."))
	require.NoError(t, err)
	t.Cleanup(encoder.Close)
	require.Len(t, encoder.trunks, 1, "the copies are equal")

	shape := c.Shape(t, "in/image")
	bounds := image.Rect(0, 0, shape[1], shape[0])
	picture := image.NewNRGBA(bounds)
	rgb := c.Bytes(t, "in/image")
	for i := range shape[0] * shape[1] {
		copy(picture.Pix[4*i:], []byte{rgb[3*i], rgb[3*i+1], rgb[3*i+2], 255})
	}
	mask := &image.Gray{Pix: c.Bytes(t, "in/mask"), Stride: shape[1], Rect: bounds}
	object, err := input.New(picture, mask)
	require.NoError(t, err)
	points := input.PointMap{Width: shape[1], Height: shape[0], Points: c.Float32s(t, "in/pointmap")}
	conditions, err := object.Prepare(&points, input.Options{Size: config.Size})
	require.NoError(t, err)

	structure, latent, err := encoder.Encode(t.Context(), Views{
		Size:  conditions.Size,
		Image: conditions.Crop.Image, Mask: conditions.Crop.Mask, PointMap: conditions.Crop.Points,
		RGBImage: conditions.Full.Image, RGBMask: conditions.Full.Mask, RGBPointMap: conditions.Full.Points,
	})
	require.NoError(t, err)
	t.Cleanup(func() { nn.Free(structure, latent) })
	for _, name := range c.Outputs() {
		switch name {
		case "out/ss_tokens":
			c.Check(t, name, structure)
		case "out/slat_tokens":
			c.Check(t, name, latent)
		case "out/pointmap_scale":
			c.Check(t, name, conditions.Scale[:])
		case "out/pointmap_shift":
			c.Check(t, name, conditions.Shift[:])
		default:
			t.Errorf("nothing computes %s", name)
		}
	}
}

// TestReferenceMLX checks the tokens of the whole pipeline's cases, which another implementation computed.
func TestReferenceMLX(t *testing.T) {
	fixture.Run(t, "e2e_mlx", func(t *testing.T, c *fixture.Case) {
		var from struct {
			Weights struct{ Bundle string }
		}
		require.NoError(t, json.Unmarshal(c.Raw, &from))
		checkpoint, err := weights.OpenBundle(filepath.Join(filepath.Dir(c.Path), from.Weights.Bundle))
		require.NoError(t, err)
		defer checkpoint.Close()
		ss, err := checkpoint.Component(weights.SSConditionEmbedder)
		require.NoError(t, err)
		slat, err := checkpoint.Component(weights.SLATConditionEmbedder)
		require.NoError(t, err)
		structure, latent := mlxConfig(t, c)
		encoder, err := New(fixture.Backend(t), structure, ss, latent, slat)
		require.NoError(t, err)
		t.Cleanup(encoder.Close)

		v := Views{Size: c.Shape(t, "mid/prep/image")[1]}
		for _, m := range modalities {
			if name := "mid/prep/" + string(m); c.Has(name) {
				v.set(m, planes(c.Float32s(t, name), c.Shape(t, name)[3]))
			}
		}
		first, second, err := encoder.Encode(t.Context(), v)
		require.NoError(t, err)
		t.Cleanup(func() { nn.Free(first, second) })
		c.CheckWithin(t, "mid/cond_ss", first, fixture.Tolerance{Abs: 2e-5, Rel: 1e-5})
		c.CheckWithin(t, "mid/cond_slat", second, fixture.Tolerance{Abs: 2e-5, Rel: 1e-5})
	})
}

// mlxConfig reads the configuration of both stages.
func mlxConfig(t *testing.T, c *fixture.Case) (structure, latent Config) {
	var config struct {
		Width     int `json:"dino_hidden_size"`
		Heads     int `json:"dino_heads"`
		Layers    int `json:"dino_layers"`
		TableSize int `json:"dino_image_size"`
		Size      int `json:"image_size"`
		PointSize int `json:"point_size"`
		Patch     int `json:"point_patch_size"`
		Channels  int `json:"point_channels"`
		PointHead int `json:"point_heads"`
	}
	c.Decode(t, &config)
	structure, latent = ReleasedStructure(), ReleasedLatent()
	for _, e := range append(structure.Embedders[:2:2], latent.Embedders...) {
		backbone := &e.Image.Backbone
		backbone.EmbedDim, backbone.NumHeads, backbone.Depth = config.Width, config.Heads, config.Layers
		backbone.Grid, e.Image.InputSize = config.TableSize/14, config.Size
	}
	points := structure.Embedders[2].Points
	points.InputSize, points.PatchSize = config.PointSize, config.Patch
	points.Width, points.NumHeads = config.Channels, config.PointHead
	return structure, latent
}

// items cuts a batch into its items.
func items(flat []float32, batch int) [][]float32 {
	out := make([][]float32, batch)
	for i := range out {
		out[i] = flat[i*len(flat)/batch : (i+1)*len(flat)/batch]
	}
	return out
}

// planes returns [C, N] of [N, C].
func planes(flat []float32, channels int) []float32 {
	out, n := make([]float32, len(flat)), len(flat)/channels
	for i, v := range flat {
		out[i%channels*n+i/channels] = v
	}
	return out
}

// take copies a tensor to the host and frees it.
func take(x *tensors.Tensor) []float32 {
	defer nn.Free(x)
	return tensors.MustCopyFlatData[float32](x)
}
