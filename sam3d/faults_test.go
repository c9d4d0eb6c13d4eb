// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"image"
	"image/png"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/sam3d"
	"github.com/gomlx3d/image3d/sam3d/input"
)

// The tests of this file are the faults C1 to C3, C9 and C12 to C15 of other programs for this task, one test each;
// those of pictures alone are in package imageio.

// refused runs a request that must fail before any work.
func refused(t *testing.T, r sam3d.Request) error {
	t.Helper()
	r.Progress = func(e sam3d.Event) {
		if e.Stage != sam3d.StageInput {
			t.Errorf("work was begun: %v", e)
		}
	}
	_, err := pipeline(t).Generate(context.Background(), r)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "internal fault")
	return err
}

// skipIfShort leaves out what runs the pipeline for its values: under the race detector only concurrency counts.
func skipIfShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it generates several objects")
	}
}

// photo is a picture of noise.
func photo(width, height int) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range img.Pix {
		img.Pix[i] = uint8(i*i>>3) | uint8(255*(i&3/3))
	}
	return img
}

// C1: a mask of another size is named with both sizes, and taken only if the caller says so.
func TestC1MaskOfAnotherSize(t *testing.T) {
	img := photo(640, 480)
	for _, size := range []image.Point{{1024, 768}, {480, 640}, {639, 480}} {
		mask := rectangle(image.Rectangle{Max: size}, image.Rect(size.X/4, size.Y/4, size.X/2, size.Y/2))
		err := refused(t, sam3d.Request{Image: img, Mask: mask, NoDepth: true})
		var mismatch *sam3d.SizeMismatchError
		require.ErrorAs(t, err, &mismatch)
		require.Equal(t, sam3d.SizeMismatchError{Picture: image.Pt(640, 480), Mask: size}, *mismatch)
		require.ErrorContains(t, err, "640x480")

		fitted, err := sam3d.FitMask(mask, img)
		require.NoError(t, err)
		require.Equal(t, img.Rect, fitted.Bounds())
		_, err = input.New(img, fitted)
		require.NoError(t, err)
	}
	_, err := sam3d.FitMask(image.NewGray(image.Rectangle{}), img)
	require.ErrorIs(t, err, sam3d.ErrRequest)
	_, err = sam3d.FitMask(img, image.NewGray(image.Rectangle{}))
	require.ErrorIs(t, err, sam3d.ErrRequest)
}

// C2: an empty mask is an error before any model runs.
func TestC2EmptyMask(t *testing.T) {
	img := photo(64, 48)
	outside := rectangle(image.Rect(0, 0, 200, 200), image.Rect(100, 100, 180, 180)).SubImage(img.Rect)
	for _, mask := range []image.Image{image.NewGray(img.Rect), image.NewNRGBA(img.Rect), outside} {
		require.ErrorIs(t, refused(t, sam3d.Request{Image: img, Mask: mask}), sam3d.ErrEmptyMask)
	}
	require.ErrorIs(t, refused(t, sam3d.Request{Image: img}), sam3d.ErrNoMask)
	require.ErrorIs(t, refused(t, sam3d.Request{Image: image.NewNRGBA(img.Rect)}), sam3d.ErrEmptyMask)
}

// C3: a mask spans at least three pixels each way.
func TestC3SmallMask(t *testing.T) {
	img := photo(64, 48)
	for _, size := range []image.Point{{1, 1}, {2, 1}, {2, 2}, {2, 40}, {40, 2}} {
		mask := rectangle(img.Rect, image.Rectangle{Max: size}.Add(image.Pt(4, 4)))
		require.ErrorIs(t, refused(t, sam3d.Request{Image: img, Mask: mask}), sam3d.ErrMaskTooSmall)
	}
	_, err := input.New(img, rectangle(img.Rect, image.Rect(4, 4, 7, 7)))
	require.NoError(t, err)
}

// C9: a portrait that its camera stored lying fits the mask that was painted on it upright.
func TestC9PortraitAndMask(t *testing.T) {
	stored, mask := photo(60, 40), rectangle(image.Rect(0, 0, 40, 60), image.Rect(10, 10, 30, 50))
	img, err := sam3d.Loader{}.Image(bytes.NewReader(turned(t, stored)))
	require.NoError(t, err)
	require.Equal(t, mask.Rect, img.Bounds())
	_, err = input.New(img, mask)
	require.NoError(t, err)
}

// turned is a PNG with the EXIF orientation of a portrait.
func turned(t *testing.T, img image.Image) []byte {
	t.Helper()
	var file bytes.Buffer
	require.NoError(t, png.Encode(&file, img))
	const header = 8 + 25
	chunk := append([]byte{0, 0, 0, 26}, "eXIfMM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00\x00\x00\x00\x00????"...)
	return slices.Concat(file.Bytes()[:header], chunk, file.Bytes()[header:])
}

