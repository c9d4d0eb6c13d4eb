// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flexicubes

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// randomField returns a field that is noise for from <= z < to and outside elsewhere, with all parameters if rich.
func randomField(seed uint64, res, from, to int, rich bool) Field {
	rng := rand.New(rand.NewPCG(seed, 7))
	normal := func(n int, scale float64) []float32 {
		out := make([]float32, n)
		for i := range out {
			out[i] = float32(scale * rng.NormFloat64())
		}
		return out
	}
	vertices, cubes := (res+1)*(res+1)*(res+1), res*res*res
	f := Field{Resolution: res, SDF: normal(vertices, 1)}
	for i, v := range f.SDF {
		if z := i % (res + 1); z < from || z >= to {
			f.SDF[i] = 1
		} else if v > 1 {
			f.SDF[i] = 0 // outside, and wound the other way
		}
	}
	if rich {
		f.Deform, f.Colors = normal(3*vertices, 1), normal(6*vertices, 2)
		f.Beta, f.Alpha, f.Gamma = normal(12*cubes, 1), normal(8*cubes, 1), normal(cubes, 1)
	}
	return f
}

// TestAgainstNaive compares with the step-by-step extraction, on grids whose rows end before, at and after the end of a
// word of 64 signs.
func TestAgainstNaive(t *testing.T) {
	for i, test := range []struct {
		res, from, to int
		rich          bool
	}{
		{1, 0, 2, true}, {2, 0, 3, true}, {3, 1, 3, false}, {9, 0, 10, true}, {16, 0, 17, false},
		{62, 60, 63, true}, {63, 61, 64, true}, {64, 61, 65, true}, {65, 61, 66, true}, {66, 62, 66, false},
	} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			f := randomField(uint64(i), test.res, test.from, test.to, test.rich)
			m, err := FromField(t.Context(), f)
			require.NoError(t, err)
			vertices, attributes, faces := (&naive{Field: f}).extract()
			require.True(t, slices.Equal(faces, m.Faces), "faces")
			requireClose(t, vertices, m.Vertices, 3)
			if test.rich {
				for k := range 3 {
					requireClose(t, every(attributes, 6, k), every(m.Colors, 3, k), 1)
					requireClose(t, every(attributes, 6, 3+k), every(m.NormalMap, 3, k), 1)
				}
			} else {
				require.Nil(t, m.Colors)
				require.Nil(t, m.NormalMap)
			}
		})
	}
}

func requireClose(t *testing.T, want []float64, got []float32, width int) {
	t.Helper()
	require.Len(t, got, len(want))
	for i, w := range want {
		require.InDelta(t, w, float64(got[i]), 5e-6, "row %d", i/width)
	}
}

// every returns values k, k+n, k+2n, ...
func every[T any](values []T, n, k int) (out []T) {
	for i := k; i < len(values); i += n {
		out = append(out, values[i])
	}
	return out
}

// randomVoxels returns noisy voxels with a share of the cubes of a box.
func randomVoxels(seed uint64, res int, lo, hi [3]int, channels int) Voxels {
	rng := rand.New(rand.NewPCG(seed, 3))
	v := Voxels{Resolution: res}
	for x := lo[0]; x < hi[0]; x++ {
		for y := lo[1]; y < hi[1]; y++ {
			for z := lo[2]; z < hi[2]; z++ {
				if rng.Float64() < 0.6 {
					v.Coords = append(v.Coords, [4]int32{2, int32(x), int32(y), int32(z)})
				}
			}
		}
	}
	for range len(v.Coords) * channels {
		v.Features = append(v.Features, float32(rng.NormFloat64()))
	}
	return v
}

