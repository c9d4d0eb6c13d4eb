// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import (
	"image"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/moge"
	"github.com/gomlx3d/image3d/sam3d/decoder"
	"github.com/gomlx3d/image3d/testdata"
)

// openLimited opens the embedded model.
func openLimited(t *testing.T, options Options) (*Pipeline, error) {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, testdata.WriteModel(folder))
	p, err := Open(t.Context(), folder, options)
	if err == nil {
		t.Cleanup(func() { require.NoError(t, p.Close()) })
	}
	return p, err
}

// TestMemoryLimit opens with less and less: with all weights, streamed, not at all. Whatever fits gives the same object.
func TestMemoryLimit(t *testing.T) {
	_, err := openLimited(t, Options{MemoryLimit: 1})
	require.ErrorIs(t, err, ErrMemory)
	var least *MemoryError
	require.ErrorAs(t, err, &least)
	require.EqualValues(t, 1, least.Limit)
	require.Greater(t, least.Needed, int64(goProcess))
	require.Contains(t, err.Error(), string(least.Stage))
	_, err = openLimited(t, Options{MemoryLimit: -1})
	require.ErrorIs(t, err, ErrMemory)
	_, err = openLimited(t, Options{MemoryLimit: least.Needed - 1})
	require.ErrorIs(t, err, ErrMemory)

	picture, mask := greyPicture()
	request := Request{Image: picture, Mask: mask, Steps: 1, LatentSteps: 1, NoDepth: true}
	var want *Result
	for _, test := range []struct {
		options Options
		stream  bool
	}{
		{Options{KeepWeights: true}, false},
		{Options{MemoryLimit: 1 << 40, KeepWeights: true}, false},
		{Options{MemoryLimit: least.Needed, KeepWeights: true}, true},
		{Options{MemoryLimit: 1 << 40, ScoreBytes: 1}, true},
	} {
		p, err := openLimited(t, test.options)
		require.NoError(t, err)
		require.Equal(t, test.stream, p.stream)
		got, err := p.Generate(t.Context(), request)
		require.NoError(t, err)
		if want == nil {
			want = got
		}
		require.Equal(t, want.Voxels, got.Voxels)
		require.Equal(t, want.Mesh.Faces, got.Mesh.Faces)
		require.InDeltaSlice(t, want.Mesh.Vertices, got.Mesh.Vertices, 1e-4)
		require.InDeltaSlice(t, want.Gaussians.Means, got.Gaussians.Means, 1e-4)
	}
}

// TestLargePictureUnderLimit is refused before any work.
func TestLargePictureUnderLimit(t *testing.T) {
	_, err := openLimited(t, Options{MemoryLimit: 1})
	var least *MemoryError
	require.ErrorAs(t, err, &least)
	p, err := openLimited(t, Options{MemoryLimit: least.Needed})
	require.NoError(t, err)
	if p.depth == nil {
		t.Skip("the embedded model has no depth model")
	}
	large := image.NewGray(image.Rect(0, 0, 6000, 6000))
	mask := image.NewGray(large.Rect)
	for i := range mask.Pix[:len(mask.Pix)/2] {
		mask.Pix[i] = 255
	}
	p.limit = p.demand.stage(StageDepth, true, 0, 0) + 1
	_, err = p.Generate(t.Context(), Request{Image: large, Mask: mask})
	require.ErrorIs(t, err, ErrMemory)
	_, err = p.Prepare(t.Context(), Request{Image: large})
	require.ErrorIs(t, err, ErrMemory)
}

// TestDemandOfReleasedModel is what the released checkpoint in bfloat16 is planned to take.
func TestDemandOfReleasedModel(t *testing.T) {
	cfg, depth := released(), moge.V1()
	const mb = 1 << 20
	d := demand{cfg: &cfg, depth: &depth, process: xlaProcess, weights: map[Stage]int64{
		StageDepth: 600 * mb, StageCondition: 1300 * mb, StageStructure: 2400 * mb, StageVoxels: 140 * mb,
		StageLatent: 1750 * mb, StageGaussians: 165 * mb, StageGaussians4: 165 * mb, StageMesh: 175 * mb,
	}}
	_, kept := d.most(false, decoder.MaxVoxels)
	stage, streamed := d.most(true, decoder.MaxVoxels)
	require.Equal(t, StageLatent, stage)
	require.Less(t, streamed, int64(6<<30))
	require.Greater(t, kept, d.all())
	for voxels := 1000; voxels <= decoder.MaxVoxels; voxels += 1000 {
		for _, limit := range []int64{streamed, kept, 2 * kept} {
			stream := limit < kept
			slab := d.slabVoxels(limit, stream, voxels)
			require.LessOrEqual(t, d.stage(StageMesh, stream, voxels, slab), limit)
		}
		require.Zero(t, d.slabVoxels(2*kept, false, voxels))
	}
	require.Positive(t, d.slabVoxels(kept, false, decoder.MaxVoxels))
	require.Less(t, d.meshWork(20000, minSlab), d.meshWork(20000, 0))
}