// plane is a tilted plane of points, in the library's axes.
func plane(width, height int) *sam3d.PointMap {
	m := &sam3d.PointMap{Width: width, Height: height}
	for y := range height {
		for x := range width {
			u, v := float32(x)/float32(width), float32(y)/float32(height)
			m.Points = append(m.Points, 1-2*u, 1-2*v, 2+u)
		}
	}
	return m
}

// spoilt returns a plane with a value where a mask says so.
func spoilt(mask *image.Gray, inside uint8, value float64) *sam3d.PointMap {
	m := plane(mask.Rect.Dx(), mask.Rect.Dy())
	for i := range m.Points {
		if mask.Pix[i/3] == inside {
			m.Points[i] = float32(value)
		}
	}
	return m
}

// requireFinite checks everything a result holds.
func requireFinite(t *testing.T, r *sam3d.Result) {
	t.Helper()
	require.NoError(t, r.Gaussians4.Validate())
	for _, values := range [][]float32{r.Latents, r.Gaussians4.Means, r.Gaussians4.LogScales, r.Gaussians4.OpacityLogits} {
		require.False(t, slices.ContainsFunc(values, func(v float32) bool { return v-v != 0 }))
	}
	for _, v := range slices.Concat(r.Pose.Rotation[:], r.Pose.Translation[:], []float64{r.Pose.Scale}) {
		require.False(t, math.IsNaN(v) || math.IsInf(v, 0), "pose %v", r.Pose)
	}
	require.Positive(t, r.Pose.Scale)
}

// C12: points that are infinite or NaN are no points, wherever they are.
func TestC12InvalidPoints(t *testing.T) {
	skipIfShort(t)
	img, mask := photo(64, 48), rectangle(image.Rect(0, 0, 64, 48), image.Rect(20, 10, 44, 38))
	inf := math.Inf(1)
	var poses []sam3d.Pose
	for _, value := range []float64{inf, math.NaN()} { // a sky of 78 %
		r := sam3d.Request{Image: img, Mask: mask, PointMap: spoilt(mask, 0, value), Steps: 1, LatentSteps: 1, Outputs: sam3d.Gaussians4}
		result, err := pipeline(t).Generate(context.Background(), r)
		require.NoError(t, err)
		requireFinite(t, result)
		poses = append(poses, result.Pose)
	}
	require.Equal(t, poses[1], poses[0], "an infinite point is as good as NaN")

	for name, test := range map[string]struct {
		points *sam3d.PointMap
		want   error
	}{
		"all NaN":             {spoilt(image.NewGray(img.Rect), 0, math.NaN()), sam3d.ErrNoPoints},
		"all infinite":        {spoilt(image.NewGray(img.Rect), 0, -inf), sam3d.ErrNoPoints},
		"NaN in the mask":     {spoilt(mask, 255, math.NaN()), sam3d.ErrNoPoints},
		"infinite in it":      {spoilt(mask, 255, inf), sam3d.ErrNoPoints},
		"zeros":               {spoilt(image.NewGray(img.Rect), 0, 0), sam3d.ErrFlatPoints},
		"size does not match": {&sam3d.PointMap{Width: 64, Height: 48}, sam3d.ErrPointMap},
	} {
		require.ErrorIs(t, refused(t, sam3d.Request{Image: img, Mask: mask, PointMap: test.points}), test.want, name)
	}
}

// C13: a small object at the border, most of whose points are invalid, does not poison what follows.
func TestC13InvalidPatches(t *testing.T) {
	skipIfShort(t)
	img := photo(120, 90)
	mask := rectangle(img.Rect, image.Rect(112, 80, 120, 90))
	points := spoilt(mask, 0, math.NaN())
	for i := range points.Points { // of the object's points every other pixel too
		if i/3%2 == 0 {
			points.Points[i] = float32(math.NaN())
		}
	}
	r := sam3d.Request{Image: img, Mask: mask, PointMap: points, Steps: 2, LatentSteps: 2, Outputs: sam3d.Gaussians4}
	result, err := pipeline(t).Generate(context.Background(), r)
	require.NoError(t, err)
	requireFinite(t, result)
}

