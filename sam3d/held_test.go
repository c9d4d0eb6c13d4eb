// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/sam3d"
)

// TestWeightsLoaded makes the same object with weights that come and go as with weights that stay.
func TestWeightsLoaded(t *testing.T) {
	r := request(t)
	r.Outputs = sam3d.Gaussians | sam3d.Gaussians4 | sam3d.Mesh
	want, err := pipeline(t).Generate(t.Context(), r)
	require.NoError(t, err)

	p, err := sam3d.Open(t.Context(), model(t), sam3d.Options{Backend: backendName()})
	require.NoError(t, err)
	defer p.Close()
	for range 2 {
		got, err := p.Generate(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, withoutTimes(want), withoutTimes(got))
	}
	photo, err := p.Prepare(t.Context(), sam3d.Request{Image: r.Image})
	require.NoError(t, err)
	ofPhoto := r
	ofPhoto.Image, ofPhoto.Photo = nil, photo
	got, err := p.Generate(t.Context(), ofPhoto)
	require.NoError(t, err)
	require.Equal(t, want.Gaussians, got.Gaussians)
	require.NoError(t, p.Close())
	_, err = p.Generate(t.Context(), r)
	require.ErrorIs(t, err, sam3d.ErrClosed)
}

// TestRemovedFolder goes on with the files that are open.
func TestRemovedFolder(t *testing.T) {
	skipIfShort(t)
	folder := model(t)
	p, err := sam3d.Open(t.Context(), folder, sam3d.Options{Backend: backendName()})
	require.NoError(t, err)
	defer p.Close()
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	require.NoError(t, err)
	for _, file := range files { // what is open stays readable
		require.NoError(t, os.RemoveAll(file))
	}
	_, err = p.Generate(t.Context(), request(t))
	require.NoError(t, err)
}

// TestSecondObjectCompilesNothing makes two objects of as many voxels.
func TestSecondObjectCompilesNothing(t *testing.T) {
	skipIfShort(t)
	for _, keep := range []bool{false, true} {
		p, r := openOn(t, backendName(), sam3d.Options{KeepWeights: keep}), everything(t)
		_, err := p.Generate(t.Context(), r)
		require.NoError(t, err)
		before := nn.Compilations()
		_, err = p.Generate(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, before, nn.Compilations(), "weights are kept: %v", keep)
	}
}
