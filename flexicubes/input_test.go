// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flexicubes

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

var badValues = []float32{
	float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), limit, -limit, math.MaxFloat32,
}

func TestBadVoxels(t *testing.T) {
	good := func() Voxels { return randomVoxels(1, 8, [3]int{0, 0, 0}, [3]int{4, 4, 4}, coloredChannels) }
	for name, spoil := range map[string]func(*Voxels){
		"no resolution":       func(v *Voxels) { v.Resolution = 0 },
		"negative resolution": func(v *Voxels) { v.Resolution = -8 },
		"huge resolution":     func(v *Voxels) { v.Resolution = math.MaxInt },
		"resolution + 1":      func(v *Voxels) { v.Resolution = MaxResolution + 1 },
		"too few features":    func(v *Voxels) { v.Features = v.Features[1:] },
		"too many features":   func(v *Voxels) { v.Features = append(v.Features, 0) },
		"no features":         func(v *Voxels) { v.Features = nil },
		"no coordinates":      func(v *Voxels) { v.Coords = nil },
		"x too large":         func(v *Voxels) { v.Coords[3][1] = 8 },
		"y negative":          func(v *Voxels) { v.Coords[3][2] = -1 },
		"z least":             func(v *Voxels) { v.Coords[3][3] = math.MinInt32 },
		"z most":              func(v *Voxels) { v.Coords[3][3] = math.MaxInt32 },
		"two objects":         func(v *Voxels) { v.Coords[3][0]++ },
		"twice":               func(v *Voxels) { v.Coords[9] = v.Coords[3] },
	} {
		v := good()
		spoil(&v)
		m, err := FromVoxels(t.Context(), v)
		require.ErrorIs(t, err, ErrInput, name)
		require.Nil(t, m, name)
	}
	for _, bad := range badValues {
		for _, at := range []int{0, 7, 8, 40, 44, 52, 53, 100, 101*5 + 77} {
			v := good()
			v.Features[at], v.Features[len(v.Features)-1] = bad, bad
			_, err := FromVoxels(t.Context(), v)
			require.ErrorIs(t, err, ErrNotFinite)
			require.NotErrorIs(t, err, ErrInput)
			v.Features[at] = 0
			_, err = FromVoxels(t.Context(), v)
			require.ErrorIs(t, err, ErrNotFinite)
		}
	}
	v := good()
	v.Features[101*5+77] = float32(math.NaN())
	_, err := FromVoxels(t.Context(), v)
	require.EqualError(t, err, "flexicubes: value is not finite: channel 77 of voxel 5 is NaN")
}

func TestBadFields(t *testing.T) {
	for name, spoil := range map[string]func(*Field){
		"no resolution":   func(f *Field) { f.Resolution = 0 },
		"huge resolution": func(f *Field) { f.Resolution = 1 << 40 },
		"no sdf":          func(f *Field) { f.SDF = nil },
		"sdf":             func(f *Field) { f.SDF = f.SDF[1:] },
		"deform":          func(f *Field) { f.Deform = f.Deform[1:] },
		"colors":          func(f *Field) { f.Colors = []float32{} },
		"beta":            func(f *Field) { f.Beta = append(f.Beta, 0) },
		"alpha":           func(f *Field) { f.Alpha = f.Alpha[:8] },
		"gamma":           func(f *Field) { f.Gamma = f.Beta },
		"weight scale":    func(f *Field) { f.WeightScale = 1 },
		"weight scale -":  func(f *Field) { f.WeightScale = -0.5 },
		"weight scale 0":  func(f *Field) { f.WeightScale = math.NaN() },
	} {
		f := randomField(1, 4, 0, 5, true)
		spoil(&f)
		_, err := FromField(t.Context(), f)
		require.ErrorIs(t, err, ErrInput, name)
	}
	for _, bad := range badValues {
		for k := range 6 {
			f := randomField(1, 4, 0, 5, true)
			[][]float32{f.SDF, f.Deform, f.Colors, f.Beta, f.Alpha, f.Gamma}[k][17] = bad
			_, err := FromField(t.Context(), f)
			require.ErrorIs(t, err, ErrNotFinite)
		}
	}
}

