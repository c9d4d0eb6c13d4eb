// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import (
	"context"
	"fmt"
	"image"
	"time"

	"github.com/gomlx3d/image3d/internal/imageio"
	"github.com/gomlx3d/image3d/moge"
	"github.com/gomlx3d/image3d/sam3d/condition"
	"github.com/gomlx3d/image3d/sam3d/input"
)

// Photo is a photograph with the work done that all its objects share: its points, and the tokens of the whole picture.
// It holds no memory of the device and needs no Close: the pixels, the points and 14 MB for the released model are
// garbage with it. It may be used by many Generate at once. Its fields are only to be read.
type Photo struct {
	// Width and Height are the photograph's pixels.
	Width, Height int
	// PointMap is that of the request or of the depth model; nil if there is none.
	PointMap *PointMap
	// Metric tells that the depth model knows metres, as Result.Metric.
	Metric bool
	// Camera is the one that sees the points, in pixels of the photograph: the depth model's, or what fits the request's
	// point map best. Nil if there are no points or they are not those of a pinhole camera.
	Camera *Intrinsics
	// Warnings are those of Result that are about the photograph. Every Result repeats them.
	Warnings []string
	// Timings are the stages that Prepare ran, and Took the whole.
	Timings []Timing
	Took    time.Duration

	pipeline *Pipeline
	pixels   *image.NRGBA
	view     view
	whole    []float32 // input.WholeImage
	features *condition.Features
}

// Prepare does once what the objects of a photograph have in common. Generate with the Photo of a request then gives the
// same Result, bit for bit, as with the request's image, but for the times:
//
//	photo, err := pipeline.Prepare(ctx, sam3d.Request{Image: img})
//	for _, mask := range masks {
//		result, err := pipeline.Generate(ctx, sam3d.Request{Photo: photo, Mask: mask})
//	}
//
// Of the request it reads Image, PointMap, NoDepth and Progress; the stages are StageDepth, if it runs, and
// StageCondition. Like Generate it waits for its turn and stops within one step. The image must not change afterwards.
// Errors match ErrRequest, ErrClosed, ErrPointMap, ErrNotFinite or ctx.Err().
func (p *Pipeline) Prepare(ctx context.Context, request Request) (photo *Photo, err error) {
	defer guard(&err)
	if err := p.closed(); err != nil {
		return nil, err
	}
	if request.Photo != nil {
		return nil, fmt.Errorf("%w: the photo is prepared already", ErrRequest)
	}
	if err := request.check(); err != nil {
		return nil, err
	}
	photo = &Photo{pipeline: p}
	if photo.pixels, err = imageio.NRGBA(request.Image); err != nil {
		return nil, fmt.Errorf("%w: %w: %w", ErrRequest, input.ErrPicture, err)
	}
	photo.Width, photo.Height = photo.pixels.Rect.Dx(), photo.pixels.Rect.Dy()
	if points := request.PointMap; points != nil {
		if _, err := points.Resize(points.Width, points.Height); err != nil { // for its checks
			return nil, fmt.Errorf("sam3d: %w", err)
		}
	}
	r := newRun(ctx, p, &request, nil)
	defer r.cancel()
	if r.needsDepth() {
		if err := p.checkPicture(photo.Width, photo.Height); err != nil {
			return nil, err
		}
	}
	if err := p.begin(ctx); err != nil {
		return nil, err
	}
	defer p.end()
	if err := r.photo(photo); err != nil {
		return nil, err
	}
	return photo, nil
}

// photo fills in the photo of a request.
func (r *run) photo(photo *Photo) error {
	view := r.known()
	if r.needsDepth() {
		var err error
		if view, err = r.look(imageio.RGB(photo.pixels)); err != nil {
			return err
		}
	}
	photo.view = *view
	photo.PointMap, photo.Metric, photo.Warnings = view.points, view.metric, view.warnings
	photo.Camera = view.camera(photo.Width, photo.Height)
	_, err := with(r, &r.p.condition, StageCondition, 1, func(m *condition.Encoder) (_ struct{}, err error) {
		if photo.whole, err = input.WholeImage(photo.pixels, r.p.cfg.imageSize); err != nil {
			return
		}
		photo.features, err = m.Features(r.ctx, r.p.cfg.imageSize, photo.whole)
		return
	})
	if err == nil {
		err = r.stopped()
	}
	photo.Timings, photo.Took = r.result.Timings, time.Since(r.started)
	return err
}

// view is what is known of the space that a photograph shows.
type view struct {
	points    *PointMap // nil: nothing
	estimated bool      // by the depth model
	metric    bool
	seen      *Intrinsics // the depth model's camera
	warnings  []string
}

// needsDepth reports whether the depth model has to find the points.
func (r *run) needsDepth() bool {
	return r.request.Photo == nil && r.request.PointMap == nil && !r.request.NoDepth && r.p.depth != nil
}

// known is the view without the depth model.
func (r *run) known() *view {
	if r.request.Photo != nil {
		return &r.request.Photo.view
	}
	v := &view{points: r.request.PointMap}
	if v.points == nil && !r.request.NoDepth {
		v.warnings = []string{fmt.Sprintf("no point map was given, and there is no depth model (%s): the object was made from the "+
			"picture alone, and its pose has no scale", r.p.noDepth)}
	}
	return v
}

// look is the view of the depth model.
func (r *run) look(rgb imageio.Planes) (*view, error) {
	return with(r, r.p.depth, StageDepth, 1, func(m *moge.Model) (*view, error) {
		depth, err := m.Infer(r.ctx, moge.Image{Height: rgb.H, Width: rgb.W, Pixels: rgb.Data},
			moge.Options{NumTokens: r.p.depthTokens})
		if err != nil {
			return nil, err
		}
		points, err := input.FromDepthCamera(depth.Width, depth.Height, depth.Points)
		if err != nil {
			return nil, err
		}
		v := &view{points: &points, estimated: true, metric: depth.MetricScale > 0}
		if depth.Degenerate() {
			v.warnings = []string{"the depth model found no camera for the picture: the pose is a guess"}
			return v, nil
		}
		k, w, h := depth.Intrinsics, float64(rgb.W), float64(rgb.H)
		v.seen = &Intrinsics{FX: k[0][0] * w, FY: k[1][1] * h, CX: k[0][2]*w - 0.5, CY: k[1][2]*h - 0.5}
		return v, nil
	})
}

// camera is the camera of a photograph of width x height pixels, if there is one.
func (v *view) camera(width, height int) *Intrinsics {
	switch {
	case v.points == nil || v.seen != nil && v.seen.Validate() == nil:
		return v.seen
	case v.estimated:
		return nil
	}
	camera, err := v.points.Camera()
	if err != nil {
		return nil
	}
	camera = camera.Resize(v.points.Width, v.points.Height, width, height)
	return &camera
}