// dense spreads voxels over full arrays.
func dense(v Voxels) Field {
	res := v.Resolution
	vertices, cubes := (res+1)*(res+1)*(res+1), res*res*res
	f := Field{
		Resolution: res, SDF: make([]float32, vertices), Deform: make([]float32, 3*vertices),
		Colors: make([]float32, 6*vertices),
		Beta:   make([]float32, 12*cubes), Alpha: make([]float32, 8*cubes), Gamma: make([]float32, cubes),
	}
	counts := make([]float32, vertices)
	order := make([]int, len(v.Coords))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return slices.Compare(v.Coords[a][:], v.Coords[b][:]) })
	for _, i := range order {
		x, y, z := int(v.Coords[i][1]), int(v.Coords[i][2]), int(v.Coords[i][3])
		row := v.Features[101*i:][:101]
		cube := (x*res+y)*res + z
		copy(f.Beta[12*cube:][:12], row[32:])
		copy(f.Alpha[8*cube:][:8], row[44:])
		f.Gamma[cube] = row[52]
		for c := range 8 {
			at := f.vertex(x+c&1, y+c>>1&1, z+c>>2)
			counts[at]++
			f.SDF[at] += row[c] + float32(-1/float64(res))
			for k := range 3 {
				f.Deform[3*at+k] += row[8+3*c+k]
			}
			for k := range 6 {
				f.Colors[6*at+k] += row[53+6*c+k]
			}
		}
	}
	for at, n := range counts {
		if n == 0 {
			f.SDF[at] = 1
			continue
		}
		f.SDF[at] /= n
		for k := range 3 {
			f.Deform[3*at+k] /= n
		}
		for k := range 6 {
			f.Colors[6*at+k] /= n
		}
	}
	return f
}

func TestVoxelsEqualField(t *testing.T) {
	for seed, box := range [][2][3]int{
		{{0, 0, 0}, {8, 8, 8}}, {{5, 20, 60}, {12, 30, 66}}, {{60, 62, 0}, {66, 66, 66}}, {{3, 3, 62}, {4, 4, 65}},
	} {
		v := randomVoxels(uint64(seed), 66, box[0], box[1], coloredChannels)
		got, err := FromVoxels(t.Context(), v)
		require.NoError(t, err)
		want, err := FromField(t.Context(), dense(v))
		require.NoError(t, err)
		requireSame(t, want, got)
		require.NotEmpty(t, got.Faces)

		// Without colours the geometry is the same.
		plain := Voxels{Resolution: v.Resolution, Coords: v.Coords}
		for i := range v.Coords {
			plain.Features = append(plain.Features, v.Features[coloredChannels*i:][:plainChannels]...)
		}
		got, err = FromVoxels(t.Context(), plain)
		require.NoError(t, err)
		want.Colors, want.NormalMap = nil, nil
		requireSame(t, want, got)
	}
}

// requireSame demands equality to the last bit.
func requireSame(t *testing.T, want, got *Mesh) {
	t.Helper()
	require.True(t, slices.Equal(want.Vertices, got.Vertices), "vertices")
	require.True(t, slices.Equal(want.Faces, got.Faces), "faces")
	require.True(t, slices.Equal(want.Colors, got.Colors), "colours")
	require.True(t, slices.Equal(want.NormalMap, got.NormalMap), "normal map")
	require.Equal(t, want.Colors == nil, got.Colors == nil)
}

func TestSameForAnyNumberOfProcessorsAndOrder(t *testing.T) {
	v := randomVoxels(5, 70, [3]int{2, 2, 2}, [3]int{30, 40, 69}, coloredChannels)
	want, err := FromVoxels(t.Context(), v)
	require.NoError(t, err)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, n := range []int{1, 2, 3, 16} {
		runtime.GOMAXPROCS(n)
		got, err := FromVoxels(t.Context(), v)
		require.NoError(t, err)
		requireSame(t, want, got)
	}
	shuffled := Voxels{Resolution: v.Resolution}
	for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(len(v.Coords)) {
		shuffled.Coords = append(shuffled.Coords, v.Coords[i])
		shuffled.Features = append(shuffled.Features, v.Features[101*i:][:101]...)
	}
	got, err := FromVoxels(t.Context(), shuffled)
	require.NoError(t, err)
	requireSame(t, want, got)
}

func TestTranslation(t *testing.T) {
	v := randomVoxels(6, 128, [3]int{1, 1, 1}, [3]int{14, 12, 15}, coloredChannels)
	want, err := FromVoxels(t.Context(), v)
	require.NoError(t, err)
	for _, by := range [][3]int32{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {40, 90, 57}, {112, 114, 111}} {
		moved := v
		moved.Coords = slices.Clone(v.Coords)
		for i := range moved.Coords {
			for k := range 3 {
				moved.Coords[i][1+k] += by[k]
			}
		}
		got, err := FromVoxels(t.Context(), moved)
		require.NoError(t, err)
		require.True(t, slices.Equal(want.Faces, got.Faces))
		require.True(t, slices.Equal(want.Colors, got.Colors))
		for i, p := range want.Vertices {
			require.InDelta(t, float64(p)+float64(by[i%3])/128, float64(got.Vertices[i]), 1e-6)
		}
	}
}

