// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge_test

import (
	"encoding/json"
	"image"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/dinov2"
	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/geom"
	"github.com/gomlx3d/image3d/moge"
	"github.com/gomlx3d/image3d/sam3d/input"
)

// caseConfig is the configuration of a case of the network.
type caseConfig struct {
	DimProj           int             `json:"dim_proj"`
	DimUpsample       [3]int          `json:"dim_upsample"`
	HiddenRatio       int             `json:"dim_times_res_block_hidden"`
	ResBlocks         int             `json:"num_res_blocks"`
	Remap             string          `json:"remap_output"`
	NumTokens         [2]int          `json:"num_tokens_range"`
	LastResBlocks     int             `json:"last_res_blocks"`
	LastChannels      int             `json:"last_conv_channels"`
	LastKernel        int             `json:"last_conv_size"`
	MaskThreshold     float32         `json:"mask_threshold"`
	IntermediateLayer json.RawMessage `json:"intermediate_layers"`
	Backbone          struct {
		ImageSize int     `json:"img_size"`
		PatchSize int     `json:"patch_size"`
		EmbedDim  int     `json:"embed_dim"`
		Depth     int     `json:"depth"`
		NumHeads  int     `json:"num_heads"`
		MLPRatio  float64 `json:"mlp_ratio"`
		Epsilon   float64 `json:"layer_norm_eps"`
		Registers int     `json:"num_register_tokens"`
		Antialias bool    `json:"interpolate_antialias"`
		Offset    float64 `json:"interpolate_offset"`
	} `json:"tiny_backbone"`
	Call struct {
		Fn              string   `json:"fn"`
		NumTokens       int      `json:"num_tokens"`
		NumTokensUsed   int      `json:"num_tokens_used"`
		ForceProjection *bool    `json:"force_projection"`
		ApplyMask       *bool    `json:"apply_mask"`
		Level           *int     `json:"resolution_level"`
		FOVX            *float64 `json:"fov_x"`
	} `json:"call"`
}

func (c caseConfig) config(t *testing.T) moge.Config {
	b := c.Backbone
	cfg := moge.Config{
		Backbone: dinov2.Config{
			EmbedDim: b.EmbedDim, Depth: b.Depth, NumHeads: b.NumHeads, MLPRatio: b.MLPRatio, PatchSize: b.PatchSize,
			Grid: b.ImageSize / b.PatchSize, Registers: b.Registers, InterpolateAntialias: b.Antialias,
			InterpolateOffset: b.Offset, NormEpsilon: b.Epsilon,
		},
		ProjectDim: c.DimProj, UpsampleDims: c.DimUpsample, HiddenRatio: c.HiddenRatio, ResBlocks: c.ResBlocks,
		LastResBlocks: c.LastResBlocks, LastChannels: c.LastChannels, LastKernel: c.LastKernel,
		Remap: moge.Remap(c.Remap), MaskThreshold: c.MaskThreshold, MinTokens: c.NumTokens[0], MaxTokens: c.NumTokens[1],
	}
	var last int
	if json.Unmarshal(c.IntermediateLayer, &last) == nil {
		for i := range last {
			cfg.Layers = append(cfg.Layers, b.Depth-last+i)
		}
	} else {
		require.NoError(t, json.Unmarshal(c.IntermediateLayer, &cfg.Layers))
	}
	return cfg
}

// options returns those of the case's call. A choice that the case leaves out is the original's default, which is to
// project and to mask.
func (c caseConfig) options() moge.Options {
	o := moge.Options{NumTokens: c.Call.NumTokens, ResolutionLevel: c.Call.Level, ForceProjection: true}
	if c.Call.ForceProjection != nil {
		o.ForceProjection = *c.Call.ForceProjection
	}
	if c.Call.ApplyMask != nil {
		o.KeepInvalid = !*c.Call.ApplyMask
	}
	if c.Call.FOVX != nil {
		o.FOVX = *c.Call.FOVX
	}
	return o
}

// images splits the case's picture, or batch of pictures.
func images(t *testing.T, c *fixture.Case) []moge.Image {
	shape := c.Shape(t, "in/image")
	height, width := shape[len(shape)-2], shape[len(shape)-1]
	var out []moge.Image
	for pixels := range slices.Chunk(c.Float32s(t, "in/image"), 3*height*width) {
		out = append(out, moge.Image{Height: height, Width: width, Pixels: pixels})
	}
	return out
}

func TestReference(t *testing.T) {
	fixture.Run(t, "moge1", func(t *testing.T, c *fixture.Case) {
		var config caseConfig
		c.Decode(t, &config)
		model, err := moge.New(fixture.Backend(t), config.config(t), c.Tensors.Sub("param/"))
		require.NoError(t, err)
		defer model.Close()
		got := make(map[string]any)
		switch config.Call.Fn {
		case "forward":
			points, mask := forward(t, c, model, config.Call.NumTokens)
			got["out/points"], got["out/mask"] = points, mask
		case "infer":
			got["out/forward_points"], got["out/forward_mask"] = forward(t, c, model, config.Call.NumTokensUsed)
			infer(t, c, model, config.options(), got)
		default:
			t.Fatalf("unknown function %q", config.Call.Fn)
		}
		checkAll(t, c, got)
	})
}

func forward(t *testing.T, c *fixture.Case, model *moge.Model, numTokens int) (points, mask []float32) {
	for _, image := range images(t, c) {
		raw, err := model.Forward(t.Context(), image, numTokens)
		require.NoError(t, err)
		points, mask = append(points, raw.Points...), append(mask, raw.Mask...)
	}
	return points, mask
}

