// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flow

import (
	"context"
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/sparse"
	"github.com/gomlx3d/image3d/weights"
)

// Latent is the flow model of stage 2: the velocity of the features of occupied voxels. Sparse residual blocks take
// them to the grid of half the resolution, where a transformer works on all voxels at once, and back
// (structured_latent_flow.py of the original; Xiang et al. 2024, arXiv:2412.01506).
//
// It is safe for concurrent use until closed.
type Latent struct {
	cfg     LatentConfig
	backend compute.Backend
	weights nn.Weights // all, on the device

	entry, entryNoStep, exit nn.Weights
	before, after            []nn.Weights // residual blocks in calling order
	up                       upWeights    // after[0]
	blocks                   []latentBlock

	sampler  *Sampler
	programs latentPrograms
}

type latentPrograms struct {
	finite, project, enter, residualIn, pool, down      *nn.Program
	conditional, unconditional, constant                *nn.Program
	upProject, upGather, upConvolve, residualOut, leave *nn.Program
}

func (p latentPrograms) all() []*nn.Program {
	return []*nn.Program{
		p.finite, p.project, p.enter, p.residualIn, p.pool, p.down, p.conditional, p.unconditional,
		p.upProject, p.upGather, p.upConvolve, p.residualOut, p.leave, p.constant,
	}
}

// upWeights are what the residual block that comes back from the parents passes to its programs.
type upWeights struct{ project, gather, convolve nn.Weights }

// latentBlock is what one transformer block passes to its programs.
type latentBlock struct {
	project, conditional, unconditional nn.Weights
	constant                            *tensors.Tensor // [D]
}