func TestFirstBad(t *testing.T) {
	for n := range 40 {
		for at := range n {
			values := make([]float32, n)
			for i := range values {
				values[i] = limit / 2 // so large that only the second look can tell
			}
			require.Equal(t, -1, firstBad(values))
			for _, bad := range badValues {
				values[at] = bad
				require.Equal(t, at, firstBad(values))
			}
		}
	}
}

func TestEmpty(t *testing.T) {
	for name, v := range map[string]Voxels{
		"no voxels": {Resolution: 64},
		"outside":   {Resolution: 3, Coords: [][4]int32{{0, 1, 1, 1}}, Features: slices.Repeat([]float32{1}, 101)},
	} {
		m, err := FromVoxels(t.Context(), v)
		require.NoError(t, err, name)
		require.Empty(t, m.Vertices, name)
		require.Empty(t, m.Faces, name)
		require.Empty(t, m.Colors, name)
	}
}

// TestExtremes checks that what is accepted gives finite meshes: values that saturate, and signed distances so small
// that their products vanish.
func TestExtremes(t *testing.T) {
	tiny := math.Float32frombits(1)
	for _, scale := range []float32{limit / 8, 1e9, 1e-30, tiny} {
		v := randomVoxels(3, 4, [3]int{0, 0, 0}, [3]int{4, 4, 4}, coloredChannels)
		for i := range v.Features {
			if v.Features[i] *= scale; i%101 < 8 && scale < 1 {
				v.Features[i] += 0.25 // takes the bias away
			}
		}
		m, err := FromVoxels(t.Context(), v)
		require.NoError(t, err)
		requireValid(t, m)
	}
	f := Field{Resolution: 2, SDF: make([]float32, 27), Alpha: slices.Repeat([]float32{-9}, 64)}
	f.SDF[13] = -tiny // beside zeros
	m, err := FromField(t.Context(), f)
	require.NoError(t, err)
	require.Len(t, m.Vertices, 3*8)
	requireValid(t, m)
}

// requireValid checks what every mesh promises.
func requireValid(t *testing.T, m *Mesh) {
	t.Helper()
	require.Zero(t, len(m.Vertices)%3)
	require.Zero(t, len(m.Faces)%6)
	for _, v := range m.Vertices {
		require.False(t, !(v >= -1 && v <= 1), "coordinate %g", v)
	}
	for _, i := range m.Faces {
		require.Less(t, int(i), len(m.Vertices)/3)
	}
	require.Equal(t, len(m.Colors), len(m.NormalMap))
	for _, v := range slices.Concat(m.Colors, m.NormalMap) {
		require.False(t, !(v >= 0 && v <= 1.000001), "colour %g", v)
	}
}

func TestHighestResolution(t *testing.T) {
	v := randomVoxels(4, MaxResolution, [3]int{509, 509, 508}, [3]int{512, 512, 512}, plainChannels)
	m, err := FromVoxels(t.Context(), v)
	require.NoError(t, err)
	require.NotEmpty(t, m.Vertices)
	requireValid(t, m)
}

func FuzzFromVoxels(f *testing.F) {
	f.Add(uint8(4), false, []byte("0123456789abcdefghijklmnopqrstuvwxyz"))
	f.Add(uint8(65), true, []byte{0, 0, 0, 1, 64, 64, 64, 255, 3, 3, 3, 7})
	f.Fuzz(func(t *testing.T, res uint8, color bool, data []byte) {
		v := Voxels{Resolution: int(res)}
		channels := plainChannels
		if color {
			channels = coloredChannels
		}
		for ; len(data) >= 4 && len(v.Coords) < 64; data = data[4:] {
			v.Coords = append(v.Coords, [4]int32{0, int32(data[0]), int32(data[1]), int32(data[2])})
			seed := binary.LittleEndian.Uint32(data)
			for range channels {
				seed = seed*1664525 + 1013904223
				v.Features = append(v.Features, float32(int32(seed))/(1<<30))
			}
		}
		m, err := FromVoxels(t.Context(), v)
		if err != nil {
			require.ErrorIs(t, err, ErrInput)
			return
		}
		requireValid(t, m)
	})
}
