// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package decoder turns the latents of SAM 3D Objects into things: occupied voxels, Gaussians, a mesh.
package decoder

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/weights"
)

var (
	// ErrConfig is wrapped by errors about a model's hyperparameters.
	ErrConfig = errors.New("decoder: invalid configuration")
	// ErrInput is wrapped by errors about a call's arguments.
	ErrInput = errors.New("decoder: invalid input")
	// ErrNoVoxels is wrapped when a latent decodes to empty space.
	ErrNoVoxels = errors.New("decoder: no occupied voxels")
)

const (
	structureEpsilon = 1e-5
	outputGroups     = 32
	maxCells         = 1 << 27 // of a dense grid: 512 in each direction
)

// StructureConfig holds the hyperparameters of Structure. Comments give the released values.
type StructureConfig struct {
	LatentChannels int   // 8
	OutChannels    int   // 1
	Channels       []int // by resolution, which doubles from one to the next; 512, 128, 32
	ResBlocks      int   // at each resolution; 2
	MiddleBlocks   int   // before the first; 2
	GroupNorm      bool  // group norm of 32 groups, not layer norm, before the output ("norm_type" group); false
}

// ReleasedStructure returns the hyperparameters of the released checkpoint.
func ReleasedStructure() StructureConfig {
	return StructureConfig{LatentChannels: 8, OutChannels: 1, Channels: []int{512, 128, 32}, ResBlocks: 2, MiddleBlocks: 2}
}

// Validate reports the first hyperparameter that no model can have. The error wraps ErrConfig.
func (cfg StructureConfig) Validate() error {
	bad := func(name string, value int) error { return fmt.Errorf("%w: structure: %s %d", ErrConfig, name, value) }
	if len(cfg.Channels) < 1 || len(cfg.Channels) > 8 {
		return bad("number of resolutions", len(cfg.Channels))
	}
	for _, c := range append([]int{cfg.LatentChannels, cfg.OutChannels}, cfg.Channels...) {
		if c < 1 || c > 1<<16 {
			return bad("channels", c)
		}
	}
	for _, n := range []int{cfg.ResBlocks, cfg.MiddleBlocks} {
		if n < 0 || n > 1<<10 {
			return bad("number of blocks", n)
		}
	}
	if last := cfg.Channels[len(cfg.Channels)-1]; cfg.GroupNorm && last%outputGroups != 0 {
		return fmt.Errorf("%w: structure: %d channels do not divide into %d groups", ErrConfig, last, outputGroups)
	}
	return nil
}

// layer is one step of the decoder: a module of the checkpoint.
type layer struct {
	name    string
	kind    layerKind
	in, out int // channels
}

type layerKind int

const (
	convolution layerKind = iota
	residual
	upsampling
	output
)

// layers returns the modules in calling order.
func (cfg StructureConfig) layers() []layer {
	width := cfg.Channels[0]
	layers := []layer{{"input_layer", convolution, cfg.LatentChannels, width}}
	for i := range cfg.MiddleBlocks {
		layers = append(layers, layer{fmt.Sprintf("middle_block.%d", i), residual, width, width})
	}
	blocks := 0
	add := func(kind layerKind, in, out int) {
		layers = append(layers, layer{fmt.Sprintf("blocks.%d", blocks), kind, in, out})
		blocks++
	}
	for level, channels := range cfg.Channels {
		for range cfg.ResBlocks {
			add(residual, channels, channels)
		}
		if level+1 < len(cfg.Channels) {
			add(upsampling, channels, cfg.Channels[level+1])
		}
	}
	return append(layers, layer{"out_layer", output, cfg.Channels[len(cfg.Channels)-1], cfg.OutChannels})
}