// NewLatent uploads the weights of set, in their own precision, to the backend's first device. It fails with ErrConfig,
// or with an error of package weights if the set is not that of the configuration. The set may be closed afterwards.
func NewLatent(backend compute.Backend, cfg LatentConfig, set *weights.Set) (*Latent, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	l := &Latent{cfg: cfg, backend: backend, sampler: NewSampler(backend)}
	program := func(name string, build nn.GraphFn) *nn.Program {
		return nn.NewProgram(backend, "flow.latent."+name, build)
	}
	l.programs = latentPrograms{
		finite: program("finite", finiteTokens), project: program("project", cfg.project), enter: program("enter", cfg.enter),
		residualIn: program("input", residualIn), pool: program("pool", pool), down: program("down", cfg.down),
		conditional: program("block", cfg.conditionalBlock), unconditional: program("unconditional", cfg.unconditionalBlock),
		upProject: program("up", upProject), upGather: program("gather", upGather), upConvolve: program("convolve", upConvolve),
		residualOut: program("output", residualOut), leave: program("leave", leave), constant: program("constant", cfg.constant),
	}
	if err := l.Load(set); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Load uploads the weights of set again after Unload. It fails as NewLatent does, and then nothing is loaded.
func (l *Latent) Load(set *weights.Set) (err error) {
	l.Unload() // if they are there
	if err := set.Check(LatentSpec(l.cfg)); err != nil {
		return fmt.Errorf("flow: latent: %w", err)
	}
	if l.weights, err = set.Upload(l.backend); err != nil {
		return fmt.Errorf("flow: latent: %w", err)
	}
	l.entry = l.weights.Only("t_embedder", "d_embedder", "input_layer")
	l.entryNoStep = l.entry.Only("t_embedder", "input_layer")
	l.exit = l.weights.Only("out_layer")
	for i := range l.cfg.IOBlocks {
		l.before = append(l.before, l.weights.In("input_blocks.%d", i))
		l.after = append(l.after, l.weights.In("out_blocks.%d", i))
	}
	l.up = upWeights{
		project:  l.after[0].Only("norm1", "conv1.conv.weight", "skip_connection"),
		gather:   l.after[0].Only("conv1.conv.bias"),
		convolve: l.after[0].Only("emb_layers", "conv2"),
	}
	if err := l.prepareBlocks(); err != nil {
		l.Unload()
		return err
	}
	return nil
}

// Unload frees the weights. The programs stay, for Load. Neither must be called during another call.
func (l *Latent) Unload() {
	for _, block := range l.blocks {
		nn.Free(block.constant)
	}
	l.weights.Free()
	l.weights, l.entry, l.entryNoStep, l.exit, l.before, l.after, l.blocks = nil, nil, nil, nil, nil, nil, nil
	l.up = upWeights{}
}

// prepareBlocks sorts the weights of each block by the program that takes them, and computes the constants.
func (l *Latent) prepareBlocks() error {
	for i := range l.cfg.Blocks {
		all := l.weights.In("blocks.%d", i)
		constant, err := l.programs.constant.Call1(all.Only("cross_attn.to_kv.bias", "cross_attn.to_out"))
		if err != nil {
			return err
		}
		l.blocks = append(l.blocks, latentBlock{
			project:       all.Only("cross_attn.to_kv"),
			conditional:   all.Only("adaLN_modulation", "self_attn", "mlp", "norm2", "cross_attn.to_q", "cross_attn.to_out"),
			unconditional: all.Only("adaLN_modulation", "self_attn", "mlp"),
			constant:      constant,
		})
	}
	return nil
}

// Config returns the hyperparameters.
func (l *Latent) Config() LatentConfig { return l.cfg }

// Close frees the device memory and the programs.
func (l *Latent) Close() {
	for _, program := range l.programs.all() {
		program.Close()
	}
	l.sampler.Close()
	l.Unload()
}

// Condition projects condition tokens [B, S, CondWidth], float32, for all blocks. The result belongs to the caller; the
// tokens are no longer needed. It fails with ErrNonFinite or ErrInput.
func (l *Latent) Condition(ctx context.Context, tokens *tensors.Tensor) (*Context, error) {
	if err := l.checkTokens(tokens); err != nil {
		return nil, err
	}
	finite, err := l.programs.finite.Call1(nil, tokens)
	if err != nil {
		return nil, err
	}
	defer nn.Free(finite)
	if ok, err := tensors.CopyFlatData[bool](finite); err != nil {
		return nil, fmt.Errorf("flow: %w", err)
	} else if !ok[0] {
		return nil, fmt.Errorf("%w: latent: tokens %s", ErrNonFinite, tokens.Shape())
	}
	c := &Context{owner: l, batch: tokens.Shape().Dimensions[0]}
	for i := range l.blocks {
		if err := ctx.Err(); err != nil {
			c.Free()
			return nil, err
		}
		kv, err := l.programs.project.Call(l.blocks[i].project, tokens)
		if err != nil {
			c.Free()
			return nil, err
		}
		c.blocks = append(c.blocks, kv)
	}
	return c, nil
}

func (l *Latent) checkTokens(tokens *tensors.Tensor) error {
	if tokens == nil || !tokens.Ok() {
		return fmt.Errorf("%w: latent: no condition tokens", ErrInput)
	}
	dims := tokens.Shape().Dimensions
	if len(dims) != 3 || dims[0] < 1 || dims[1] < 1 || dims[2] != l.cfg.CondWidth || tokens.DType() != dtypes.Float32 {
		return fmt.Errorf("%w: latent: condition tokens %s, want float32 [B, S, %d]", ErrInput, tokens.Shape(), l.cfg.CondWidth)
	}
	return nil
}

// Features are the latents of the voxels of an object, in the order of its coordinates.
type Features struct {
	Normalized []float32 // [N, channels] as the flow ends
	Scaled     []float32 // [N, channels] as the decoders take them
}

// Sample integrates the flow from noise [N, channels] (see LatentConfig.Noise) to data, for the N voxels of coords. The
// coordinates must be within the model's grid and of as many batch items as c. Guidance with a point-map pass needs two
// contexts: run Velocity under a Sampler of your own.
//
// It returns ctx.Err() within one block of being cancelled, and errors wrapping ErrInput.
func (l *Latent) Sample(ctx context.Context, coords *sparse.Coords, c *Context, noise []float32, scale LatentScale, opt Sampling) (*Features, error) {
	if opt.Guidance.PointMap {
		return nil, fmt.Errorf("%w: latent: no second context for point-map guidance", ErrInput)
	}
	if err := scale.check(l.cfg.Channels); err != nil {
		return nil, err
	}
	v, err := l.Voxels(coords)
	if err != nil {
		return nil, err
	}
	defer v.Free()
	if len(noise) != coords.Layout.Count*l.cfg.Channels {
		return nil, fmt.Errorf("%w: latent: %d values of noise for %d voxels of %d channels", ErrInput, len(noise), coords.Layout.Count, l.cfg.Channels)
	}
	x, err := v.Layout.UploadFeatures(l.backend, noise, l.cfg.Channels)
	if err != nil {
		return nil, err
	}
	defer nn.Free(x)
	evaluation := &latentEvaluation{model: l, voxels: v}
	defer evaluation.free()
	velocity := func(ctx context.Context, x Latents, t, d []float32, branch Branch) (Latents, error) {
		out, err := evaluation.velocity(ctx, x[LatentName], t, d, l.under(branch, c, opt.Guidance))
		if err != nil {
			return nil, err
		}
		return Latents{LatentName: out}, nil
	}
	end, err := l.sampler.Run(ctx, velocity, Latents{LatentName: x}, opt)
	if err != nil {
		return nil, err
	}
	defer end.Free()
	normalized, err := v.Layout.Strip(end[LatentName])
	if err != nil {
		return nil, err
	}
	return &Features{Normalized: normalized, Scaled: scale.apply(normalized)}, nil
}

// under returns the context of a branch. A model without ZeroCondition ignores the flag, but not zeros.
func (l *Latent) under(branch Branch, c *Context, g Guidance) *Context {
	if branch == Unconditional && (l.cfg.ZeroCondition || g.Zeros) {
		return nil
	}
	return c
}
