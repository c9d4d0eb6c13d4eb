// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import (
	"errors"
	"fmt"
	"image"
	"slices"

	"github.com/gomlx3d/image3d/sam3d/input"
)

// Output is a set of things to make.
type Output uint

// Outputs, to be combined with |.
const (
	Gaussians  Output = 1 << iota // 32 Gaussians a voxel
	Gaussians4                    // 4 Gaussians a voxel: lighter, not finer
	Mesh                          // triangles with vertex colours
)

const allOutputs = Gaussians | Gaussians4 | Mesh

// PointMap is where the camera sees each pixel, in the camera frame: Width, Height and Points [Height, Width, 3], NaN where
// there is none.
type PointMap = input.PointMap

// MaxSteps bounds the sampling steps of a stage.
const MaxSteps = 1000

// Request is one object to make. Of the fields only Image, or Photo, is required; the zero value of the others means the
// released setting.
type Request struct {
	// Photo stands for Image, PointMap and NoDepth if several objects of one photograph are made; see Prepare.
	Photo *Photo
	// Image is the whole photograph. The colours under transparent pixels count: the model looks at the surroundings.
	Image image.Image
	// Mask marks the object: it has the image's size, and alpha where that varies, else the brightest of red, green and
	// blue, tells how much a pixel belongs to the object. Nil takes the image's own alpha.
	Mask image.Image
	// PointMap replaces the checkpoint's depth model. Another size than the image's is resampled to the nearest pixel.
	PointMap *PointMap
	// NoDepth leaves the depth model out: without a PointMap the model then works from the picture alone, and the pose
	// has no scale, which is no warning as it was asked for.
	NoDepth bool

	// Seed selects the initial noise. The same seed gives the same result on the same backend.
	Seed uint64
	// Steps and LatentSteps are the sampling steps of the two flows; 0 is the checkpoint's number (25 and 25).
	Steps, LatentSteps int
	// Distilled samples the structure as a distilled model, without guidance: fewer steps are enough.
	Distilled bool
	// Outputs says what to make; 0 is Gaussians | Mesh.
	Outputs Output

	// Noise replaces the noise of Seed, to compare with another implementation.
	Noise *Noise
	// Progress, if set, is told about every stage and step, in order and from the goroutine that called Generate. It
	// must not call Generate or Close of the same pipeline, which would wait for each other for ever. If it panics,
	// Generate stops as if cancelled and fails with ErrRequest.
	Progress func(Event)
}

// Noise is initial noise, standard normal.
type Noise struct {
	// Structure is [tokens, channels] of each latent: "shape" [4096, 8], "6drotation_normalized" [1, 6], "scale"
	// [1, 3], "translation" [1, 3] and "translation_scale" [1, 1].
	Structure map[string][]float32
	// Latent is [N, 8] for the N voxels that the structure leads to; nil draws it from Seed.
	Latent []float32
}

func (r *Request) outputs() Output {
	if r.Outputs == 0 {
		return Gaussians | Mesh
	}
	return r.Outputs
}

// check reports what can be seen to be wrong before any work.
func (r *Request) check() error {
	switch {
	case r.Photo != nil && (r.Image != nil || r.PointMap != nil || r.NoDepth):
		return fmt.Errorf("%w: a photo, which brings its image and points, next to others", ErrRequest)
	case r.Photo == nil && r.Image == nil:
		return fmt.Errorf("%w: no image", ErrRequest)
	case r.Steps < 0 || r.Steps > MaxSteps:
		return fmt.Errorf("%w: %d structure steps; they must be 1 to %d, or 0 for the released number", ErrRequest, r.Steps, MaxSteps)
	case r.LatentSteps < 0 || r.LatentSteps > MaxSteps:
		return fmt.Errorf("%w: %d latent steps; they must be 1 to %d, or 0 for the released number", ErrRequest, r.LatentSteps, MaxSteps)
	case r.Outputs&^allOutputs != 0:
		return fmt.Errorf("%w: unknown output %#x", ErrRequest, uint(r.Outputs&^allOutputs))
	}
	return nil
}

// check reports everything that can be seen to be wrong before any model runs, and returns the picture with its mask.
func (p *Pipeline) check(r *Request) (*input.Picture, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	img := r.Image
	if r.Photo != nil {
		if r.Photo.pipeline != p {
			return nil, fmt.Errorf("%w: the photo was prepared by another pipeline", ErrRequest)
		}
		img = r.Photo.pixels
	}
	picture, err := input.New(img, r.Mask)
	if errors.Is(err, input.ErrPicture) {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	if err != nil {
		return nil, fmt.Errorf("sam3d: %w", err)
	}
	if r.Noise != nil {
		if err := p.checkNoise(r.Noise); err != nil {
			return nil, err
		}
	}
	return picture, nil
}

// checkNoise checks all but the number of voxels, which is not known yet.
func (p *Pipeline) checkNoise(noise *Noise) error {
	if noise.Structure != nil {
		known := make(map[string]bool)
		for _, l := range p.cfg.structure.Latents {
			known[l.Name] = true
			if have, want := len(noise.Structure[l.Name]), l.Tokens*l.Channels; have != want {
				return fmt.Errorf("%w: %d values of noise for the latent %q, which has %d", ErrRequest, have, l.Name, want)
			}
			if !finite(noise.Structure[l.Name]) {
				return fmt.Errorf("%w: noise of the latent %q is not finite", ErrRequest, l.Name)
			}
		}
		for name := range noise.Structure {
			if !known[name] {
				return fmt.Errorf("%w: noise for a latent %.64q, which the model does not have", ErrRequest, name)
			}
		}
	}
	if channels := p.cfg.latent.Channels; noise.Latent != nil && (len(noise.Latent) == 0 || len(noise.Latent)%channels != 0) {
		return fmt.Errorf("%w: %d values of latent noise, no multiple of %d channels", ErrRequest, len(noise.Latent), channels)
	}
	if !finite(noise.Latent) {
		return fmt.Errorf("%w: latent noise is not finite", ErrRequest)
	}
	return nil
}

func finite(values []float32) bool {
	return !slices.ContainsFunc(values, func(v float32) bool { return v-v != 0 })
}
