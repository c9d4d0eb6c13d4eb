// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package pose

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
)

func TestReference(t *testing.T) {
	fixture.Run(t, "pose", func(t *testing.T, c *fixture.Case) {
		var config struct {
			Decoder    string    `json:"pose_decoder_name"`
			Names      []string  `json:"names"`
			SceneGiven bool      `json:"scene_given"`
			Mean       []float64 `json:"rotation_6d_mean"`
			Std        []float64 `json:"rotation_6d_std"`
		}
		c.Decode(t, &config)
		require.InDeltaSlice(t, rotationMean[:], config.Mean, 1e-7)
		require.InDeltaSlice(t, rotationStd[:], config.Std, 1e-7)
		outputs := make(map[string][]float64)
		for row := range c.Shape(t, "in/translation")[0] {
			l, err := NewLatents(rowOf(t, c, "in/6drotation_normalized", row), rowOf(t, c, "in/translation", row),
				rowOf(t, c, "in/scale", row), rowOf(t, c, "in/translation_scale", row))
			require.NoError(t, err)
			scene := NoScene()
			if config.SceneGiven {
				scene.Scale, scene.Shift = vec(rowOf(t, c, "in/scene_scale", row)), vec(rowOf(t, c, "in/scene_shift", row))
			}
			p, err := Convention(config.Decoder).Decode(l, scene)
			require.NoError(t, err, "object %d", row)
			add := func(name string, values ...float64) { outputs[name] = append(outputs[name], values...) }
			add("out/translation", p.Translation[:]...)
			add("out/rotation", p.Rotation[:]...)
			add("out/scale", p.Scale, p.Scale, p.Scale)
			coarse := p.Downsampled(2).Scale
			add("out/scale_downsample2", coarse, coarse, coarse)
			if c.Has("in/points_local") {
				for points := rowOf(t, c, "in/points_local", row); len(points) > 0; points = points[3:] {
					at := p.Apply(vec(points))
					add("out/points_scene", at[:]...)
				}
			}
		}
		for _, name := range c.Outputs() {
			require.Contains(t, outputs, name)
			c.Check(t, name, outputs[name])
		}
	})
}

// rowOf returns the values of one object.
func rowOf(t *testing.T, c *fixture.Case, name string, row int) []float32 {
	values, rows := c.Float32s(t, name), c.Shape(t, name)[0]
	size := len(values) / rows
	return values[row*size : (row+1)*size]
}

func vec(v []float32) [3]float64 { return [3]float64{float64(v[0]), float64(v[1]), float64(v[2])} }
