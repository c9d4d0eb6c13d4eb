// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package splat

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// C39: a scene that cannot be brought to a viewer's box, because all its splats are faint, is an error and stays as it is;
// its assembly is none.
func TestC39FaintScene(t *testing.T) {
	g, pose := random(t, 50, 1), randomPose(rand.New(rand.NewPCG(2, 2)))
	for i := range g.OpacityLogits {
		g.OpacityLogits[i] = -1
	}
	scene, err := MakeScene([]Object{{g, pose}, {g, pose}})
	require.NoError(t, err)
	before := scene.Clone()
	require.ErrorIs(t, scene.Normalize(), ErrNoExtent)
	require.Equal(t, before, scene)
	_, err = MakeScene(nil)
	require.ErrorIs(t, err, ErrInvalid)
}

// An object placed by itself is where the scene has it.
func TestPlaceInScene(t *testing.T) {
	objects := []Object{{random(t, 40, 1), randomPose(rand.New(rand.NewPCG(2, 2)))}, {random(t, 30, 2), NewPose([4]float64{0, 0, 1}, [3]float64{1, 2, 3}, 0.1)}}
	objects[0].Gaussians.Kernel, objects[1].Gaussians.Kernel = 0.003, 0.001
	scene, err := MakeScene(objects)
	require.NoError(t, err)
	start := 0
	for _, o := range objects {
		g := o.Gaussians.Clone()
		require.NoError(t, g.PlaceInScene(o.Pose, scene.Kernel))
		require.Equal(t, scene.window(start, start+g.Len()), g)
		start += g.Len()
		for _, kernel := range []float64{-1, math.NaN(), 1} {
			before := o.Gaussians.Clone()
			require.ErrorIs(t, before.PlaceInScene(o.Pose, kernel), ErrInvalid)
			require.Equal(t, o.Gaussians, before)
		}
		require.ErrorIs(t, g.PlaceInScene(Pose{}, 0), ErrPose)
	}
}
