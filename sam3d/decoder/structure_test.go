// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package decoder

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
)

func TestReferenceStructureDecoder(t *testing.T) {
	fixture.Run(t, "ssdecoder", func(t *testing.T, f *fixture.Case) {
		if f.Has("in/latent") {
			checkDecoding(t, f)
		} else {
			checkCoordinates(t, f)
		}
	})
}

func checkDecoding(t *testing.T, f *fixture.Case) {
	var c struct {
		Out          int    `json:"out_channels"`
		Latent       int    `json:"latent_channels"`
		ResBlocks    int    `json:"num_res_blocks"`
		MiddleBlocks int    `json:"num_res_blocks_middle"`
		Channels     []int  `json:"channels"`
		Norm         string `json:"norm_type"`
		Cube         bool   `json:"reshape_input_to_cube"`
	}
	f.Decode(t, &c)
	require.Contains(t, []string{"layer", "group"}, c.Norm)
	require.Equal(t, c.Cube, len(f.Shape(t, "in/latent")) == 3)
	cfg := StructureConfig{
		LatentChannels: c.Latent, OutChannels: c.Out, Channels: c.Channels,
		ResBlocks: c.ResBlocks, MiddleBlocks: c.MiddleBlocks, GroupNorm: c.Norm == "group",
	}
	s, err := NewStructure(fixture.Backend(t), cfg, f.Tensors.Sub("param/"))
	require.NoError(t, err)
	defer s.Close()
	logits, err := s.Decode(t.Context(), f.Tensor(t, "in/latent"))
	require.NoError(t, err)
	f.Check(t, "out/logits", logits)
	coords, err := Coordinates(logits)
	require.NoError(t, err)
	f.Check(t, "out/coords", flat(coords))
	require.Len(t, f.Outputs(), 2)
}

func checkCoordinates(t *testing.T, f *fixture.Case) {
	var config struct {
		Cases map[string]struct {
			Radius int  `json:"max_neighbor_axes_dist"`
			Limit  int  `json:"max_coords"`
			Factor int  `json:"downsample_factor_arg"`
			Want   int  `json:"returned_factor"`
			Random bool `json:"randomly_subsampled"`
		} `json:"cases"`
	}
	f.Decode(t, &config)
	require.Len(t, f.Outputs(), len(config.Cases))
	for name, c := range config.Cases {
		require.False(t, c.Random, "%s: no reference is possible", name)
		coords := rows(f.Ints(t, "in/"+name))
		kind, _, _ := strings.Cut(name, "/")
		var got [][4]int32
		var err error
		switch kind {
		case "prune":
			got, err = Prune(coords, c.Radius)
		case "downsample":
			var factor int
			got, factor, err = Downsample(coords, c.Limit, c.Factor)
			assert.Equal(t, c.Want, factor, name)
		default:
			t.Fatalf("unknown case %q", name)
		}
		require.NoError(t, err, name)
		f.Check(t, "out/"+name, flat(got))
	}
}

func rows(values []int) [][4]int32 {
	out := make([][4]int32, len(values)/4)
	for i, v := range values {
		out[i/4][i%4] = int32(v)
	}
	return out
}

func flat(coords [][4]int32) []int32 {
	out := make([]int32, 0, 4*len(coords))
	for _, c := range coords {
		out = append(out, c[:]...)
	}
	return out
}
