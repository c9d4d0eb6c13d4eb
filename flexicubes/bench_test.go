// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flexicubes

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// shell returns the voxels that a decoder would make for a bumpy ball: the latent cells of a 64^3 grid within
// thickness of its surface, each subdivided twice, children after their parent in octree order, with a noisy signed
// distance and normally distributed other features.
func shell(radius, thickness float64, channels int) Voxels {
	rng := rand.New(rand.NewPCG(1, 2))
	const latent, res = 64, 256
	distance := func(x, y, z float64) float64 { // in latent cells
		x, y, z = x-latent/2, y-latent/2, z-latent/2
		bump := 0.04 * radius * math.Sin(x/4) * math.Sin(y/5) * math.Sin(z/3)
		return math.Sqrt(x*x+y*y+z*z) - radius + bump
	}
	var cells []int
	for cell := range latent * latent * latent {
		x, y, z := cell/latent/latent, cell/latent%latent, cell%latent
		if math.Abs(distance(float64(x)+.5, float64(y)+.5, float64(z)+.5)) <= thickness {
			cells = append(cells, cell)
		}
	}
	n := 64 * len(cells)
	v := Voxels{Resolution: res, Coords: make([][4]int32, 0, n), Features: make([]float32, 0, channels*n)}
	for _, cell := range cells {
		x, y, z := cell/latent/latent, cell/latent%latent, cell%latent
		for child := range 64 {
			fx, fy, fz := 4*x+child>>5&1*2+child>>2&1, 4*y+child>>4&1*2+child>>1&1, 4*z+child>>3&1*2+child&1
			v.Coords = append(v.Coords, [4]int32{0, int32(fx), int32(fy), int32(fz)})
			for c := range 8 {
				d := distance(float64(fx+c&1)/4, float64(fy+c>>1&1)/4, float64(fz+c>>2)/4)
				v.Features = append(v.Features, float32(d/8+0.01*rng.NormFloat64()))
			}
			for range channels - 8 {
				v.Features = append(v.Features, float32(rng.NormFloat64()))
			}
		}
	}
	return v
}

// BenchmarkFromVoxels meshes shells of about 8,000 and 20,000 latent voxels, 64 cubes each.
func BenchmarkFromVoxels(b *testing.B) {
	for _, size := range []struct{ radius, thickness float64 }{{20, 0.8}, {27, 1.1}} {
		v := shell(size.radius, size.thickness, coloredChannels)
		b.Run(fmt.Sprintf("latents=%d", len(v.Coords)/64), func(b *testing.B) {
			b.ReportAllocs()
			var m *Mesh
			for b.Loop() {
				var err error
				if m, err = FromVoxels(b.Context(), v); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(m.Vertices)/3), "vertices")
			b.ReportMetric(float64(len(m.Faces)/3), "faces")
		})
	}
}

// BenchmarkFromField meshes a ball on a full grid.
func BenchmarkFromField(b *testing.B) {
	f := Field{Resolution: 256, SDF: ballField(256, 0.4)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := FromField(b.Context(), f); err != nil {
			b.Fatal(err)
		}
	}
}

// ballField samples the distance to a ball around the centre of the grid.
func ballField(res int, radius float64) []float32 {
	var out []float32
	for x := range res + 1 {
		for y := range res + 1 {
			for z := range res + 1 {
				px, py, pz := float64(x)/float64(res)-.5, float64(y)/float64(res)-.5, float64(z)/float64(res)-.5
				out = append(out, float32(math.Sqrt(px*px+py*py+pz*pz)-radius))
			}
		}
	}
	return out
}
