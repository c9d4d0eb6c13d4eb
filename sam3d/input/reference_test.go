// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package input

import (
	"encoding/json"
	"fmt"
	"image"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/geom"
	"github.com/gomlx3d/image3d/moge"
)

// preprocessConfig is the configuration of a case, with the settings that are constants here.
type preprocessConfig struct {
	Size       int      `json:"size"`
	Clip       *float64 `json:"clip_pointmap_beyond_scale"`
	Entry      string   `json:"entry"`
	BoxFactor  float64  `json:"box_size_factor"`
	Padding    float64  `json:"padding_factor"`
	Image      string   `json:"image_resize"`
	Mask       string   `json:"mask_resize"`
	PointMap   string   `json:"pointmap_resize"`
	Normalize  bool     `json:"normalize_pointmap"`
	Normalizer string   `json:"normalizer"`
	Rembg      bool     `json:"rembg"`
	FullPad    float64  `json:"full_pad_value"`
	Strides    []int    `json:"subsample_strides"`
	Checksums  map[string]struct {
		Shape     []int   `json:"shape"`
		Sum       float64 `json:"sum"`
		SumSquare float64 `json:"sum_sq"`
		NonFinite int     `json:"nonfinite"`
	} `json:"full_size_checksums"`
}

func TestReference(t *testing.T) {
	fixture.Run(t, "preprocess", func(t *testing.T, c *fixture.Case) {
		config := readConfig(t, c)
		options := Options{Size: config.Size, AsOriginal: true}
		if config.Clip != nil {
			options.ClipBeyond = *config.Clip
		}
		shape := c.Shape(t, "in/image")
		picture, err := New(rgbPicture(c.Bytes(t, "in/image"), shape), grey(c.Bytes(t, "in/mask"), shape))
		require.NoError(t, err)
		scene := sceneOf(t, c, picture, options)
		if c.Has("mid/scene_pointmap") {
			c.CheckWithin(t, "mid/scene_pointmap", planar(scene), fixture.Tolerance{Abs: 1e-6})
		}
		conditions, err := picture.withPoints(scene, options)
		require.NoError(t, err)
		if c.Has("mid/normalized") {
			normalised := planar(scene.normalised(conditions.Scale[0], conditions.Shift))
			c.CheckWithin(t, "mid/normalized", normalised, fixture.Tolerance{Abs: 1e-5, Rel: 1e-5})
		}
		if c.Has("mid/bbox") {
			crop := cropAround(picture.box).crop
			c.Check(t, "mid/bbox", []int{crop.Min.X, crop.Min.Y, crop.Max.X, crop.Max.Y})
		}
		outputs := outputsOf(conditions)
		for _, name := range c.Outputs() {
			checkOutput(t, c, name, scene, outputs, config)
		}
		checkSums(t, config, outputs)
	})
}

func readConfig(t *testing.T, c *fixture.Case) preprocessConfig {
	var config preprocessConfig
	decoder := json.NewDecoder(strings.NewReader(string(c.Config)))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&config))
	require.Equal(t, boxFactor, config.BoxFactor)
	require.Zero(t, config.Padding)
	require.Equal(t, []string{"bilinear antialias", "nearest", "nearest"}, []string{config.Image, config.Mask, config.PointMap})
	require.True(t, config.Normalize)
	require.Equal(t, "ObjectCentricSSI(use_scene_scale=True, allow_scale_and_shift_override=True, "+
		"clip_beyond_scale=None, scale_factor=1.0)", config.Normalizer)
	require.False(t, config.Rembg)
	require.Zero(t, config.FullPad)
	return config
}

// sceneOf returns the scene's points the way the case came by them.
func sceneOf(t *testing.T, c *fixture.Case, picture *Picture, options Options) PointMap {
	var points PointMap
	var err error
	var config struct{ Entry string }
	c.Decode(t, &config)
	switch config.Entry {
	case "compute_pointmap(user pointmap) + preprocess_image":
		points = mapOf(c.Float32s(t, "in/pointmap"), c.Shape(t, "in/pointmap"))
	case "compute_pointmap(depth model) + preprocess_image":
		shape := c.Shape(t, "in/depth_pointmaps")
		points, err = FromDepthCamera(shape[1], shape[0], c.Float32s(t, "in/depth_pointmaps"))
		require.NoError(t, err)
	case "preprocess_image(direct scene_pointmap)":
		// The only way by which a map keeps a grid of its own.
		return interleaved(c.Float32s(t, "in/scene_pointmap"), c.Shape(t, "in/scene_pointmap"))
	default:
		t.Fatalf("unknown entry %q", config.Entry)
	}
	scene, err := picture.ScenePoints(points, options)
	require.NoError(t, err)
	return scene
}

