// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package decoder

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/sparse"
	"github.com/gomlx3d/image3d/weights"
)

// randomWeights returns random float32 weights for a specification, small enough that activations stay small.
func randomWeights(spec weights.Spec) *weights.Set {
	list, rng := make(map[string]weights.Tensor), rand.New(rand.NewPCG(7, 8))
	for _, name := range slices.Sorted(maps.Keys(spec)) {
		shape, size := spec[name].Shape, 1
		for _, d := range shape {
			size *= d
		}
		data := make([]byte, 0, 4*size)
		for range size {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits((rng.Float32()-0.5)/14))
		}
		list[name] = weights.Tensor{DType: dtypes.Float32, Shape: shape, Data: data}
	}
	return weights.NewSet(list)
}

// shell is a hollow sphere of about 8,000 voxels on the grid of 64, with random latents of eight channels.
func shell(tb testing.TB) (*sparse.Coords, []float32) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("full size")
	}
	var voxels []sparse.Voxel
	for cell := range int32(64 * 64 * 64) {
		x, y, z := cell>>12, cell>>6&63, cell&63
		r := math.Sqrt(math.Pow(float64(x)-31.5, 2) + math.Pow(float64(y)-31.5, 2) + math.Pow(float64(z)-31.5, 2))
		if math.Abs(r-19.3) < 0.855 {
			voxels = append(voxels, sparse.Voxel{0, x, y, z})
		}
	}
	coords, err := sparse.New(voxels, 64)
	require.NoError(tb, err)
	latents, rng := make([]float32, 8*len(voxels)), rand.New(rand.NewPCG(5, 6))
	for i := range latents {
		latents[i] = float32(rng.NormFloat64())
	}
	return coords, latents
}

// benchDecoder times a decoder on the shell.
func benchDecoder(b *testing.B, voxels int, decode func() error) {
	b.Helper()
	fixture.Benchmark(b, decode)
	b.ReportMetric(float64(voxels), "voxels")
}

// BenchmarkGaussiansDecoder decodes at the released size, to 32 or to 4 splats a voxel.
func BenchmarkGaussiansDecoder(b *testing.B) {
	coords, latents := shell(b)
	for _, gaussians := range []int{32, 4} {
		b.Run(fmt.Sprint(gaussians), func(b *testing.B) {
			cfg := ReleasedGaussians()
			cfg.Gaussians = gaussians
			d, err := NewGaussians(fixture.Backend(b), cfg, weights.NewSet(fixture.RandomWeights(GaussiansSpec(cfg))))
			require.NoError(b, err)
			defer d.Close()
			benchDecoder(b, len(coords.Voxels), func() error {
				_, err := d.Decode(b.Context(), coords, latents)
				return err
			})
		})
	}
}

// insideWeights are random weights of a mesh decoder that sees every corner of its voxels inside the object. The surface
// is then that of the voxels, which is as large as a trained model's; random numbers make one ten times as large.
func insideWeights(cfg MeshConfig) *weights.Set {
	all := fixture.RandomWeights(MeshSpec(cfg))
	bias := fixture.Fill(0, all["out_layer.bias"].Shape...)
	copy(bias.Data, fixture.Fill(-0.5, 8).Data) // the distances
	all["out_layer.weight"], all["out_layer.bias"] = fixture.Fill(0, all["out_layer.weight"].Shape...), bias
	return weights.NewSet(all)
}

// BenchmarkMeshDecoder decodes at the released size.
func BenchmarkMeshDecoder(b *testing.B) { benchMeshDecoder(b, 0) }

// BenchmarkMeshDecoderInSlabs is BenchmarkMeshDecoder with less memory.
func BenchmarkMeshDecoderInSlabs(b *testing.B) { benchMeshDecoder(b, 16384) }

func benchMeshDecoder(b *testing.B, slab int) {
	b.Helper()
	coords, latents := shell(b)
	cfg := ReleasedMesh()
	d, err := NewMesh(fixture.Backend(b), cfg, insideWeights(cfg))
	require.NoError(b, err)
	defer d.Close()
	d.SlabVoxels = slab
	vertices, faces := 0, 0
	benchDecoder(b, len(coords.Voxels), func() error {
		mesh, err := d.Decode(b.Context(), coords, latents)
		if err == nil {
			vertices, faces = len(mesh.Vertices)/3, len(mesh.Faces)/3
		}
		return err
	})
	b.ReportMetric(float64(vertices), "vertices")
	b.ReportMetric(float64(faces), "faces")
}