func infer(t *testing.T, c *fixture.Case, model *moge.Model, options moge.Options, got map[string]any) {
	var points, depth []float32
	var mask []bool
	var intrinsics []float64
	for _, image := range images(t, c) {
		r, err := model.Infer(t.Context(), image, options)
		require.NoError(t, err)
		points, depth, mask = append(points, r.Points...), append(depth, r.Depth...), append(mask, r.Mask...)
		for _, row := range r.Intrinsics {
			intrinsics = append(intrinsics, row[:]...)
		}
		require.False(t, r.Degenerate())
	}
	got["out/points"], got["out/depth"], got["out/mask"], got["out/intrinsics"] = points, depth, mask, intrinsics
}

func checkAll(t *testing.T, c *fixture.Case, got map[string]any) {
	for _, name := range c.Outputs() {
		value, ok := got[name]
		if !ok {
			t.Errorf("nothing computes %s", name)
			continue
		}
		c.Check(t, name, value)
	}
}

func TestReferenceGeometry(t *testing.T) {
	fixture.Run(t, "moge_geometry", func(t *testing.T, c *fixture.Case) {
		var config struct {
			Fn        string   `json:"fn"`
			Clip      *float64 `json:"clip_pointmap_beyond_scale"`
			FromModel bool     `json:"from_depth_model"`
			Samples   [2]int   `json:"downsample_size"`
		}
		c.Decode(t, &config)
		switch config.Fn {
		case "recover_focal_shift":
			require.Equal(t, [2]int{64, 64}, config.Samples)
			checkAll(t, c, recovered(t, c))
		case "sam3d.compute_pointmap":
			options := input.Options{}
			if config.Clip != nil {
				options.ClipBeyond = *config.Clip
			}
			checkAll(t, c, pointMap(t, c, config.FromModel, options))
		default:
			t.Fatalf("unknown function %q", config.Fn)
		}
	})
}

// recovered computes the outputs of a case about the solver, for each item of the batch.
func recovered(t *testing.T, c *fixture.Case) map[string]any {
	shape := c.Shape(t, "in/points")
	height, width := shape[len(shape)-3], shape[len(shape)-2]
	size := height * width
	points := c.Float32s(t, "in/points")
	var focal, shift, depth, projected, shifted []float32
	var intrinsics []float64
	for b := range len(points) / (3 * size) {
		item := points[3*b*size : 3*(b+1)*size]
		var mask []bool
		if c.Has("in/mask") {
			for _, v := range c.Ints(t, "in/mask")[b*size : (b+1)*size] {
				mask = append(mask, v != 0)
			}
		}
		found, err := moge.FocalShift{}, error(nil)
		if c.Has("in/focal") {
			found, err = moge.RecoverShift(item, height, width, mask, c.Float32s(t, "in/focal")[b])
		} else {
			found, err = moge.RecoverFocalShift(item, height, width, mask)
		}
		require.NoError(t, err)
		focal, shift = append(focal, found.Focal), append(shift, found.Shift)
		for _, project := range []bool{false, true} {
			r := moge.NewResult(height, width, slices.Clone(item), mask, found, moge.Options{ForceProjection: project, KeepInvalid: true})
			if project {
				projected = append(projected, r.Points...)
				continue
			}
			shifted, depth = append(shifted, r.Points...), append(depth, r.Depth...)
			for _, row := range r.Intrinsics {
				intrinsics = append(intrinsics, row[:]...)
			}
		}
	}
	return map[string]any{
		"out/focal": focal, "out/shift": shift, "out/depth": depth, "out/intrinsics": intrinsics,
		"out/points_projected": projected, "out/points_shifted": shifted,
	}
}

// pointMap computes the outputs of a case about SAM 3D's scene point map.
func pointMap(t *testing.T, c *fixture.Case, fromModel bool, options input.Options) map[string]any {
	shape := c.Shape(t, "in/image_rgba")
	height, width := shape[0], shape[1]
	picture, err := input.New(&image.NRGBA{
		Pix: slices.Clone(c.Bytes(t, "in/image_rgba")), Stride: 4 * width, Rect: image.Rect(0, 0, width, height),
	}, nil)
	require.NoError(t, err)
	var points input.PointMap
	if fromModel {
		points, err = input.FromDepthCamera(width, height, c.Float32s(t, "in/points"))
		require.NoError(t, err)
	} else {
		shape := c.Shape(t, "in/pointmap")
		points = input.PointMap{Height: shape[0], Width: shape[1], Points: c.Float32s(t, "in/pointmap")}
	}
	scene, err := picture.ScenePoints(points, options)
	require.NoError(t, err)
	planar := make([]float32, len(scene.Points))
	for i, v := range scene.Points {
		planar[i%3*height*width+i/3] = v
	}
	got := map[string]any{"out/pointmap": planar, "out/pts_color": picture.RGB().Data}
	if c.Has("out/intrinsics") {
		got["out/intrinsics"] = originalIntrinsics(t, scene)
	}
	return got
}

// originalIntrinsics returns what the original takes for the camera of a user's point map. It mistakes the shift for
// the focal length, and the map's axes for those of the solver.
func originalIntrinsics(t *testing.T, scene input.PointMap) []float64 {
	mask := make([]bool, scene.Height*scene.Width)
	for i := range mask {
		p := scene.Points[3*i : 3*i+3]
		sum := p[0] + p[1] + p[2]
		mask[i] = sum-sum == 0 // finite
	}
	found, err := moge.RecoverFocalShift(scene.Points, scene.Height, scene.Width, mask)
	require.NoError(t, err)
	require.Negative(t, found.Focal)
	m := geom.IntrinsicsFromFocal(float64(found.Shift), float64(scene.Width)/float64(scene.Height)).Matrix()
	return slices.Concat(m[0][:], m[1][:], m[2][:])
}