// C14: point maps in OpenCV's axes are converted, and those of another size resampled to the nearest pixel.
func TestC14Axes(t *testing.T) {
	img, mask := photo(64, 48), rectangle(image.Rect(0, 0, 64, 48), image.Rect(20, 10, 44, 38))
	points := plane(64, 48)
	points.Points[0] = float32(math.NaN())
	opencv := make([]float32, len(points.Points))
	for i := 0; i < len(opencv); i += 3 {
		opencv[i], opencv[i+1], opencv[i+2] = -points.Points[i], -points.Points[i+1], points.Points[i+2]
	}
	load := func(l sam3d.Loader, values []float32) *sam3d.PointMap {
		m, err := l.PointMap(bytes.NewReader(array(1, header("<f4", "False", "(48, 64, 3)"), floats(values))))
		require.NoError(t, err)
		return m
	}
	library := load(sam3d.Loader{}, points.Points)
	converted := load(sam3d.Loader{Axes: sam3d.OpenCVAxes}, opencv)
	require.Equal(t, points.Points[3:], library.Points[3:])
	require.Equal(t, points.Points[3:], converted.Points[3:])
	for _, v := range converted.Points[:3] {
		require.True(t, v != v)
	}

	double := &sam3d.PointMap{Width: 128, Height: 96}
	for y := range 96 {
		for x := range 128 {
			i := 3 * (y/2*64 + x/2)
			double.Points = append(double.Points, points.Points[i:i+3]...)
		}
	}
	picture, err := input.New(img, mask)
	require.NoError(t, err)
	var seen []string // as text, because NaN does not equal itself
	for _, m := range []*sam3d.PointMap{library, converted, double} {
		conditions, err := picture.Prepare(m, input.Options{Size: 56})
		require.NoError(t, err)
		seen = append(seen, fmt.Sprint(conditions))
	}
	require.Equal(t, seen[0], seen[1])
	require.Equal(t, seen[0], seen[2])
	_, err = sam3d.Loader{Axes: 7}.PointMap(bytes.NewReader(nil))
	require.ErrorIs(t, err, sam3d.ErrRequest)
}

// C15: the object is in a frame of its own; the size of the world is in the pose.
func TestC15MetricScale(t *testing.T) {
	skipIfShort(t)
	img, mask := photo(64, 48), rectangle(image.Rect(0, 0, 64, 48), image.Rect(20, 10, 44, 38))
	const factor = 4 // exact in floating point
	large := plane(64, 48)
	for i := range large.Points {
		large.Points[i] *= factor
	}
	var results []*sam3d.Result
	for _, m := range []*sam3d.PointMap{plane(64, 48), large} {
		result, err := pipeline(t).Generate(context.Background(), sam3d.Request{Image: img, Mask: mask, PointMap: m, Steps: 1, LatentSteps: 1, Outputs: sam3d.Gaussians4})
		require.NoError(t, err)
		results = append(results, result)
	}
	small, big := results[0], results[1]
	require.Equal(t, small.Gaussians4, big.Gaussians4, "the object's frame does not know of metres")
	require.InEpsilon(t, factor*small.Pose.Scale, big.Pose.Scale, 1e-9)
	for i, v := range small.Pose.Translation {
		require.InDelta(t, factor*v, big.Pose.Translation[i], 1e-9*(1+math.Abs(v)))
	}
	require.Equal(t, small.Pose.Rotation, big.Pose.Rotation)
	// Baking the pose makes the object as large as the scene.
	var extents [2]float32
	for i, r := range results {
		placed := r.Gaussians4.Clone()
		require.NoError(t, placed.Transform(r.Pose.Transform()))
		lo, hi := placed.Bounds()
		extents[i] = hi[0] - lo[0]
	}
	require.InEpsilon(t, factor*extents[0], extents[1], 1e-4)
}

// Warnings of C4: a mask of almost everything or almost nothing is likely a mistake.
func TestC4Warnings(t *testing.T) {
	skipIfShort(t)
	img := photo(300, 300)
	var file bytes.Buffer
	opaque := image.NewNRGBA(img.Rect)
	for i := range opaque.Pix {
		opaque.Pix[i] = 255
	}
	require.NoError(t, png.Encode(&file, opaque))
	white, err := sam3d.Loader{}.Mask(&file)
	require.NoError(t, err)
	for _, test := range []struct {
		warning string
		mask    image.Image
	}{
		{"100.00 %", white},
		{"", rectangle(img.Rect, image.Rect(0, 0, 300, 293))},
		{"0.0100 %", rectangle(img.Rect, image.Rect(7, 7, 10, 10))},
	} {
		r := sam3d.Request{Image: img, Mask: test.mask, NoDepth: true, Steps: 1, LatentSteps: 1, Outputs: sam3d.Gaussians4}
		result, err := pipeline(t).Generate(context.Background(), r)
		require.NoError(t, err)
		if test.warning == "" {
			require.Empty(t, result.Warnings)
			continue
		}
		require.Len(t, result.Warnings, 1)
		require.Contains(t, result.Warnings[0], test.warning)
	}
}

// floats are the bytes of values.
func floats(values []float32) (data []byte) {
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return data
}