func outputsOf(c *Conditions) map[string][]float32 {
	return map[string][]float32{
		"image": c.Crop.Image, "mask": c.Crop.Mask, "pointmap": c.Crop.Points,
		"rgb_image": c.Full.Image, "rgb_image_mask": c.Full.Mask, "rgb_pointmap": c.Full.Points,
		"pointmap_scale": c.Scale[:], "pointmap_shift": c.Shift[:],
		"rgb_pointmap_scale": c.Scale[:], "rgb_pointmap_shift": c.Shift[:],
	}
}

func checkOutput(t *testing.T, c *fixture.Case, name string, scene PointMap, outputs map[string][]float32,
	config preprocessConfig) {
	key := strings.TrimPrefix(name, "out/")
	if got, ok := outputs[key]; ok {
		shape := c.Shape(t, name)
		if len(shape) == 4 {
			require.Equal(t, []int{1, len(got) / config.Size / config.Size, config.Size, config.Size}, shape, name)
		}
		c.Check(t, name, got)
		return
	}
	for _, stride := range config.Strides {
		if of, ok := strings.CutSuffix(key, fmt.Sprintf("_s%d", stride)); ok && outputs[of] != nil {
			c.Check(t, name, everyNth(outputs[of], config.Size, stride))
			return
		}
	}
	switch key {
	case "scene_pointmap":
		c.Check(t, name, planar(scene))
	case "intrinsics":
		c.Check(t, name, originalIntrinsics(t, scene))
	default:
		t.Errorf("nothing computes %s", name)
	}
}

// originalIntrinsics returns what the original takes for the camera of a user's point map. It mistakes the shift for
// the focal length, and the map's axes for those of the solver. Nothing here needs it but the cases.
func originalIntrinsics(t *testing.T, scene PointMap) []float64 {
	valid := make([]bool, scene.Width*scene.Height)
	for i := range valid {
		valid[i] = finite(scene.Points[3*i]) && finite(scene.Points[3*i+1]) && finite(scene.Points[3*i+2])
	}
	found, err := moge.RecoverFocalShift(scene.Points, scene.Height, scene.Width, valid)
	require.NoError(t, err)
	k := geom.IntrinsicsFromFocal(float64(found.Shift), float64(scene.Width)/float64(scene.Height)).Matrix()
	return slices.Concat(k[0][:], k[1][:], k[2][:])
}

// checkSums compares the sums over whole outputs, of which a case stores samples only.
func checkSums(t *testing.T, config preprocessConfig, outputs map[string][]float32) {
	for name, want := range config.Checksums {
		got := outputs[name]
		require.Len(t, got, want.Shape[0]*want.Shape[1]*want.Shape[2]*want.Shape[3], name)
		var sum, squares float64
		var bad int
		for _, v := range got {
			if !finite(v) {
				bad++
				continue
			}
			sum += float64(v)
			squares += float64(v) * float64(v)
		}
		require.Equal(t, want.NonFinite, bad, name)
		require.InEpsilon(t, want.Sum, sum, 1e-5, name)
		require.InEpsilon(t, want.SumSquare, squares, 1e-5, name)
	}
}

