// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/flexicubes"
	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/sam3d/condition"
	"github.com/gomlx3d/image3d/sam3d/decoder"
	"github.com/gomlx3d/image3d/sam3d/flow"
	"github.com/gomlx3d/image3d/sam3d/input"
	"github.com/gomlx3d/image3d/sam3d/pose"
	"github.com/gomlx3d/image3d/sparse"
	"github.com/gomlx3d/image3d/splat"
)

// run is one Generate on its way.
type run struct {
	ctx        context.Context
	cancel     context.CancelFunc
	p          *Pipeline
	request    *Request
	picture    *input.Picture
	conditions *input.Conditions
	started    time.Time
	stage      Stage
	done       int           // steps of the stage that were reported
	compiled   time.Duration // by the process before the stage
	fault      error         // of the request's Progress
	result     *Result
	device     []*tensors.Tensor // to be freed at the end, if not before
}

func newRun(ctx context.Context, p *Pipeline, request *Request, picture *input.Picture) *run {
	r := &run{p: p, request: request, picture: picture, started: time.Now(), result: &Result{Resolution: p.cfg.latent.Resolution}}
	r.ctx, r.cancel = context.WithCancel(ctx)
	return r
}

func (r *run) free() { nn.Free(r.device...) }

// own has tensors freed with the run.
func (r *run) own(ts ...*tensors.Tensor) { r.device = append(r.device, ts...) }

func (r *run) warn(format string, args ...any) {
	r.result.Warnings = append(r.result.Warnings, fmt.Sprintf(format, args...))
}

// Coverages of the picture beyond which a mask is likely a mistake.
const (
	maxCoverage = 0.98
	minCoverage = 0.0001
)

// prepare does what needs no device: the conditions, unless the depth model has to look first. So a bad point map is
// found before any model runs, and while others use the device.
func (r *run) prepare() error {
	switch coverage := r.picture.Coverage(); {
	case coverage > maxCoverage:
		r.warn("the mask covers %.2f %% of the picture: it may be inverted", 100*coverage)
	case coverage < minCoverage:
		r.warn("the mask covers only %.4f %% of the picture: there is little to see of the object", 100*coverage)
	}
	if r.needsDepth() {
		return r.p.checkPicture(r.picture.Size())
	}
	return r.condition(r.known())
}

// generate is the data path, from where prepare ended.
func (r *run) generate() (*Result, error) {
	tokens, state, err := r.upToStructure()
	if err != nil {
		return nil, err
	}
	coords, err := r.voxels(state, r.conditions)
	if err != nil {
		return nil, err
	}
	latents, err := r.sampleLatents(tokens, coords)
	if err != nil {
		return nil, err
	}
	if err := r.decode(coords, latents); err != nil {
		return nil, err
	}
	if err := r.stopped(); err != nil {
		return nil, fmt.Errorf("sam3d: %w", err)
	}
	r.result.Took = time.Since(r.started)
	return r.result, nil
}

// upToStructure is the first half of the data path.
func (r *run) upToStructure() (t tokens, state flow.Latents, err error) {
	if r.needsDepth() {
		seen, err := r.look(r.picture.RGB())
		if err != nil {
			return t, nil, err
		}
		if err := r.condition(seen); err != nil {
			return t, nil, err
		}
	}
	if t, err = r.encode(r.conditions); err != nil {
		return t, nil, err
	}
	state, err = r.sampleStructure(t)
	return t, state, err
}

// condition prepares what the encoders read.
func (r *run) condition(v *view) (err error) {
	r.result.PointMap, r.result.Metric = v.points, v.metric
	r.result.Warnings = append(r.result.Warnings, v.warnings...)
	r.conditions, err = during(r, StageInput, 1, func() (*input.Conditions, error) {
		options := input.Options{Size: r.p.cfg.imageSize, ClipBeyond: r.p.cfg.clipBeyond}
		if r.request.Photo != nil {
			options.FullImage = r.request.Photo.whole
		}
		c, err := r.picture.Prepare(v.points, options)
		if errors.Is(err, input.ErrNoPoints) && v.estimated {
			r.warn("the depth model sees nothing where the object is: its pose has no scale")
			options.AsOriginal = true
			c, err = r.picture.Prepare(v.points, options)
		}
		return c, err
	})
	return err
}

// tokens are what the flows attend to, on the device.
type tokens struct{ structure, latent *tensors.Tensor }

// encode encodes the conditions for both flows.
func (r *run) encode(c *input.Conditions) (t tokens, err error) {
	return with(r, &r.p.condition, StageCondition, 1, func(m *condition.Encoder) (tokens, error) {
		views := condition.Views{
			Size: c.Size, Image: c.Crop.Image, Mask: c.Crop.Mask, PointMap: c.Crop.Points,
			RGBImage: c.Full.Image, RGBMask: c.Full.Mask, RGBPointMap: c.Full.Points,
		}
		if r.request.Photo != nil {
			views.RGBImage, views.Features = nil, r.request.Photo.features
		}
		t.structure, t.latent, err = m.Encode(r.ctx, views)
		r.own(t.structure, t.latent)
		return t, err
	})
}

// sampleStructure runs the structure flow.
func (r *run) sampleStructure(t tokens) (flow.Latents, error) {
	sampling := r.p.cfg.structureSampling
	if r.request.Steps > 0 {
		sampling.Steps = r.request.Steps
	}
	if r.request.Distilled {
		sampling.Step, sampling.Guidance = flow.StepUniform, flow.Guidance{}
	}
	sampling.Progress = r.report
	return with(r, &r.p.structure, StageStructure, sampling.Steps, func(m *flow.Structure) (flow.Latents, error) {
		noise, err := r.structureNoise()
		if err != nil {
			return nil, err
		}
		defer noise.Free()
		known, err := m.Condition(r.ctx, t.structure)
		if err != nil {
			return nil, err
		}
		defer known.Free()
		nn.Free(t.structure)
		state, err := m.Sample(r.ctx, known, noise, sampling)
		for _, latent := range state {
			r.own(latent)
		}
		return state, err
	})
}