// StructureSpec lists the parameters of the structure decoder by their checkpoint names. The configuration must be
// valid.
func StructureSpec(cfg StructureConfig) weights.Spec {
	spec := make(weights.Spec)
	conv := func(name string, in, out int) {
		spec[name+".weight"] = weights.Param{Shape: []int{out, in, 3, 3, 3}}
		spec[name+".bias"] = weights.Param{Shape: []int{out}}
	}
	norm := func(name string, channels int) {
		spec[name+".weight"] = weights.Param{Shape: []int{channels}}
		spec[name+".bias"] = weights.Param{Shape: []int{channels}}
	}
	for _, l := range cfg.layers() {
		switch l.kind {
		case convolution:
			conv(l.name, l.in, l.out)
		case residual:
			norm(l.name+".norm1", l.in)
			conv(l.name+".conv1", l.in, l.out)
			norm(l.name+".norm2", l.out)
			conv(l.name+".conv2", l.out, l.out)
		case upsampling:
			conv(l.name+".conv", l.in, 8*l.out)
		case output:
			norm(l.name+".0", l.in)
			conv(l.name+".2", l.in, l.out)
		}
	}
	return spec
}

// Structure decodes the shape latent of stage 1 to occupancy (sparse_structure_vae.py of the original, its decoder):
// residual blocks of dense 3x3x3 convolutions, with pixel shuffles to double the resolution.
//
// It is safe for concurrent use until closed.
type Structure struct {
	cfg      StructureConfig
	backend  compute.Backend
	weights  nn.Weights
	layers   []layer
	modules  []nn.Weights // by layer
	programs [output + 1]*nn.Program
}