// closed counts the directed edges that have no opposite, and those used more than once.
func closed(m *Mesh) (open, repeated int) {
	edges := map[[2]uint32]int{}
	for i := 0; i < len(m.Faces); i += 3 {
		for k := range 3 {
			edges[[2]uint32{m.Faces[i+k], m.Faces[i+(k+1)%3]}]++
		}
	}
	for e, n := range edges {
		if edges[[2]uint32{e[1], e[0]}] != n {
			open++
		}
		if n > 1 {
			repeated++
		}
	}
	return open, repeated
}

// volume is the signed volume of a closed mesh.
func volume(m *Mesh) (sum float64) {
	at := func(i uint32) (x, y, z float64) {
		return float64(m.Vertices[3*i]), float64(m.Vertices[3*i+1]), float64(m.Vertices[3*i+2])
	}
	for i := 0; i < len(m.Faces); i += 3 {
		ax, ay, az := at(m.Faces[i])
		bx, by, bz := at(m.Faces[i+1])
		cx, cy, cz := at(m.Faces[i+2])
		sum += (ax*(by*cz-bz*cy) + ay*(bz*cx-bx*cz) + az*(bx*cy-by*cx)) / 6
	}
	return sum
}

func TestClosedSurfaces(t *testing.T) {
	const res = 48
	solid := func(f func(x, y, z float64) float64) []float32 {
		var out []float32
		for v := range (res + 1) * (res + 1) * (res + 1) {
			x, y, z := v/(res+1)/(res+1), v/(res+1)%(res+1), v%(res+1)
			out = append(out, float32(f(float64(x)/res-.5, float64(y)/res-.5, float64(z)/res-.5)))
		}
		return out
	}
	for name, test := range map[string]struct {
		sdf    []float32
		euler  int
		volume float64
	}{
		"ball": {solid(func(x, y, z float64) float64 {
			return math.Sqrt(x*x+y*y+z*z) - 0.4
		}), 2, 4. / 3 * math.Pi * 0.064},
		"torus": {solid(func(x, y, z float64) float64 {
			return math.Hypot(math.Hypot(x, y)-0.3, z) - 0.1
		}), 0, 2 * math.Pi * math.Pi * 0.3 * 0.01},
		"shell": {solid(func(x, y, z float64) float64 {
			return math.Abs(math.Sqrt(x*x+y*y+z*z)-0.3) - 0.06
		}), 4, 4. / 3 * math.Pi * (0.046656 - 0.013824)},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := FromField(t.Context(), Field{Resolution: res, SDF: test.sdf})
			require.NoError(t, err)
			open, repeated := closed(m)
			require.Zero(t, open)
			require.Zero(t, repeated)
			faces := len(m.Faces) / 3
			require.Equal(t, test.euler, len(m.Vertices)/3-faces*3/2+faces)
			require.InEpsilon(t, test.volume, volume(m), 0.02)
		})
	}
}

// TestNoiseIsClosed checks the inversion of C16 and C19, without which noise leaves edges with four faces.
func TestNoiseIsClosed(t *testing.T) {
	for seed := range uint64(5) {
		v := randomVoxels(seed, 24, [3]int{1, 1, 1}, [3]int{23, 23, 23}, plainChannels)
		m, err := FromVoxels(t.Context(), v)
		require.NoError(t, err)
		open, repeated := closed(m)
		require.Zero(t, open)
		require.Zero(t, repeated)
		used := make([]bool, len(m.Vertices)/3)
		for _, i := range m.Faces {
			used[i] = true
		}
		require.NotContains(t, used, false)
	}
}

// countdown is a context that is canceled when it has been asked a number of times.
type countdown struct {
	context.Context
	left chan struct{}
}

func (c countdown) Err() error {
	select {
	case <-c.left:
		return nil
	default:
		return context.Canceled
	}
}

func TestCancel(t *testing.T) {
	v := randomVoxels(8, 40, [3]int{1, 1, 1}, [3]int{20, 20, 20}, coloredChannels)
	f := randomField(8, 12, 0, 13, true)
	for n := 0; ; n++ {
		ctx := countdown{t.Context(), make(chan struct{}, n)}
		for range n {
			ctx.left <- struct{}{}
		}
		m, err := FromVoxels(ctx, v)
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
			require.Nil(t, m)
		}
		for len(ctx.left) < n { // all that was taken comes back
			ctx.left <- struct{}{}
		}
		m, err2 := FromField(ctx, f)
		if err2 != nil {
			require.ErrorIs(t, err2, context.Canceled)
			require.Nil(t, m)
		}
		if err == nil && err2 == nil {
			return
		}
	}
}
