// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d_test

import (
	"context"
	"fmt"
	"image"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/sam3d"
)

// objects are masks of several objects of a picture.
func objects(bounds image.Rectangle) []image.Image {
	w, h := bounds.Dx(), bounds.Dy()
	return []image.Image{
		rectangle(bounds, image.Rect(w/8, h/8, w/3, h/2)), rectangle(bounds, image.Rect(w/2, h/3, w, h-3)),
	}
}

// wall is a point map of a tilted wall, seen by a camera.
func wall(width, height int, camera sam3d.Intrinsics) *sam3d.PointMap {
	m := &sam3d.PointMap{Width: width, Height: height}
	for i := range width * height {
		x, y := (camera.CX-float64(i%width))/camera.FX, (camera.CY-float64(i/width))/camera.FY
		z := 3 / (1 + 0.2*x + 0.1*y)
		m.Points = append(m.Points, float32(x*z), float32(y*z), float32(z))
	}
	return m
}

// TestPhoto makes each object of a photograph as if it were alone, bit for bit, whatever the points come from.
func TestPhoto(t *testing.T) {
	p, base := pipeline(t), request(t)
	bounds := base.Image.Bounds()
	camera := sam3d.Intrinsics{FX: 90, FY: 80, CX: 40, CY: 33}
	for name, change := range map[string]func(r *sam3d.Request){
		"depth model": func(*sam3d.Request) {},
		"point map":   func(r *sam3d.Request) { r.PointMap = wall(80, 60, camera) },
		"no points":   func(r *sam3d.Request) { r.NoDepth = true },
	} {
		r := base
		change(&r)
		photo, err := p.Prepare(context.Background(), r)
		require.NoError(t, err, name)
		require.Equal(t, bounds.Size(), image.Pt(photo.Width, photo.Height))
		masks := objects(bounds)
		if name != "depth model" {
			masks = masks[:1]
		}
		for i, mask := range masks {
			r.Mask, r.Seed = mask, uint64(i)
			want, err := p.Generate(context.Background(), r)
			require.NoError(t, err, name)
			got, err := p.Generate(context.Background(), sam3d.Request{Photo: photo, Mask: mask, Seed: r.Seed, Steps: r.Steps,
				LatentSteps: r.LatentSteps, Outputs: r.Outputs})
			require.NoError(t, err, name)
			for _, timing := range got.Timings {
				require.NotEqual(t, sam3d.StageDepth, timing.Stage)
			}
			// The points may be NaN, which equals nothing.
			samePoints(t, want.PointMap, got.PointMap)
			want.PointMap, got.PointMap = nil, nil
			require.Equal(t, withoutTimes(want), withoutTimes(got), "%s, object %d", name, i)
		}
		switch name {
		case "point map": // 320 x 240 pixels, four times the map's
			c := camera.Resize(80, 60, photo.Width, photo.Height)
			require.InDeltaSlice(t, []float64{c.FX, c.FY, c.CX, c.CY},
				[]float64{photo.Camera.FX, photo.Camera.FY, photo.Camera.CX, photo.Camera.CY}, 1e-2)
		case "no points":
			require.Nil(t, photo.Camera)
			require.Nil(t, photo.PointMap)
		}
	}
}

func samePoints(t *testing.T, a, b *sam3d.PointMap) {
	t.Helper()
	if a == nil || b == nil {
		require.Equal(t, a, b)
		return
	}
	require.Equal(t, [2]int{a.Width, a.Height}, [2]int{b.Width, b.Height})
	for i := range a.Points {
		if x, y := a.Points[i], b.Points[i]; math.Float32bits(x) != math.Float32bits(y) && (x == x || y == y) {
			require.Equal(t, x, y, "value %d of the points", i)
		}
	}
}

// TestPhotoAlpha: a photo without a mask means the photograph's own alpha.
func TestPhotoAlpha(t *testing.T) {
	skipIfShort(t)
	p, r := pipeline(t), request(t)
	cut := photo(64, 48)
	for i := 3; i < len(cut.Pix); i += 4 {
		if x := i / 4 % 64; x < 20 || x > 50 {
			cut.Pix[i] = 0
		}
	}
	r.Image, r.Mask = cut, nil
	want, err := p.Generate(context.Background(), r)
	require.NoError(t, err)
	r.Photo, err = p.Prepare(context.Background(), sam3d.Request{Image: cut})
	require.NoError(t, err)
	r.Image = nil
	got, err := p.Generate(context.Background(), r)
	require.NoError(t, err)
	require.Equal(t, want.Latents, got.Latents)
}