// NewStructure uploads the weights of set, in their own precision, to the backend's first device. It fails with
// ErrConfig, or with an error of package weights if the set is not that of the configuration. The set may be closed
// afterwards.
func NewStructure(backend compute.Backend, cfg StructureConfig, set *weights.Set) (*Structure, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Structure{cfg: cfg, backend: backend, layers: cfg.layers()}
	s.programs = [...]*nn.Program{
		convolution: nn.NewProgram(backend, "decoder.structure.input", inputGraph),
		residual:    nn.NewProgram(backend, "decoder.structure.residual", residualGraph),
		upsampling:  nn.NewProgram(backend, "decoder.structure.upsample", upsampleGraph),
		output:      nn.NewProgram(backend, "decoder.structure.output", cfg.outputGraph),
	}
	if err := s.Load(set); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Load uploads the weights of set again after Unload. It fails as NewStructure does, and then nothing is loaded.
func (s *Structure) Load(set *weights.Set) (err error) {
	s.Unload() // if they are there
	if err := set.Check(StructureSpec(s.cfg)); err != nil {
		return fmt.Errorf("decoder: structure: %w", err)
	}
	if s.weights, err = set.Upload(s.backend); err != nil {
		return fmt.Errorf("decoder: structure: %w", err)
	}
	for _, l := range s.layers {
		s.modules = append(s.modules, s.weights.In("%s", l.name))
	}
	return nil
}

// Unload frees the weights. The programs stay, for Load. Neither must be called during another call.
func (s *Structure) Unload() {
	s.weights.Free()
	s.weights, s.modules = nil, nil
}

// Config returns the hyperparameters.
func (s *Structure) Config() StructureConfig { return s.cfg }

// Close frees the device memory and the programs.
func (s *Structure) Close() {
	for _, program := range s.programs {
		program.Close()
	}
	s.Unload()
}

// Decode returns the occupancy logits of a latent: above 0 is occupied.
//
//	latent [B, n*n*n, LatentChannels] float32, cell (x*n + y)*n + z, as the structure flow leaves it;
//	       or [B, LatentChannels, X, Y, Z]
//	out    [B, OutChannels, rX, rY, rZ] float32, with r = 2^(resolutions-1); on the device, the caller frees it
//
// Each layer is a program of its own, shared by the layers of its shape: the work stops within one layer of ctx being
// cancelled, and no more than the activations of one layer are held. It fails with ctx.Err() or ErrInput.
func (s *Structure) Decode(ctx context.Context, latent *tensors.Tensor) (*tensors.Tensor, error) {
	if err := s.check(latent); err != nil {
		return nil, err
	}
	x := latent
	for i, l := range s.layers {
		if err := ctx.Err(); err != nil {
			s.release(x, latent)
			return nil, err
		}
		next, err := s.programs[l.kind].Call1(s.modules[i], x)
		s.release(x, latent)
		if err != nil {
			return nil, err
		}
		x = next
	}
	return x, nil
}

// release frees x unless it is the caller's.
func (s *Structure) release(x, latent *tensors.Tensor) {
	if x != latent {
		nn.Free(x)
	}
}

func (s *Structure) check(latent *tensors.Tensor) error {
	if latent == nil || !latent.Ok() {
		return fmt.Errorf("%w: structure: no latent", ErrInput)
	}
	dims, want := latent.Shape().Dimensions, s.cfg.LatentChannels
	cube := len(dims) == 3 && dims[2] == want && cubeRoot(dims[1]) > 0
	grid := len(dims) == 5 && dims[1] == want
	if !cube && !grid || latent.DType() != dtypes.Float32 {
		return fmt.Errorf("%w: structure: latent %s, want float32 [B, n³, %d] or [B, %d, X, Y, Z]", ErrInput, latent.Shape(), want, want)
	}
	cells := latent.Size() / want
	if limit := maxCells >> (3 * (len(s.cfg.Channels) - 1)); cells < 1 || cells > limit {
		return fmt.Errorf("%w: structure: latent of %d cells, must be 1 to %d", ErrInput, cells, limit)
	}
	return nil
}

// cubeRoot returns the n whose cube is cells, or 0.
func cubeRoot(cells int) int {
	if n := int(math.Round(math.Cbrt(float64(cells)))); n*n*n == cells {
		return n
	}
	return 0
}

// inputGraph is the first convolution.
//
//	in  [B, n*n*n, C] or [B, C, X, Y, Z]
//	out [B, X, Y, Z, D]
func inputGraph(p nn.Params, in []*Node) []*Node {
	x, dims := in[0], in[0].Shape().Dimensions
	if len(dims) == 3 {
		n := cubeRoot(dims[1])
		x = Reshape(x, dims[0], n, n, n, dims[2]) // [B, X, Y, Z, C]
	} else {
		x = TransposeAllAxes(x, 0, 2, 3, 4, 1) // [B, X, Y, Z, C]
	}
	return []*Node{nn.Conv3D(p, x)}
}

// residualGraph adds two convolutions, each after a layer norm and SiLU.
//
//	in, out [B, X, Y, Z, C]
func residualGraph(p nn.Params, in []*Node) []*Node {
	h := in[0]
	for _, half := range []string{"1", "2"} {
		h = nn.SiLU(nn.LayerNorm(p.In("norm%s", half), h, structureEpsilon))
		h = OptimizationBarriers(nn.Conv3D(p.In("conv%s", half), h))[0]
	}
	return []*Node{Add(in[0], h)}
}

// upsampleGraph doubles the resolution: a convolution to eight times the channels, of which each takes one corner of
// its cell (channel c*8 + i*4 + j*2 + k goes to channel c at 2x+i, 2y+j, 2z+k).
//
//	in  [B, X, Y, Z, C]
//	out [B, 2X, 2Y, 2Z, D]
func upsampleGraph(p nn.Params, in []*Node) []*Node {
	x := nn.Conv3D(p.In("conv"), in[0]) // [B, X, Y, Z, 8D]
	d := x.Shape().Dimensions
	x = Reshape(x, d[0], d[1], d[2], d[3], d[4]/8, 2, 2, 2)
	x = TransposeAllAxes(x, 0, 1, 5, 2, 6, 3, 7, 4) // [B, X, 2, Y, 2, Z, 2, D]
	return []*Node{Reshape(x, d[0], 2*d[1], 2*d[2], 2*d[3], d[4]/8)}
}

// outputGraph is the last norm and convolution.
//
//	in  [B, X, Y, Z, C]
//	out [B, D, X, Y, Z]
func (cfg StructureConfig) outputGraph(p nn.Params, in []*Node) []*Node {
	x := in[0]
	if cfg.GroupNorm {
		x = nn.GroupNorm(p.In("0"), x, outputGroups, structureEpsilon)
	} else {
		x = nn.LayerNorm(p.In("0"), x, structureEpsilon)
	}
	return []*Node{TransposeAllAxes(nn.Conv3D(p.In("2"), nn.SiLU(x)), 0, 4, 1, 2, 3)}
}