// TestReferencePointMap reads the cases of the depth models' geometry that are about SAM 3D's own point map.
func TestReferencePointMap(t *testing.T) {
	fixture.Run(t, "moge_geometry", func(t *testing.T, c *fixture.Case) {
		var config struct {
			Fn        string   `json:"fn"`
			Clip      *float64 `json:"clip_pointmap_beyond_scale"`
			FromModel bool     `json:"from_depth_model"`
		}
		c.Decode(t, &config)
		if config.Fn != "sam3d.compute_pointmap" {
			t.Skipf("%s is read by moge", config.Fn)
		}
		shape := c.Shape(t, "in/image_rgba")
		picture, err := New(rgbPicture(c.Bytes(t, "in/image_rgba"), shape), nil)
		require.NoError(t, err)
		var points PointMap
		if config.FromModel {
			points, err = FromDepthCamera(shape[1], shape[0], c.Float32s(t, "in/points"))
			require.NoError(t, err)
		} else {
			points = mapOf(c.Float32s(t, "in/pointmap"), c.Shape(t, "in/pointmap"))
		}
		options := Options{}
		if config.Clip != nil {
			options.ClipBeyond = *config.Clip
		}
		scene, err := picture.ScenePoints(points, options)
		require.NoError(t, err)
		for _, name := range c.Outputs() {
			switch name {
			case "out/pointmap":
				c.Check(t, name, planar(scene))
			case "out/pts_color":
				c.Check(t, name, picture.RGB().Data)
			case "out/intrinsics":
				c.Check(t, name, originalIntrinsics(t, scene))
			default:
				t.Errorf("nothing computes %s", name)
			}
		}
	})
}

// TestReferenceMLX checks the conditions of the whole pipeline's case, which another implementation computed.
func TestReferenceMLX(t *testing.T) {
	fixture.Run(t, "e2e_mlx", func(t *testing.T, c *fixture.Case) {
		shape := c.Shape(t, "in/image")
		var mask image.Image
		if c.Has("in/mask") {
			mask = grey(c.Bytes(t, "in/mask"), shape)
		}
		picture, err := New(rgbPicture(c.Bytes(t, "in/image"), shape), mask)
		require.NoError(t, err)
		var points *PointMap
		if c.Has("in/pointmap") {
			m := mapOf(c.Float32s(t, "in/pointmap"), c.Shape(t, "in/pointmap"))
			points = &m
		}
		got, err := picture.Prepare(points, Options{Size: c.Shape(t, "mid/prep/image")[1]})
		require.NoError(t, err)
		for name, value := range outputsOf(got) {
			if name = "mid/prep/" + name; value != nil && c.Has(name) {
				shape := c.Shape(t, name) // [1, S, S, C]
				value = transposed(value, shape[3], shape[1]*shape[2])
				c.CheckWithin(t, name, value, fixture.Tolerance{Abs: 1e-5, Rel: 1e-5})
			}
		}
		c.CheckWithin(t, "mid/prep/scale", got.Scale[:], fixture.Tolerance{Rel: 1e-6})
		c.CheckWithin(t, "mid/prep/shift", got.Shift[:], fixture.Tolerance{Abs: 1e-6, Rel: 1e-6})
	})
}

// rgbPicture wraps bytes [H, W, 3 or 4].
func rgbPicture(pix []byte, shape []int) *image.NRGBA {
	out := image.NewNRGBA(image.Rect(0, 0, shape[1], shape[0]))
	for i := range shape[0] * shape[1] {
		out.Pix[4*i+3] = 255
		copy(out.Pix[4*i:4*i+4], pix[i*shape[2]:(i+1)*shape[2]])
	}
	return out
}

// grey wraps bytes [H, W].
func grey(pix []byte, shape []int) *image.Gray {
	return &image.Gray{Pix: slices.Clone(pix), Stride: shape[1], Rect: image.Rect(0, 0, shape[1], shape[0])}
}

func mapOf(points []float32, shape []int) PointMap {
	return PointMap{Width: shape[1], Height: shape[0], Points: points}
}

// planar returns a map as [3, H, W], interleaved is its inverse.
func planar(m PointMap) []float32 { return transposed(m.Points, m.Width*m.Height, 3) }

func interleaved(planes []float32, shape []int) PointMap {
	return PointMap{Width: shape[2], Height: shape[1], Points: transposed(planes, 3, shape[1]*shape[2])}
}

// transposed returns [columns, rows] of [rows, columns].
func transposed(values []float32, rows, columns int) []float32 {
	out := make([]float32, len(values))
	for r := range rows {
		for c := range columns {
			out[c*rows+r] = values[r*columns+c]
		}
	}
	return out
}

// everyNth returns [C, ::n, ::n] of [C, size, size].
func everyNth(values []float32, size, n int) []float32 {
	var out []float32
	for at := 0; at < len(values); at += size * size {
		for y := 0; y < size; y += n {
			for x := 0; x < size; x += n {
				out = append(out, values[at+y*size+x])
			}
		}
	}
	return out
}

func isNaN(v float32) bool { return math.IsNaN(float64(v)) }
