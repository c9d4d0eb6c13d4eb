// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package moge estimates the geometry of a picture: for each pixel the point that is seen there, and the camera (Wang
// et al., "MoGe: Unlocking Accurate Monocular Geometry Estimation for Open-Domain Images with Optimal Training
// Supervision", 2024).
//
// The network is MoGe-1, the depth model of SAM 3D Objects: a vision transformer, whose last layers are enlarged by
// convolutions to a map of points and a mask. The points are right up to a scale, which stays unknown, and a shift
// along the view direction, which RecoverFocalShift finds together with the focal length.
//
// Camera axes: x right, y down, z forward.
package moge

import (
	"context"
	"fmt"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/dinov2"
	"github.com/gomlx3d/image3d/internal/imageio"
	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/weights"
)

const patch = 14 // side of a patch in pixels

// Model holds a network's weights on a device. It is safe for concurrent use.
//
// Arithmetic is float32 throughout: in half precision the attention of this encoder moves the scale of a scene by more
// than a tenth.
type Model struct {
	cfg     Config
	encoder *dinov2.Encoder
	weights []nn.Weights   // everything but the encoder's, to be freed
	image   nn.Weights     // mean, std
	project nn.Weights     // of the encoder's layers
	stages  [][]nn.Weights // of each doubling: upsample, then the residual blocks
	output  nn.Weights     // of the branches

	normalizing, projecting, upsampling, residual, branching *nn.Program

	strip int // pixels that the output branches work on at a time
}

// New checks the weights against the configuration and uploads them in their own precision. The set may be closed
// afterwards. Errors wrap ErrConfig, or are those of package weights.
func New(backend compute.Backend, cfg Config, set *weights.Set) (m *Model, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := set.Check(Spec(cfg)); err != nil {
		return nil, fmt.Errorf("moge: %w", err)
	}
	m = &Model{cfg: cfg, strip: stripPixels}
	m.compile(backend)
	defer func() {
		if err != nil {
			m.Close()
			m = nil
		}
	}()
	if m.encoder, err = dinov2.New(backend, cfg.Backbone, set.Sub("backbone.")); err != nil {
		return m, fmt.Errorf("moge: %w", err)
	}
	for _, prefix := range []string{"image_", "head."} {
		uploaded, err := set.Sub(prefix).Upload(backend)
		if err != nil {
			return m, fmt.Errorf("moge: %w", err)
		}
		m.weights = append(m.weights, uploaded)
	}
	m.split(m.weights[0], m.weights[1])
	return m, nil
}

// split sorts the weights by the programs that use them.
func (m *Model) split(image, head nn.Weights) {
	m.image, m.project, m.output = image, head.In("projects"), head.In("output_block")
	for s := range m.cfg.UpsampleDims {
		stage := head.In("upsample_blocks.%d", s)
		var parts []nn.Weights
		for block := range 1 + m.cfg.ResBlocks {
			parts = append(parts, stage.In("%d", block))
		}
		m.stages = append(m.stages, parts)
	}
}

func (m *Model) compile(backend compute.Backend) {
	cfg := m.cfg
	program := func(name string, build func(p nn.Params, in []*Node) *Node) *nn.Program {
		return nn.NewProgram(backend, "moge."+name, func(p nn.Params, in []*Node) []*Node { return []*Node{build(p, in)} })
	}
	m.normalizing = program("normalize", func(p nn.Params, in []*Node) *Node { return normalize(p, in[0]) })
	m.projecting = program("project", func(p nn.Params, in []*Node) *Node {
		return project(p, cfg.Backbone, in[2:], in[0], in[1])
	})
	m.upsampling = program("upsample", func(p nn.Params, in []*Node) *Node { return upsample(p, in[0], in[1], in[2]) })
	m.residual = program("residual", func(p nn.Params, in []*Node) *Node { return residual(p, in[0]) })
	m.branching = program("output", func(p nn.Params, in []*Node) *Node {
		rows, cols := tapNodes{in[1], in[2], in[3]}, tapNodes{in[4], in[5], in[6]}
		return output(p, cfg, in[0], rows, cols, in[7], in[8])
	})
}

