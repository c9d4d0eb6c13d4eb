// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge_test

import (
	"cmp"
	"fmt"
	"image"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/geom"
	"github.com/gomlx3d/image3d/moge"
	"github.com/gomlx3d/image3d/sam3d/input"
	"github.com/gomlx3d/image3d/weights"
)

// caseConfig is how a case calls the network.
type caseConfig struct {
	Backbone map[string]any `json:"tiny_backbone"`
	Call     struct {
		Fn              string   `json:"fn"`
		NumTokens       int      `json:"num_tokens"`
		NumTokensUsed   int      `json:"num_tokens_used"`
		ForceProjection *bool    `json:"force_projection"`
		ApplyMask       *bool    `json:"apply_mask"`
		Level           *int     `json:"resolution_level"`
		FOVX            *float64 `json:"fov_x"`
		RefineSteps     *int     `json:"refine_steps"`
	} `json:"call"`
}

// network reads the configuration of a case as that of a checkpoint, and its weights. A case names a backbone that is
// none of the released ones, and gives its sizes beside.
func network(t *testing.T, c *fixture.Case, version int) (moge.Config, *weights.Set) {
	var m map[string]any
	var config caseConfig
	c.Decode(t, &m)
	c.Decode(t, &config)
	set := weights.OfficialDepth(c.Tensors.Sub("param/"))
	encoder, nested := m["encoder"].(map[string]any)
	if nested {
		encoder["backbone"] = "dinov2_vits14"
		maps.Copy(encoder, config.Backbone)
	} else {
		m["encoder"] = "dinov2_vits14"
	}
	if version == 3 {
		m["model_type"] = "moge3"
	}
	cfg, err := moge.ConfigFromMap(m, set)
	if !nested { // MoGe-1 stores no number of heads, and the weights do not tell it
		cfg.Backbone.NumHeads, err = int(config.Backbone["num_heads"].(float64)), nil
	}
	require.NoError(t, err)
	require.Equal(t, version, cfg.Version)
	return cfg, set
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
	if c.Call.RefineSteps != nil {
		o.RefineRounds = cmp.Or(*c.Call.RefineSteps, -1)
	}
	return o
}

// images splits the case's picture, or batch of pictures: planes, or in MoGe-3 pixels.
func images(t *testing.T, c *fixture.Case, pixels bool) []moge.Image {
	shape := c.Shape(t, "in/image")
	n := len(shape)
	height, width := shape[n-2], shape[n-1]
	if pixels {
		height, width = shape[n-3], shape[n-2]
	}
	var out []moge.Image
	for values := range slices.Chunk(c.Float32s(t, "in/image"), 3*height*width) {
		if pixels {
			planes := make([]float32, len(values))
			for i, v := range values {
				planes[i%3*height*width+i/3] = v
			}
			values = planes
		}
		out = append(out, moge.Image{Height: height, Width: width, Pixels: values})
	}
	return out
}

// TestReference runs the three networks, each alone and with what follows.
func TestReference(t *testing.T) {
	for version, component := range []string{1: "moge1", 2: "moge2", 3: "moge3"} {
		if version == 0 {
			continue
		}
		t.Run(component, func(t *testing.T) {
			if paths, _ := filepath.Glob(filepath.Join(fixture.Dir(), component, "*.json")); len(paths) == 0 {
				t.Skipf("no reference cases of %s in %s", component, fixture.Dir())
			}
			fixture.Run(t, component, func(t *testing.T, c *fixture.Case) {
				if c.Has("in/coords") {
					checkAll(t, c, refined(t, c))
					return
				}
				checkAll(t, c, evaluated(t, c, version))
			})
		})
	}
}

// evaluated computes the outputs of a case of a whole network, picture by picture.
func evaluated(t *testing.T, c *fixture.Case, version int) map[string]any {
	var config caseConfig
	c.Decode(t, &config)
	cfg, set := network(t, c, version)
	model, err := moge.New(fixture.Backend(t), cfg, set)
	require.NoError(t, err)
	defer model.Close()
	floats, masks := make(map[string][]float32), make(map[string][]bool)
	options := config.options()
	for _, image := range images(t, c, version == 3) {
		raw, err := model.Forward(t.Context(), image, options)
		require.NoError(t, err)
		for name, values := range map[string][]float32{
			"points": raw.Points, "mask": raw.Mask, "normal": raw.Normals, "metric_scale": {raw.MetricScale},
		} {
			if config.Call.Fn == "forward" {
				floats["out/"+name] = append(floats["out/"+name], values...)
			} else {
				floats["out/forward_"+name] = append(floats["out/forward_"+name], values...)
			}
		}
		for step := 0; c.Has(fmt.Sprintf("out/forward_points_step%d", step)); step++ {
			raw, err := model.Forward(t.Context(), image, moge.Options{NumTokens: options.NumTokens, RefineRounds: cmp.Or(step, -1)})
			require.NoError(t, err)
			name := fmt.Sprintf("out/forward_points_step%d", step)
			floats[name] = append(floats[name], raw.Points...)
		}
		if config.Call.Fn == "forward" {
			continue
		}
		r, err := model.Infer(t.Context(), image, options)
		require.NoError(t, err)
		require.False(t, r.Degenerate())
		for name, values := range map[string][]float32{"points": r.Points, "depth": r.Depth, "normal": r.Normals} {
			floats["out/"+name] = append(floats["out/"+name], values...)
		}
		masks["out/mask"] = append(masks["out/mask"], r.Mask...)
		for _, row := range r.Intrinsics {
			for _, v := range row {
				floats["out/intrinsics"] = append(floats["out/intrinsics"], float32(v))
			}
		}
	}
	got := make(map[string]any)
	for name, values := range floats {
		got[name] = values
	}
	for name, values := range masks {
		got[name] = values
	}
	return got
}

// refined computes the outputs of a case of the refiner alone, one map of the batch after the other.
func refined(t *testing.T, c *fixture.Case) map[string]any {
	var m map[string]any
	var config struct {
		Shape [4]int `json:"shape"` // of the voxels
	}
	c.Decode(t, &m)
	c.Decode(t, &config)
	rows, cols := config.Shape[1], config.Shape[2]
	features := c.Shape(t, "in/encoder_feature")
	refine, done, err := moge.NewRefiner(fixture.Backend(t), m, features[3], c.Tensors.Sub("param/refiner."))
	require.NoError(t, err)
	defer done()
	coords, values, encoded := c.Ints(t, "in/coords"), c.Float32s(t, "in/feats"), c.Float32s(t, "in/encoder_feature")
	var out []float32
	for b := range config.Shape[0] {
		bins := make([]int32, rows*cols)
		for i := range bins {
			at := coords[4*(b*rows*cols+i):]
			require.Equal(t, []int{b, i / cols, i % cols}, at[:3])
			bins[i] = int32(at[3])
		}
		n := features[1] * features[2] * features[3]
		delta, err := refine(t.Context(), rows, cols, values[3*b*rows*cols:][:3*rows*cols], bins,
			tensors.FromFlatDataAndDimensions(encoded[b*n:][:n], 1, features[1], features[2], features[3]))
		require.NoError(t, err)
		out = append(out, delta...)
	}
	return map[string]any{"out/out": out}
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
			r := moge.NewResult(&moge.Raw{Height: height, Width: width, Points: slices.Clone(item)}, mask, found, 1, moge.Options{ForceProjection: project, KeepInvalid: true})
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
