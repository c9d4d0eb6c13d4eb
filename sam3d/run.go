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
	"github.com/gomlx3d/image3d/moge"
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
	ctx     context.Context
	p       *Pipeline
	request *Request
	started time.Time
	stage   Stage
	done    int // steps of the stage that were reported
	result  *Result
	device  []*tensors.Tensor // to be freed at the end, if not before
}

func newRun(ctx context.Context, p *Pipeline, request *Request) *run {
	return &run{ctx: ctx, p: p, request: request, started: time.Now(), result: &Result{Resolution: p.cfg.latent.Resolution}}
}

func (r *run) free() { nn.Free(r.device...) }

// own has tensors freed with the run.
func (r *run) own(ts ...*tensors.Tensor) { r.device = append(r.device, ts...) }

func (r *run) warn(format string, args ...any) {
	r.result.Warnings = append(r.result.Warnings, fmt.Sprintf(format, args...))
}

// generate is the data path.
func (r *run) generate(picture *input.Picture) (*Result, error) {
	points, err := r.pointMap(picture)
	if err != nil {
		return nil, err
	}
	conditions, err := r.conditions(picture, points)
	if err != nil {
		return nil, err
	}
	tokens, err := r.encode(conditions)
	if err != nil {
		return nil, err
	}
	state, err := r.sampleStructure(tokens)
	if err != nil {
		return nil, err
	}
	coords, err := r.voxels(state, conditions)
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
	r.result.Took = time.Since(r.started)
	return r.result, nil
}

// during runs one stage of a number of steps: it checks the context, reports progress and takes the time.
func during[T any](r *run, stage Stage, of int, work func() (T, error)) (out T, err error) {
	if err := r.ctx.Err(); err != nil {
		return out, fmt.Errorf("sam3d: before %s: %w", stage, err)
	}
	begin := time.Now()
	r.stage, r.done = stage, -1
	r.report(0, of)
	out, err = work()
	if err == nil {
		err = r.ctx.Err()
	}
	if err != nil {
		return out, fmt.Errorf("sam3d: %s: %w", stage, err)
	}
	r.report(of, of)
	r.result.Timings = append(r.result.Timings, Timing{Stage: stage, Took: time.Since(begin)})
	return out, nil
}

// report tells the caller about a step, once.
func (r *run) report(step, of int) {
	if step == r.done {
		return
	}
	r.done = step
	if r.request.Progress != nil {
		r.request.Progress(Event{Stage: r.stage, Step: step, Of: of, Elapsed: time.Since(r.started)})
	}
}

// pointMap returns the request's point map, the depth model's, or nil.
func (r *run) pointMap(picture *input.Picture) (*PointMap, error) {
	if r.request.PointMap != nil {
		return r.request.PointMap, nil
	}
	if r.p.depth == nil && !r.request.NoDepth {
		r.warn("no point map was given, and there is no depth model (%s): the object was made from the picture alone, and its "+
			"pose has no scale", r.p.noDepth)
	}
	if r.p.depth == nil || r.request.NoDepth {
		return nil, nil
	}
	return during(r, StageDepth, 1, func() (*PointMap, error) {
		rgb := picture.RGB()
		depth, err := r.p.depth.Infer(r.ctx, moge.Image{Height: rgb.H, Width: rgb.W, Pixels: rgb.Data}, moge.Options{})
		if err != nil {
			return nil, err
		}
		if depth.Degenerate() {
			r.warn("the depth model found no camera for the picture: the pose is a guess")
		}
		points, err := input.FromDepthCamera(depth.Width, depth.Height, depth.Points)
		return &points, err
	})
}

// conditions prepares what the encoders read.
func (r *run) conditions(picture *input.Picture, points *PointMap) (*input.Conditions, error) {
	r.result.PointMap = points
	return during(r, StageInput, 1, func() (*input.Conditions, error) {
		options := input.Options{Size: r.p.cfg.imageSize, ClipBeyond: r.p.cfg.clipBeyond}
		c, err := picture.Prepare(points, options)
		if errors.Is(err, input.ErrNoPoints) && r.request.PointMap == nil {
			r.warn("the depth model sees nothing where the object is: its pose has no scale")
			options.AsOriginal = true
			c, err = picture.Prepare(points, options)
		}
		return c, err
	})
}

// tokens are what the flows attend to, on the device.
type tokens struct{ structure, latent *tensors.Tensor }

// encode encodes the conditions for both flows.
func (r *run) encode(c *input.Conditions) (t tokens, err error) {
	return during(r, StageCondition, 1, func() (tokens, error) {
		t.structure, t.latent, err = r.p.condition.Encode(r.ctx, condition.Views{
			Size: c.Size, Image: c.Crop.Image, Mask: c.Crop.Mask, PointMap: c.Crop.Points,
			RGBImage: c.Full.Image, RGBMask: c.Full.Mask, RGBPointMap: c.Full.Points,
		})
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
	return during(r, StageStructure, sampling.Steps, func() (flow.Latents, error) {
		noise, err := r.structureNoise()
		if err != nil {
			return nil, err
		}
		defer noise.Free()
		known, err := r.p.structure.Condition(r.ctx, t.structure)
		if err != nil {
			return nil, err
		}
		defer known.Free()
		nn.Free(t.structure)
		state, err := r.p.structure.Sample(r.ctx, known, noise, sampling)
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
	return during(r, StageVoxels, 1, func() (*sparse.Coords, error) {
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
		logits, err := r.p.structureDecoder.Decode(r.ctx, state[flow.ShapeLatent])
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
	for i, name := range []string{"6drotation_normalized", "translation", "scale", "translation_scale"} {
		if state[name] == nil {
			return Pose{}, fmt.Errorf("%w: the structure flow has no latent %q", ErrConfig, name)
		}
		var err error
		if parts[i], err = tensors.CopyFlatData[float32](state[name]); err != nil {
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
	return during(r, StageLatent, sampling.Steps, func() ([]float32, error) {
		noise := r.p.cfg.latent.Noise(r.request.Seed, coords.Layout.Count)
		if given := r.request.Noise; given != nil && given.Latent != nil {
			if len(given.Latent) != len(noise) {
				return nil, fmt.Errorf("%w: %d values of latent noise; %d voxels need %d", ErrRequest, len(given.Latent),
					coords.Layout.Count, len(noise))
			}
			noise = given.Latent
		}
		known, err := r.p.latent.Condition(r.ctx, t.latent)
		if err != nil {
			return nil, err
		}
		defer known.Free()
		nn.Free(t.latent)
		features, err := r.p.latent.Sample(r.ctx, coords, known, noise, r.p.cfg.latentScale, sampling)
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
		r.result.Gaussians, err = during(r, StageGaussians, 1, func() (*splat.Gaussians, error) {
			return r.p.gaussians.Decode(r.ctx, coords, latents)
		})
	}
	if err == nil && wanted&Gaussians4 != 0 {
		r.result.Gaussians4, err = during(r, StageGaussians4, 1, func() (*splat.Gaussians, error) {
			return r.p.gaussians4.Decode(r.ctx, coords, latents)
		})
	}
	if err == nil && wanted&Mesh != 0 {
		r.result.Mesh, err = during(r, StageMesh, 1, func() (*flexicubes.Mesh, error) {
			return r.p.mesh.Decode(r.ctx, coords, latents)
		})
	}
	return err
}
