// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package moge estimates the geometry of a picture: for each pixel the point that is seen there, and the camera. It
// holds the three versions of MoGe behind one Model:
//
//   - MoGe-1, the depth model of SAM 3D Objects: points up to an unknown scale, and a mask (Wang et al., "MoGe: Unlocking
//     Accurate Monocular Geometry Estimation for Open-Domain Images with Optimal Training Supervision", 2024);
//   - MoGe-2: points in metres, a mask and normals (Wang et al., "MoGe-2: Accurate Monocular Geometry with Metric Scale
//     and Sharp Details", 2025);
//   - MoGe-3, the depth model of the MLX bundle: MoGe-2 with a sparse network that corrects the depth in rounds.
//
// A vision transformer encodes the picture; convolutions enlarge the sum of some of its layers to maps of points, mask
// and normals. The points miss a shift along the view direction, which RecoverFocalShift finds together with the focal
// length. Files v1.go, v2.go and v3.go hold what a version has of its own.
//
// Arithmetic is float32 throughout, whatever the precision of the weights: with keys and values in half precision the
// attention of this encoder moves the scale of a scene by more than a tenth.
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
type Model struct {
	cfg Config
	*stem
	version version
}

// version is what comes after the encoder.
type version interface {
	// forward evaluates the network on a picture that was checked, with about the given number of patches and, if it
	// has a refiner, that many rounds of it.
	forward(ctx context.Context, image Image, numTokens, rounds int) (*Raw, error)
	load(set *weights.Set) error // the stem frees the weights
	close()
}

// New checks the weights against the configuration and uploads them in their own precision. The set may be closed
// afterwards. Errors wrap ErrConfig, or are those of package weights.
func New(backend compute.Backend, cfg Config, set *weights.Set) (*Model, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m := &Model{cfg: cfg, stem: newStem(backend, cfg)}
	if cfg.Version == 1 {
		m.version = newTrunk(m.stem)
	} else {
		m.version = newPyramid(m.stem)
	}
	if err := m.Load(set); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// Load uploads the weights of set again after Unload. It fails as New does, and then nothing is loaded.
func (m *Model) Load(set *weights.Set) error {
	m.Unload() // if they are there
	if err := set.Check(Spec(m.cfg)); err != nil {
		return fmt.Errorf("moge: %w", err)
	}
	err := m.stem.load(set)
	if err == nil {
		err = m.version.load(set)
	}
	if err != nil {
		m.Unload()
	}
	return err
}

// Unload frees the weights. The programs stay, for Load. Neither must be called during another call.
func (m *Model) Unload() { m.unload() }

// Config returns the hyperparameters.
func (m *Model) Config() Config { return m.cfg }

// Close frees the weights and the compiled programs. It must not be called during another call.
func (m *Model) Close() {
	m.version.close()
	m.close()
}

// Raw is what the network says of a picture, at the picture's size.
type Raw struct {
	Height, Width int
	Points        []float32 // [Height, Width, 3], short of a shift of z, and in a unit of their own
	Mask          []float32 // [Height, Width]; where it exceeds Config.MaskThreshold a point is valid; nil: no mask
	Normals       []float32 // [Height, Width, 3], of length 1, towards the camera; nil: none
	MetricScale   float32   // metres to a unit of the points; 0: not known
}

// Forward runs the network alone, without the search for the camera. Of the options only those count that say how fine
// to look: ResolutionLevel, NumTokens and RefineRounds.
//
// Errors wrap ErrInput, or are the context's.
func (m *Model) Forward(ctx context.Context, image Image, opt Options) (*Raw, error) {
	if err := image.check(); err != nil {
		return nil, err
	}
	numTokens, err := m.cfg.tokens(opt)
	if err != nil {
		return nil, err
	}
	rounds, err := m.cfg.rounds(opt)
	if err != nil {
		return nil, err
	}
	if !m.encoder.Loaded() {
		return nil, nn.ErrClosed
	}
	return m.version.forward(ctx, image, numTokens, rounds)
}

// stem is what the versions share: the encoder and the sum of its projected layers.
type stem struct {
	cfg     Config
	backend compute.Backend
	encoder *dinov2.Encoder
	weights []nn.Weights // everything but the encoder's, to be freed
	image   nn.Weights   // mean, std
	project nn.Weights   // of the encoder's layers

	normalizing, projecting *nn.Program
}

func newStem(backend compute.Backend, cfg Config) *stem {
	s := &stem{cfg: cfg, backend: backend}
	s.normalizing = s.program("normalize", func(p nn.Params, in []*Node) *Node { return normalize(p, in[0]) })
	s.projecting = s.program("project", func(p nn.Params, in []*Node) *Node {
		x := project(p, cfg.Backbone, in[2:], in[0], in[1])
		if cfg.Version > 1 { // MoGe-1 does so before each doubling of the size
			x = appendUV(x, in[0], in[1])
		}
		return x
	})
	return s
}

// program is a program of one output.
func (s *stem) program(name string, build func(p nn.Params, in []*Node) *Node) *nn.Program {
	return nn.NewProgram(s.backend, "moge."+name, func(p nn.Params, in []*Node) []*Node { return []*Node{build(p, in)} })
}

// load uploads the shared weights.
func (s *stem) load(set *weights.Set) (err error) {
	names := s.cfg.names()
	if backbone := set.Sub(names.backbone); s.encoder == nil {
		s.encoder, err = dinov2.New(s.backend, s.cfg.Backbone, backbone)
	} else {
		err = s.encoder.Load(backbone)
	}
	if err != nil {
		return fmt.Errorf("moge: %w", err)
	}
	if s.image, err = s.upload(set, names.image); err == nil {
		s.project, err = s.upload(set, names.project)
	}
	return err
}

// upload uploads the tensors below a prefix. The stem frees them.
func (s *stem) upload(set *weights.Set, prefix string) (nn.Weights, error) {
	uploaded, err := set.Sub(prefix).Upload(s.backend)
	if err != nil {
		return nil, fmt.Errorf("moge: %w", err)
	}
	s.weights = append(s.weights, uploaded)
	return uploaded, nil
}

func (s *stem) unload() {
	if s.encoder != nil {
		s.encoder.Unload()
	}
	for _, w := range s.weights {
		w.Free()
	}
	s.weights = nil
}

func (s *stem) close() {
	s.unload()
	if s.encoder != nil {
		s.encoder.Close()
	}
	s.normalizing.Close()
	s.projecting.Close()
}

// encode returns the tokens after the selected blocks and the final norm, on the device.
//
//	picture [3, 14 rows, 14 cols]
//	out     [1, T, D] for each of Config.Layers
func (s *stem) encode(ctx context.Context, picture imageio.Planes) ([]*tensors.Tensor, error) {
	input := tensors.FromFlatDataAndDimensions(picture.Data, 1, picture.C, picture.H, picture.W)
	defer nn.Free(input)
	normalized, err := s.normalizing.Call1(s.image, input)
	if err != nil {
		return nil, err
	}
	defer nn.Free(normalized)
	return s.encoder.Intermediate(ctx, normalized, s.cfg.Layers...)
}

// sum adds up the projections of the encoder's layers. u and v are the coordinates of the grid's cells.
//
//	out [1, Y, X, C], on the device
func (s *stem) sum(layers []*tensors.Tensor, u, v []float32) (*tensors.Tensor, error) {
	in := []any{u, v}
	for _, layer := range layers {
		in = append(in, layer)
	}
	return s.projecting.Call1(s.project, in...)
}
