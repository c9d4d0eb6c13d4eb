// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/dtypes/float16"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/sam3d/flow"
	"github.com/gomlx3d/image3d/sparse"
	"github.com/gomlx3d/image3d/weights"
)

// measures are the rows of the table.
var measures = []struct {
	name string
	gate float64 // 0: none
	of   func(want, got *outcome) float64
}{
	{"points of the depth model, RMS relative to RMS", featureGate, func(want, got *outcome) float64 {
		return relative(want.view.points.Points, got.view.points.Points)
	}},
	{"condition tokens of the structure, RMS relative to RMS", featureGate, func(want, got *outcome) float64 {
		return relative(flat(want.structureTokens), flat(got.structureTokens))
	}},
	{"condition tokens of the latents, RMS relative to RMS", featureGate, func(want, got *outcome) float64 {
		return relative(flat(want.latentTokens), flat(got.latentTokens))
	}},
	{"structure latent, RMS relative to RMS", featureGate, func(want, got *outcome) float64 {
		return relative(want.state[flow.ShapeLatent], got.state[flow.ShapeLatent])
	}},
	{"voxels in one set but not in both, of the voxels", 0, func(want, got *outcome) float64 {
		return apart(want.coords.Voxels, got.coords.Voxels)
	}},
	{"rotation, radians", 0, func(want, got *outcome) float64 {
		dot := 0.0
		for i, x := range want.pose.Rotation {
			dot += x * got.pose.Rotation[i]
		}
		return 2 * math.Acos(min(1, math.Abs(dot)))
	}},
	{"translation, relative to its length", 0, func(want, got *outcome) float64 {
		a, b := want.pose.Translation, got.pose.Translation
		return math.Sqrt(square(a, b) / square(a, [3]float64{}))
	}},
	{"scale, relative", 0, func(want, got *outcome) float64 { return math.Abs(got.pose.Scale/want.pose.Scale - 1) }},
	{"voxel features, RMS relative to RMS", featureGate, func(want, got *outcome) float64 { return relative(want.latents, got.latents) }},
	{"centres of splats, 99th percentile relative to the diagonal", surfaceGate, func(want, got *outcome) float64 {
		var distances []float64
		for i := range want.gaussians.Len() {
			distances = append(distances, math.Sqrt(square(at(want.gaussians.Means, i), at(got.gaussians.Means, i))))
		}
		return percentile(distances) / diagonal(want.gaussians.Means)
	}},
	{"surface, 99th percentile relative to the diagonal", surfaceGate, func(want, got *outcome) float64 {
		distances := append(toNearest(want.mesh.Vertices, got.mesh.Vertices), toNearest(got.mesh.Vertices, want.mesh.Vertices)...)
		return percentile(distances) / diagonal(want.mesh.Vertices)
	}},
}

func flat(x *tensors.Tensor) []float32 { return tensors.MustCopyFlatData[float32](x) }

// relative is the root mean square of the difference relative to that of want, of what is finite in both.
func relative(want, got []float32) float64 {
	difference, size := 0.0, 0.0
	for i, x := range want {
		if x-x == 0 && got[i]-got[i] == 0 {
			difference += float64(got[i]-x) * float64(got[i]-x)
			size += float64(x) * float64(x)
		}
	}
	return math.Sqrt(difference / size)
}

// apart is how many voxels are in one list alone, relative to the length of the first.
func apart(a, b []sparse.Voxel) float64 {
	in := make(map[sparse.Voxel]int)
	for _, v := range a {
		in[v]++
	}
	for _, v := range b {
		in[v]--
	}
	n := 0
	for _, count := range in {
		n += count * count
	}
	return float64(n) / float64(len(a))
}

func at(flat []float32, i int) [3]float64 {
	return [3]float64{float64(flat[3*i]), float64(flat[3*i+1]), float64(flat[3*i+2])}
}

// square is the square of a distance.
func square(a, b [3]float64) float64 {
	return (a[0]-b[0])*(a[0]-b[0]) + (a[1]-b[1])*(a[1]-b[1]) + (a[2]-b[2])*(a[2]-b[2])
}

