// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package condition

import (
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFeatures gives every object of a picture the tokens it has alone, bit for bit, also at once.
func TestFeatures(t *testing.T) {
	ss, slat := released(1)
	e := newReleased(t, ss, slat)
	v := smallViews(8)
	features, err := e.Features(t.Context(), v.Size, v.RGBImage)
	require.NoError(t, err)
	var group sync.WaitGroup
	for object := range 4 {
		views := smallViews(8)
		for i := range views.Mask {
			views.Mask[i] = float32((i+object)%3) / 2
		}
		wantStructure, wantLatent := encode(t, e, views)
		views.RGBImage, views.Features = nil, features
		group.Go(func() {
			structure, latent := encode(t, e, views)
			if !sameBits(wantStructure, structure) || !sameBits(wantLatent, latent) {
				t.Errorf("object %d has other tokens", object)
			}
		})
	}
	group.Wait()
}

func sameBits(a, b []float32) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return false
		}
	}
	return true
}

func TestFeaturesRefuses(t *testing.T) {
	ss, slat := released(1)
	e := newReleased(t, ss, slat)
	v := smallViews(8)
	features, err := e.Features(t.Context(), v.Size, v.RGBImage)
	require.NoError(t, err)
	for name, rgb := range map[string][]float32{"nothing": nil, "short": v.RGBImage[1:], "NaN": append(v.RGBImage[1:], float32(math.NaN()))} {
		_, err := e.Features(t.Context(), v.Size, rgb)
		require.ErrorIs(t, err, ErrInput, name)
	}
	_, err = e.Features(t.Context(), 0, v.RGBImage)
	require.ErrorIs(t, err, ErrInput)

	v.Features = features
	_, _, err = e.Encode(t.Context(), v)
	require.ErrorIs(t, err, ErrInput, "both are given")
	v.RGBImage = nil
	_, _, err = newReleased(t, ss, slat).Encode(t.Context(), v)
	require.ErrorIs(t, err, ErrInput, "another encoder")
	v.RGBMask = nil
	_, _, err = e.Encode(t.Context(), v)
	require.ErrorIs(t, err, ErrInput, "the mask is not known")
}

func TestFeaturesCancel(t *testing.T) {
	ss, slat := released(1)
	e := newReleased(t, ss, slat)
	v := smallViews(8)
	for looks := range 100 {
		_, err := e.Features(&countdown{t.Context(), looks}, v.Size, v.RGBImage)
		if err == nil {
			require.NotZero(t, looks)
			return
		}
	}
	t.Fatal("it never ends")
}
