// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import (
	"context"
	"errors"
	"fmt"
	"image"

	"github.com/gomlx3d/image3d/sam3d/decoder"
	"github.com/gomlx3d/image3d/sparse"
)

// DefaultWarmupVoxels is the number of voxels that Warmup takes for a usual object.
const DefaultWarmupVoxels = 8000

// Warmup compiles what a request needs, so that the first object does not wait for it: it takes one step of every stage
// and drops the results. The stages after the voxels are compiled for a hollow ball of about the given number of them, or
// of DefaultWarmupVoxels if that is 0; their programs serve every object whose counts fall into the same ranges. An object
// of another size compiles some of them again, and so does a photograph of another shape the depth model.
//
// Of the request it reads everything but the numbers of steps; without Image it takes a grey picture. Progress is as in
// Generate. Like Generate it waits for its turn and stops within one step. It fails with the errors of Generate.
func (p *Pipeline) Warmup(ctx context.Context, request Request, voxels int) (err error) {
	defer guard(&err)
	if err := p.closed(); err != nil {
		return err
	}
	if voxels == 0 {
		voxels = DefaultWarmupVoxels
	}
	if voxels < 0 || voxels > decoder.MaxVoxels {
		return fmt.Errorf("%w: warm-up of %d voxels; there are 1 to %d", ErrRequest, voxels, decoder.MaxVoxels)
	}
	if request.Image == nil && request.Photo == nil {
		request.Image, request.Mask = greyPicture()
	}
	request.Steps, request.LatentSteps, request.Noise = 1, 1, nil
	_, err = inTurn(ctx, p, &request, func(r *run) (struct{}, error) { return struct{}{}, r.warmup(voxels) })
	return err
}

// warmup is generate with voxels of its own.
func (r *run) warmup(voxels int) error {
	t, state, err := r.upToStructure()
	if err != nil {
		return err
	}
	if _, err = r.voxels(state, r.conditions); err != nil && !errors.Is(err, ErrNoVoxels) {
		return err
	}
	coords, err := ball(voxels, r.p.cfg.latent.Resolution)
	if err != nil {
		return err
	}
	latents, err := r.sampleLatents(t, coords)
	if err != nil {
		return err
	}
	return r.decode(coords, latents)
}

// greyPicture is a picture with a mask.
func greyPicture() (image.Image, image.Image) {
	picture, mask := image.NewGray(image.Rect(0, 0, 512, 384)), image.NewGray(image.Rect(0, 0, 512, 384))
	for y := range 384 {
		for x := range 512 {
			at := picture.PixOffset(x, y)
			picture.Pix[at] = uint8(64 + x/8 + y/4)
			if (x-256)*(x-256)+(y-192)*(y-192) < 120*120 {
				mask.Pix[at] = 255
			}
		}
	}
	return picture, mask
}

// ball is the smallest hollow ball of at least the given number of voxels, a surface as those of objects are; where the
// grid has none its wall is thicker.
func ball(voxels, resolution int) (*sparse.Coords, error) {
	var list []sparse.Voxel
	for radius, wall := 1, 1; wall <= radius && len(list) < voxels; {
		list = shell(list[:0], resolution, radius, wall)
		if radius < resolution/2 {
			radius++
		} else {
			wall++
		}
	}
	return sparse.New(list, resolution)
}

// shell appends the voxels that are up to a radius from the centre of the grid, but not nearer than that less the wall.
func shell(list []sparse.Voxel, resolution, radius, wall int) []sparse.Voxel {
	inner := radius - wall
	for x := range resolution {
		for y := range resolution {
			for z := range resolution {
				a, b, c := 2*x-resolution+1, 2*y-resolution+1, 2*z-resolution+1 // twice the way to the centre
				if d := a*a + b*b + c*c; d < 4*radius*radius && d >= 4*inner*inner {
					list = append(list, sparse.Voxel{0, int32(x), int32(y), int32(z)})
				}
			}
		}
	}
	return list
}
