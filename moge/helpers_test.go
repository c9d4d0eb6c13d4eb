// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/dinov2"
	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/weights"
)

// small is a network that runs in milliseconds.
func small() Config {
	cfg := V1()
	cfg.Backbone = dinov2.Config{
		EmbedDim: 16, Depth: 2, NumHeads: 2, MLPRatio: 2, PatchSize: patch, Grid: 3, InterpolateOffset: 0.1, NormEpsilon: 1e-6,
	}
	cfg.Layers = []int{0, 1}
	cfg.Trunk.ProjectDim, cfg.Trunk.UpsampleDims, cfg.Trunk.ResBlocks = 8, [3]int{16, 16, 16}, 1
	cfg.Trunk.LastChannels, cfg.MinTokens, cfg.MaxTokens = 8, 6, 12
	return cfg
}

// randomSet returns weights of a sensible size, the same each time.
func randomSet(cfg Config) *weights.Set { return randomTensors(Spec(cfg)) }

func randomTensors(spec weights.Spec) *weights.Set {
	names := make([]string, 0, len(spec))
	for name := range spec {
		names = append(names, name)
	}
	slices.Sort(names)
	r := rand.New(rand.NewPCG(1, 2))
	set := make(map[string]weights.Tensor)
	for _, name := range names {
		shape := spec[name].Shape
		size := 1
		for _, n := range shape {
			size *= n
		}
		scale := 1 / math.Sqrt(float64(size/shape[0]))
		data := make([]byte, 0, 4*size)
		for range size {
			value := float32(scale * (2*r.Float64() - 1))
			if strings.HasSuffix(name, "image_std") {
				value = 0.25
			}
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(value))
		}
		set[name] = weights.Tensor{DType: dtypes.Float32, Shape: shape, Data: data}
	}
	return weights.NewSet(set)
}

func newModel(t testing.TB, cfg Config) *Model {
	t.Helper()
	m, err := New(fixture.Backend(t), cfg, randomSet(cfg))
	require.NoError(t, err)
	t.Cleanup(m.Close)
	return m
}

// testImage is a picture of smooth colours.
func testImage(height, width int) Image {
	image := Image{Height: height, Width: width, Pixels: make([]float32, 3*height*width)}
	for i := range image.Pixels {
		y, x := i/width%height, i%width
		image.Pixels[i] = float32(0.5 + 0.5*math.Sin(float64(i/(height*width))+7*float64(x)/float64(width)+5*float64(y)/float64(height)))
	}
	return image
}