// Config returns the hyperparameters.
func (m *Model) Config() Config { return m.cfg }

// Close frees the weights and the compiled programs. It must not be called during another call.
func (m *Model) Close() {
	if m.encoder != nil {
		m.encoder.Close()
	}
	for _, p := range []*nn.Program{m.normalizing, m.projecting, m.upsampling, m.residual, m.branching} {
		p.Close()
	}
	for _, w := range m.weights {
		w.Free()
	}
}

// Image is a picture of three planes, red, green and blue.
type Image struct {
	Height, Width int
	Pixels        []float32 // [3, Height, Width], 0..1
}

// Raw is what the network says of a picture, at the picture's size.
type Raw struct {
	Height, Width int
	Points        []float32 // [Height, Width, 3], up to a scale and a shift of z
	Mask          []float32 // [Height, Width]; above Config.MaskThreshold a point is valid
}

// Forward runs the network on a picture of about the given number of patches. Each patch is 14x14 working pixels,
// whatever the size of the picture.
//
// Errors wrap ErrInput, or are the context's.
func (m *Model) Forward(ctx context.Context, image Image, numTokens int) (*Raw, error) {
	if err := image.check(); err != nil {
		return nil, err
	}
	size, err := workingSize(image.Height, image.Width, numTokens)
	if err != nil {
		return nil, err
	}
	picture, err := size.prepare(image)
	if err != nil {
		return nil, fmt.Errorf("moge: %w", err)
	}
	values, err := m.network(ctx, size, picture)
	if err != nil {
		return nil, err
	}
	values, err = imageio.Resize(values, image.Height, image.Width, imageio.Bilinear)
	if err != nil {
		return nil, fmt.Errorf("moge: %w", err)
	}
	return &Raw{
		Height: image.Height, Width: image.Width,
		Points: m.cfg.Remap.points(values), Mask: values.Data[3*image.Height*image.Width:],
	}, ctx.Err()
}

// network evaluates the network at the working size.
//
//	picture [3, 14 rows, 14 cols]
//	values  [4, height, width]
func (m *Model) network(ctx context.Context, size working, picture imageio.Planes) (values imageio.Planes, err error) {
	layers, err := m.encode(ctx, picture)
	if err != nil {
		return values, err
	}
	x, err := m.decode(ctx, size, layers)
	nn.Free(layers...)
	defer func() { nn.Free(x) }()
	if err != nil {
		return values, err
	}
	return m.evaluate(ctx, size, x)
}

// encode returns the tokens after the selected blocks and the final norm, on the device.
func (m *Model) encode(ctx context.Context, picture imageio.Planes) ([]*tensors.Tensor, error) {
	input := tensors.FromFlatDataAndDimensions(picture.Data, 1, picture.C, picture.H, picture.W)
	defer nn.Free(input)
	normalized, err := m.normalizing.Call1(m.image, input)
	if err != nil {
		return nil, err
	}
	defer nn.Free(normalized)
	return m.encoder.Intermediate(ctx, normalized, m.cfg.Layers...)
}

// decode enlarges the projected layers eight times, on the device. Also with an error the caller frees what it returns.
func (m *Model) decode(ctx context.Context, size working, layers []*tensors.Tensor) (*tensors.Tensor, error) {
	rows, cols := size.rows, size.cols
	u, v := size.coordinates(rows, cols)
	in := []any{u, v}
	for _, layer := range layers {
		in = append(in, layer)
	}
	x, err := m.projecting.Call1(m.project, in...)
	for _, stage := range m.stages {
		for i, w := range stage {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return x, err
			}
			before := x
			if i == 0 {
				x, err = m.upsampling.Call1(w, before, u, v)
			} else {
				x, err = m.residual.Call1(w, before)
			}
			nn.Free(before)
		}
		rows, cols = 2*rows, 2*cols
		u, v = size.coordinates(rows, cols)
	}
	return x, err
}