// TestPhotoConcurrent makes the objects of one photo at once, while another is prepared.
func TestPhotoConcurrent(t *testing.T) {
	p, r := pipeline(t), request(t)
	shared, err := p.Prepare(context.Background(), r)
	require.NoError(t, err)
	masks := objects(r.Image.Bounds())
	image := r.Image
	r.Photo, r.Image = shared, nil
	var want []*sam3d.Result
	for _, mask := range masks {
		r.Mask = mask
		result, err := p.Generate(context.Background(), r)
		require.NoError(t, err)
		want = append(want, withoutTimes(result))
	}
	var group sync.WaitGroup
	for i := range masks {
		group.Go(func() {
			request := r
			request.Mask = masks[i]
			got, err := p.Generate(context.Background(), request)
			if err != nil || fmt.Sprint(got.Pose, got.Latents) != fmt.Sprint(want[i].Pose, want[i].Latents) {
				t.Errorf("object %d: another result, %v", i, err)
			}
		})
		group.Go(func() {
			if _, err := p.Prepare(context.Background(), sam3d.Request{Image: image, NoDepth: true}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func TestPrepareEvents(t *testing.T) {
	p, r := pipeline(t), request(t)
	var events []string
	r.Progress = func(e sam3d.Event) { events = append(events, fmt.Sprintf("%s %d/%d", e.Stage, e.Step, e.Of)) }
	photo, err := p.Prepare(context.Background(), r)
	require.NoError(t, err)
	require.Equal(t, []string{"depth 0/1", "depth 1/1", "condition 0/1", "condition 1/1"}, events)
	require.Len(t, photo.Timings, 2)
	require.Positive(t, photo.Took)

	for at := range len(events) {
		ctx, cancel := context.WithCancel(context.Background())
		seen := 0
		r.Progress = func(sam3d.Event) {
			if seen++; seen == at+1 {
				cancel()
			}
		}
		_, err := p.Prepare(ctx, r)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, at+1, seen)

		seen = 0
		r.Progress = func(sam3d.Event) {
			if seen++; seen == at+1 {
				panic("broken bar")
			}
		}
		_, err = p.Prepare(context.Background(), r)
		require.ErrorIs(t, err, sam3d.ErrRequest)
	}
	r.Progress = nil
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = p.Prepare(ctx, r)
	require.ErrorIs(t, err, context.Canceled)
	_, err = p.Prepare(context.Background(), r)
	require.NoError(t, err)
}

func TestPhotoRefused(t *testing.T) {
	p, r := pipeline(t), request(t)
	ctx := context.Background()
	prepared, err := p.Prepare(ctx, sam3d.Request{Image: r.Image})
	require.NoError(t, err)
	for name, request := range map[string]sam3d.Request{
		"an image too":     {Photo: prepared, Image: r.Image, Mask: r.Mask},
		"points too":       {Photo: prepared, PointMap: wall(4, 4, sam3d.Intrinsics{FX: 1, FY: 1}), Mask: r.Mask},
		"no depth too":     {Photo: prepared, NoDepth: true, Mask: r.Mask},
		"nobody's photo":   {Photo: &sam3d.Photo{}, Mask: r.Mask},
		"neither":          {Mask: r.Mask},
		"of the wrong one": {Photo: prepared, Mask: r.Mask, Steps: -1},
	} {
		require.ErrorIs(t, refused(t, request), sam3d.ErrRequest, name)
	}
	var mismatch *sam3d.SizeMismatchError
	require.ErrorAs(t, refused(t, sam3d.Request{Photo: prepared, Mask: image.NewGray(image.Rect(0, 0, 9, 9))}), &mismatch)
	require.ErrorIs(t, refused(t, sam3d.Request{Photo: prepared, Mask: image.NewGray(r.Image.Bounds())}), sam3d.ErrEmptyMask)
	require.ErrorIs(t, refused(t, sam3d.Request{Photo: prepared}), sam3d.ErrNoMask)

	for name, request := range map[string]sam3d.Request{
		"no image":      {},
		"no pixels":     {Image: image.NewGray(image.Rectangle{})},
		"a photo":       {Photo: prepared},
		"steps":         {Image: r.Image, LatentSteps: -1},
		"unknown kinds": {Image: r.Image, Outputs: 1 << 20},
	} {
		_, err := p.Prepare(ctx, request)
		require.ErrorIs(t, err, sam3d.ErrRequest, name)
	}
	_, err = p.Prepare(ctx, sam3d.Request{Image: r.Image, PointMap: &sam3d.PointMap{Width: 3, Height: 3}})
	require.ErrorIs(t, err, sam3d.ErrPointMap)

	other := open(t, model(t))
	_, err = other.Generate(ctx, sam3d.Request{Photo: prepared, Mask: r.Mask})
	require.ErrorIs(t, err, sam3d.ErrRequest, "of another pipeline")
	require.NoError(t, other.Close())
	_, err = other.Prepare(ctx, r)
	require.ErrorIs(t, err, sam3d.ErrClosed)
}