func diagonal(points []float32) float64 {
	lo, hi := at(points, 0), at(points, 0)
	for i := range len(points) / 3 {
		for axis, x := range at(points, i) {
			lo[axis], hi[axis] = min(lo[axis], x), max(hi[axis], x)
		}
	}
	return math.Sqrt(square(lo, hi))
}

func percentile(distances []float64) float64 {
	slices.Sort(distances)
	return distances[len(distances)*99/100]
}

// toNearest is how far the vertices of a surface are from the nearest of another. Where surfaces are as fine as these,
// that is a bound of the distance between them.
func toNearest(from, to []float32) []float64 {
	const cell = 1.0 / 64
	type place [3]int
	cellOf := func(p [3]float64) (c place) {
		for axis, x := range p {
			c[axis] = int(math.Floor(x / cell))
		}
		return c
	}
	cells := make(map[place][]int)
	for i := range len(to) / 3 {
		c := cellOf(at(to, i))
		cells[c] = append(cells[c], i)
	}
	distances := make([]float64, len(from)/3)
	for i := range distances {
		p, best := at(from, i), math.Inf(1)
		c := cellOf(p)
		// What is nearer than the shells looked at is within them; beyond 8 cells a distance is that long.
		for shell := 0; shell <= 8 && best > float64(max(shell-1, 0))*cell*float64(max(shell-1, 0))*cell; shell++ {
			forShell(shell, func(dx, dy, dz int) {
				for _, j := range cells[place{c[0] + dx, c[1] + dy, c[2] + dz}] {
					best = min(best, square(p, at(to, j)))
				}
			})
		}
		distances[i] = min(math.Sqrt(best), 8*cell)
	}
	return distances
}

// forShell calls f with the offsets whose longest axis is n.
func forShell(n int, f func(dx, dy, dz int)) {
	for dx := -n; dx <= n; dx++ {
		for dy := -n; dy <= n; dy++ {
			for dz := -n; dz <= n; dz++ {
				if max(dx, -dx, dy, -dy, dz, -dz) == n {
					f(dx, dy, dz)
				}
			}
		}
	}
}

// rounded returns the tensors of a specification in a precision, the nearest to what widened returns.
func rounded(t *testing.T, set *weights.Set, spec weights.Spec, dtype dtypes.DType) *weights.Set {
	t.Helper()
	all := make(map[string]weights.Tensor)
	for name := range spec {
		w, ok := set.Get(name)
		if !ok {
			continue // optional
		}
		values := widened(t, w)
		data := make([]byte, 0, len(values)*dtype.Size())
		for _, x := range values {
			switch dtype {
			case dtypes.Float32:
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
			case dtypes.BFloat16:
				data = binary.LittleEndian.AppendUint16(data, uint16(bfloat16.FromFloat32(x)))
			case dtypes.Float16:
				data = binary.LittleEndian.AppendUint16(data, uint16(float16.FromFloat32(x)))
			}
		}
		all[name] = weights.Tensor{DType: dtype, Shape: w.Shape, Data: data}
	}
	return weights.NewSet(all)
}

// widened returns the values of a tensor. Those that half precision can hold get random lower bits.
func widened(t *testing.T, w weights.Tensor) []float32 {
	t.Helper()
	random := rand.New(rand.NewPCG(uint64(len(w.Data)), 9))
	values := make([]float32, len(w.Data)/w.DType.Size())
	for i := range values {
		bits, free := uint32(0), uint32(0xffff) // those that bfloat16 drops
		switch w.DType {
		case dtypes.Float32:
			bits = binary.LittleEndian.Uint32(w.Data[4*i:])
		case dtypes.BFloat16:
			bits = uint32(binary.LittleEndian.Uint16(w.Data[2*i:])) << 16
		case dtypes.Float16:
			bits, free = math.Float32bits(float16.Float16(binary.LittleEndian.Uint16(w.Data[2*i:])).Float32()), 0x1fff
		default:
			require.Fail(t, "precision", "a tensor of %s", w.DType)
		}
		if bits&free == 0 && bits<<1 != 0 { // zeros stay
			bits |= random.Uint32() & free
		}
		values[i] = math.Float32frombits(bits)
	}
	return values
}