// structureNoise is the request's noise or that of its seed.
func (r *run) structureNoise() (flow.Latents, error) {
	if r.request.Noise == nil || r.request.Noise.Structure == nil {
		return r.p.cfg.structure.Noise(r.request.Seed, 1)
	}
	noise := make(flow.Latents)
	for _, l := range r.p.cfg.structure.Latents {
		noise[l.Name] = tensors.FromFlatDataAndDimensions(r.request.Noise.Structure[l.Name], 1, l.Tokens, l.Channels)
	}
	return noise, nil
}

// voxels decodes the structure latents: the shape to occupied voxels, the others to the pose.
func (r *run) voxels(state flow.Latents, c *input.Conditions) (*sparse.Coords, error) {
	return with(r, &r.p.structureDecoder, StageVoxels, 1, func(m *decoder.Structure) (*sparse.Coords, error) {
		scene := pose.NoScene()
		if c.Crop.Points != nil {
			for axis := range 3 {
				scene.Scale[axis], scene.Shift[axis] = float64(c.Scale[axis]), float64(c.Shift[axis])
			}
		}
		placed, err := r.pose(state, scene)
		if err != nil {
			return nil, err
		}
		logits, err := m.Decode(r.ctx, state[flow.ShapeLatent])
		if err != nil {
			return nil, err
		}
		defer nn.Free(logits)
		voxels, err := decoder.Coordinates(logits)
		if err != nil {
			return nil, err
		}
		if radius := r.p.cfg.pruneRadius; radius > 0 {
			if voxels, err = decoder.Prune(voxels, radius); err != nil {
				return nil, err
			}
		}
		voxels, factor, err := decoder.Downsample(voxels, decoder.MaxVoxels, decoder.DownsampleFactor)
		if err != nil {
			return nil, err
		}
		if factor > 1 {
			r.warn("the object fills more than %d voxels: it was made at half the resolution", decoder.MaxVoxels)
		}
		r.result.Pose = placed.Downsampled(factor)
		for _, v := range voxels {
			r.result.Voxels = append(r.result.Voxels, v[1:]...)
		}
		return sparse.New(voxels, r.p.cfg.latent.Resolution)
	})
}

// pose decodes the pose latents.
func (r *run) pose(state flow.Latents, scene pose.Scene) (Pose, error) {
	var parts [4][]float32
	for i, latent := range poseLatents {
		var err error
		if parts[i], err = tensors.CopyFlatData[float32](state[latent.Name]); err != nil {
			return Pose{}, err
		}
	}
	latents, err := pose.NewLatents(parts[0], parts[1], parts[2], parts[3])
	if err != nil {
		return Pose{}, err
	}
	return r.p.cfg.convention.Decode(latents, scene)
}

// sampleLatents runs the latent flow on the voxels.
func (r *run) sampleLatents(t tokens, coords *sparse.Coords) ([]float32, error) {
	sampling := r.p.cfg.latentSampling
	if r.request.LatentSteps > 0 {
		sampling.Steps = r.request.LatentSteps
	}
	sampling.Progress = r.report
	return with(r, &r.p.latent, StageLatent, sampling.Steps, func(m *flow.Latent) ([]float32, error) {
		noise := r.p.cfg.latent.Noise(r.request.Seed, coords.Layout.Count)
		if given := r.request.Noise; given != nil && given.Latent != nil {
			if len(given.Latent) != len(noise) {
				return nil, fmt.Errorf("%w: %d values of latent noise; %d voxels need %d", ErrRequest, len(given.Latent),
					coords.Layout.Count, len(noise))
			}
			noise = given.Latent
		}
		known, err := m.Condition(r.ctx, t.latent)
		if err != nil {
			return nil, err
		}
		defer known.Free()
		nn.Free(t.latent)
		features, err := m.Sample(r.ctx, coords, known, noise, r.p.cfg.latentScale, sampling)
		if err != nil {
			return nil, err
		}
		for _, v := range features.Scaled {
			if math.IsNaN(float64(v - v)) {
				return nil, ErrNotFinite
			}
		}
		r.result.Latents = features.Scaled
		return features.Scaled, nil
	})
}

// decode makes what was asked for.
func (r *run) decode(coords *sparse.Coords, latents []float32) (err error) {
	wanted := r.request.outputs()
	if wanted&Gaussians != 0 {
		r.result.Gaussians, err = with(r, &r.p.gaussians, StageGaussians, 1, func(m *decoder.GaussiansDecoder) (*splat.Gaussians, error) {
			return m.Decode(r.ctx, coords, latents)
		})
	}
	if err == nil && wanted&Gaussians4 != 0 {
		r.result.Gaussians4, err = with(r, &r.p.gaussians4, StageGaussians4, 1, func(m *decoder.GaussiansDecoder) (*splat.Gaussians, error) {
			return m.Decode(r.ctx, coords, latents)
		})
	}
	if err == nil && wanted&Mesh != 0 {
		r.result.Mesh, err = with(r, &r.p.mesh, StageMesh, 1, func(m *decoder.MeshDecoder) (*flexicubes.Mesh, error) {
			if r.p.limit > 0 {
				m.SlabVoxels = r.p.demand.slabVoxels(r.p.limit, r.p.stream, coords.Layout.Count)
			}
			return m.Decode(r.ctx, coords, latents)
		})
	}
	return err
}
