// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package pose

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/geom"
)

func randomLatents(rng *rand.Rand) Latents {
	var l Latents
	for i := range l.Rotation {
		l.Rotation[i] = rng.NormFloat64()
	}
	for i := range 3 {
		l.Translation[i], l.Scale[i] = rng.NormFloat64(), 0.3*rng.NormFloat64()
	}
	l.TranslationScale = rng.NormFloat64()
	return l
}

func randomScene(rng *rand.Rand) Scene {
	s := 0.1 + 3*rng.Float64()
	return Scene{
		Scale: [3]float64{s, s, s},
		Shift: [3]float64{rng.NormFloat64(), rng.NormFloat64(), 1 + rng.Float64()},
	}
}

// The pose is the object's placement in the scene followed by the scene's own transform.
func TestDecodeComposes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		l, scene := randomLatents(rng), randomScene(rng)
		inside, err := Decode(l, NoScene())
		require.NoError(t, err)
		outside, err := Decode(l, scene)
		require.NoError(t, err)
		toCamera := geom.Transform{Rotation: geom.IdentityQuat(), Translation: scene.Shift, Scale: scene.Scale[0]}
		point := [3]float64{rng.Float64() - 0.5, rng.Float64() - 0.5, rng.Float64() - 0.5}
		want, got := toCamera.Apply(inside.Apply(point)), outside.Apply(point)
		require.InDeltaSlice(t, want[:], got[:], 1e-9)
		require.InDelta(t, 1, geom.QuatFromWXYZ(outside.Rotation).Norm(), 1e-9)
		require.GreaterOrEqual(t, outside.Rotation[0], 0.0)
		require.Equal(t, 2*outside.Scale, outside.Downsampled(2).Scale)
	}
}

// The translation's own scale does not matter to the released convention.
func TestDecodeIgnoresTranslationScale(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	l := randomLatents(rng)
	want, err := Decode(l, NoScene())
	require.NoError(t, err)
	l.TranslationScale += 3
	got, err := Decode(l, NoScene())
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// C39: an object has one scale, the mean of its axes', and scales that differ in the last bit, or more, are no fault.
func TestC39ScalesOfTheAxes(t *testing.T) {
	rng := rand.New(rand.NewPCG(39, 1))
	l, scene := randomLatents(rng), randomScene(rng)
	for _, difference := range []float64{0, 1.2e-7, 0.3} {
		l.Scale = [3]float64{0.5, 0.5 + difference, 0.5 - 2*difference}
		pose, err := Decode(l, scene)
		require.NoError(t, err)
		want := (math.Exp(l.Scale[0]) + math.Exp(l.Scale[1]) + math.Exp(l.Scale[2])) / 3
		require.InEpsilon(t, want*scene.Scale[0], pose.Scale, 1e-9)
	}
}

func TestDecodeDegenerateRotation(t *testing.T) {
	var l Latents // decodes to the means, a rotation like any other
	_, err := Decode(l, NoScene())
	require.NoError(t, err)
	for i := range l.Rotation { // both vectors zero
		l.Rotation[i] = -rotationMean[i] / rotationStd[i]
	}
	p, err := Decode(l, NoScene())
	require.NoError(t, err)
	require.InDelta(t, 1, p.Scale, 1e-12)
}

func TestDecodeNotFinite(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	nan, inf := math.NaN(), math.Inf(1)
	for name, spoil := range map[string]func(*Latents, *Scene){
		"rotation NaN":    func(l *Latents, _ *Scene) { l.Rotation[4] = nan },
		"translation inf": func(l *Latents, _ *Scene) { l.Translation[1] = inf },
		"scale overflows": func(l *Latents, _ *Scene) { l.Scale[2] = 1e6 },
		"scale NaN":       func(l *Latents, _ *Scene) { l.Scale[0] = nan },
		"scene scale 0":   func(_ *Latents, s *Scene) { s.Scale = [3]float64{} },
		"scene scale NaN": func(_ *Latents, s *Scene) { s.Scale[0] = nan },
		"scene shift inf": func(_ *Latents, s *Scene) { s.Shift[2] = -inf },
	} {
		l, scene := randomLatents(rng), randomScene(rng)
		spoil(&l, &scene)
		_, err := Decode(l, scene)
		require.ErrorIs(t, err, ErrNotFinite, name)
	}
}

func TestUnknownConvention(t *testing.T) {
	_, err := Convention("default").Decode(Latents{}, NoScene())
	require.ErrorIs(t, err, ErrConvention)
}

func TestNewLatents(t *testing.T) {
	r6, v3, v1 := make([]float32, 6), make([]float32, 3), make([]float32, 1)
	_, err := NewLatents(r6, v3, v3, v1)
	require.NoError(t, err)
	for _, wrong := range [][4][]float32{
		{v3, v3, v3, v1}, {r6, r6, v3, v1}, {r6, v3, nil, v1}, {r6, v3, v3, nil}, {make([]float32, 12), v3, v3, v1},
	} {
		_, err := NewLatents(wrong[0], wrong[1], wrong[2], wrong[3])
		require.ErrorIs(t, err, ErrLatents)
	}
}

func ExamplePose_Apply() {
	// An object two metres away, half a metre large, turned by a quarter about the vertical axis of the camera.
	p := Pose{
		Rotation:    [4]float64{math.Sqrt(0.5), 0, math.Sqrt(0.5), 0},
		Translation: [3]float64{0, 0, 2},
		Scale:       0.5,
	}
	fmt.Printf("%.3f\n", p.Apply([3]float64{0.5, 0, 0}))
	// Output: [0.000 0.000 2.250]
}

func BenchmarkDecode(b *testing.B) {
	l, scene := randomLatents(rand.New(rand.NewPCG(4, 4))), NoScene()
	for b.Loop() {
		if _, err := Decode(l, scene); err != nil {
			b.Fatal(err)
		}
	}
}
