// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"context"
	"encoding/binary"
	"image"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/weights"
)

// requireCases skips the test where the module's own reference cases do not include this component.
func requireCases(t *testing.T) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(fixture.Dir(), "sam3", "*.json"))
	require.NoError(t, err)
	if len(paths) == 0 {
		t.Skip("no reference case of SAM 3; REFERENCE_DIR names a folder that has some")
	}
}

// configOf returns the configuration of a reference case, with the heads that its parameters have.
func configOf(t *testing.T, c *fixture.Case) Config {
	t.Helper()
	cfg := Config{StabilityDelta: 0.05, StabilityThreshold: 0.98}
	c.Decode(t, &cfg)
	kind, _, _ := strings.Cut(c.Name, "_")
	cfg.Interactive = kind == "point" || kind == "interactive"
	cfg.Grounding = !cfg.Interactive
	return cfg
}

// modelOf returns the network of a reference case. It is closed with the test.
func modelOf(t *testing.T, c *fixture.Case) *Model {
	t.Helper()
	model, err := New(fixture.Backend(t), configOf(t, c), c.Tensors.Sub("param/"))
	require.NoError(t, err)
	t.Cleanup(model.Close)
	return model
}

// small is a network that runs in milliseconds, whose windows do not divide the grid.
func small() Config {
	return Config{
		Layout: MetaSAM3, Interactive: true,
		ImageSize: 20, PatchSize: 4, PretrainSize: 12, ViTDim: 16, ViTDepth: 2, ViTHeads: 2, ViTMLP: 24,
		GlobalBlocks: []int{1}, WindowSize: 3, ViTEpsilon: 1e-5, ScaleFactors: []float64{4, 2, 1, 0.5},
		ModelDim: 16, Heads: 2, HeadMLP: 24,
		EncoderLayers: 1, DecoderLayers: 1, GeometryLayers: 1, Queries: 3, RoISize: 3,
		TextDim: 8, TextHeads: 2, TextLayers: 1, TextProjection: 8, ContextLength: 6, VocabularySize: 49408,
		BeginToken: 49406, EndToken: 49407,
		MaskChannels: 8, StabilityDelta: 0.05, StabilityThreshold: 0.98,
	}
}

// randomSet returns weights for a configuration with Meta's SAM 3 names, the same for the same seed.
func randomSet(cfg Config, seed uint64) *weights.Set {
	random := rand.New(rand.NewPCG(seed, 1))
	spec, all := Spec(cfg), make(map[string]weights.Tensor)
	for _, name := range slices.Sorted(maps.Keys(spec)) {
		if spec[name].Optional {
			continue
		}
		shape := spec[name].Shape
		data := make([]byte, 0, 4*shapes.Make(dtypes.Float32, shape...).Size())
		for range cap(data) / 4 {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(random.Float32()-0.5))
		}
		all[name] = weights.Tensor{DType: dtypes.Float32, Shape: shape, Data: data}
	}
	return weights.NewSet(all)
}

// smallModel returns a network of the small configuration, closed with the test.
func smallModel(t *testing.T) *Model {
	t.Helper()
	cfg := small()
	model, err := New(fixture.Backend(t), cfg, randomSet(cfg, 1))
	require.NoError(t, err)
	t.Cleanup(model.Close)
	return model
}

// encodeRandom encodes random pixels as if they were of a picture of the given size.
func encodeRandom(t *testing.T, model *Model, width, height int) *Encoding {
	t.Helper()
	random, size := rand.New(rand.NewPCG(7, 7)), model.Config().ImageSize
	pixels := make([]float32, 3*size*size)
	for i := range pixels {
		pixels[i] = 2*random.Float32() - 1
	}
	input := tensors.FromFlatDataAndDimensions(pixels, 1, 3, size, size)
	defer nn.Free(input)
	encoding, err := model.encode(t.Context(), input)
	require.NoError(t, err)
	t.Cleanup(encoding.Close)
	encoding.Width, encoding.Height = width, height
	return encoding
}

// expiring is a context that is cancelled after some looks at it.
type expiring struct {
	context.Context
	left int
}

func (e *expiring) Err() error {
	if e.left--; e.left < 0 {
		return context.Canceled
	}
	return nil
}

// newOpaque returns the picture of RGB bytes [height, width, 3].
func newOpaque(width, height int, rgb []uint8) *image.NRGBA {
	out := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range width * height {
		copy(out.Pix[4*i:], rgb[3*i:3*i+3])
		out.Pix[4*i+3] = 255
	}
	return out
}
