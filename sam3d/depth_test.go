// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d_test

import (
	"context"
	"encoding/binary"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/moge"
	"github.com/gomlx3d/image3d/sam3d"
	"github.com/gomlx3d/image3d/weights"
)

// fullBundle is the small MLX bundle with such a bias of the occupancy that every picture leads to voxels.
func fullBundle(t *testing.T) string {
	t.Helper()
	folder := tiny(t, "checkpoint_mlx_tiny")
	path := filepath.Join(folder, "model-00003-of-00006.safetensors")
	s := readShard(t, path)
	bias := s.entries["ss_decoder.out_layer.2.bias"]
	require.Equal(t, "BF16", bias.DType)
	binary.LittleEndian.PutUint16(s.data[bias.Offsets[0]:], 0x4040) // 3
	s.write(t, path)
	return folder
}

// TestMetricDepth: with the MLX bundle a picture and a mask are enough for a pose in metres.
func TestMetricDepth(t *testing.T) {
	skipIfShort(t)
	c := fixture.Load(t, "e2e_mlx", "a_pointmap")
	request := endToEndRequest(t, c)
	request.PointMap, request.Outputs, request.Noise.Latent = nil, sam3d.Gaussians4, nil
	bundle := fullBundle(t)
	p := open(t, bundle)
	metric, err := p.Generate(context.Background(), request)
	require.NoError(t, err)
	require.True(t, metric.Metric)
	for _, warning := range metric.Warnings { // of a camera, which random weights do not know
		require.NotContains(t, warning, "no scale")
	}
	require.NotNil(t, metric.PointMap)

	// The map is that of the depth model, in the camera frame of this package.
	model, err := moge.Open(context.Background(), fixture.Backend(t), bundle, weights.HubOptions{})
	require.NoError(t, err)
	defer model.Close()
	picture, err := moge.NewImage(request.Image)
	require.NoError(t, err)
	direct, err := model.Infer(context.Background(), picture, moge.Options{NumTokens: 12}) // as the bundle's config.json says
	require.NoError(t, err)
	valid := 0
	for i, ok := range direct.Mask {
		x, y, z := metric.PointMap.Points[3*i], metric.PointMap.Points[3*i+1], metric.PointMap.Points[3*i+2]
		require.Equal(t, ok, x == x && y == y && z == z)
		if ok {
			valid++
			require.Equal(t, [3]float32{-direct.Points[3*i], -direct.Points[3*i+1], direct.Points[3*i+2]}, [3]float32{x, y, z})
		}
	}
	require.Positive(t, valid)

	// The pose has its unit: a map twice as large gives a pose twice as large, and the same object.
	request.PointMap = &sam3d.PointMap{Width: metric.PointMap.Width, Height: metric.PointMap.Height}
	for _, v := range metric.PointMap.Points {
		request.PointMap.Points = append(request.PointMap.Points, 2*v)
	}
	double, err := p.Generate(context.Background(), request)
	require.NoError(t, err)
	require.False(t, double.Metric, "the caller knows the unit")
	require.InEpsilon(t, 2*metric.Pose.Scale, double.Pose.Scale, 1e-3)
	for axis := range 3 {
		require.InDelta(t, 2*metric.Pose.Translation[axis], double.Pose.Translation[axis], 1e-3*metric.Pose.Scale)
	}
	require.Equal(t, metric.Voxels, double.Voxels)
}

// TestDepthModelOption takes another depth model than the checkpoint's.
func TestDepthModelOption(t *testing.T) {
	skipIfShort(t)
	bundle := fullBundle(t)
	official := filepath.Join(fixture.Dir(), "checkpoint_official_tiny", "moge-vitl", "model.pt")
	r := request(t)
	own, err := pipeline(t).Generate(context.Background(), r)
	require.NoError(t, err)
	require.False(t, own.Metric, "MoGe-1 knows no unit")
	for _, c := range []struct {
		folder, depth string
		metric        bool
	}{{model(t), bundle, true}, {bundle, official, false}} {
		p, err := sam3d.Open(context.Background(), c.folder, sam3d.Options{Backend: backendName(), DepthModel: c.depth})
		require.NoError(t, err)
		result, err := p.Generate(context.Background(), r)
		require.NoError(t, err)
		require.Equal(t, c.metric, result.Metric)
		require.NotNil(t, result.PointMap)
		require.NotEqual(t, own.PointMap, result.PointMap)
		require.NoError(t, p.Close())
	}
	folder := model(t)
	for depth, want := range map[string]error{
		t.TempDir():  weights.ErrMissing,
		"owner/name": weights.ErrOffline,
		"../nothing": weights.ErrMissing,
		filepath.Join(fixture.Dir(), "checkpoint_official_tiny", "ss_decoder.ckpt"): weights.ErrMissing,
	} {
		hub := nowhere
		hub.CacheDir = t.TempDir()
		_, err := sam3d.Open(context.Background(), folder, sam3d.Options{Backend: backendName(), Hub: hub, DepthModel: depth})
		require.ErrorIs(t, err, want, "%s: what was asked for must be there", depth)
	}
}
