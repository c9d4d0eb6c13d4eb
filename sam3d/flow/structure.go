// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flow

import (
	"context"
	"fmt"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/weights"
)

// Structure is the flow model of stage 1: the velocity of the coarse shape and of the pose latents. It is a transformer
// whose streams, the shape and the pose, have their own weights and meet in self attention
// (mot_sparse_structure_flow.py of the original; mixture of transformers, Liang et al. 2024, arXiv:2411.04996).
//
// It is safe for concurrent use until closed.
type Structure struct {
	cfg     StructureConfig
	backend compute.Backend
	weights nn.Weights // all, on the device

	entry, entryNoStep, exit nn.Weights
	blocks                   []structureBlock

	sampler  *Sampler
	programs struct{ enter, finite, project, conditional, unconditional, leave, constants *nn.Program }
}

// structureBlock is what one block passes to its programs.
type structureBlock struct {
	project, conditional, unconditional nn.Weights
	constants                           []*tensors.Tensor // by stream, [D]
}

// NewStructure uploads the weights of set, in their own precision, to the backend's first device. It fails with
// ErrConfig, or with an error of package weights if the set is not that of the configuration. The set may be closed
// afterwards.
func NewStructure(backend compute.Backend, cfg StructureConfig, set *weights.Set) (*Structure, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Structure{cfg: cfg, backend: backend, sampler: NewSampler(backend)}
	p := &s.programs
	p.enter = nn.NewProgram(backend, "flow.structure.enter", cfg.enter)
	p.finite = nn.NewProgram(backend, "flow.finite", finiteGraph)
	p.project = nn.NewProgram(backend, "flow.structure.project", cfg.project)
	p.conditional = nn.NewProgram(backend, "flow.structure.block", cfg.conditionalBlock)
	p.unconditional = nn.NewProgram(backend, "flow.structure.unconditional", cfg.unconditionalBlock)
	p.leave = nn.NewProgram(backend, "flow.structure.leave", cfg.leave)
	p.constants = nn.NewProgram(backend, "flow.structure.constants", cfg.constants)
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
		return fmt.Errorf("flow: structure: %w", err)
	}
	if s.weights, err = set.Upload(s.backend); err != nil {
		return fmt.Errorf("flow: structure: %w", err)
	}
	s.entry = s.weights.Only("t_embedder", "d_embedder", "adaLN_modulation", "latent_mapping")
	s.entryNoStep = s.entry.Only("t_embedder", "adaLN_modulation", "latent_mapping")
	s.exit = s.entry.Only("latent_mapping")
	if err := s.prepareBlocks(); err != nil {
		s.Unload()
		return err
	}
	return nil
}

// Unload frees the weights. The programs stay, for Load. Neither must be called during another call.
func (s *Structure) Unload() {
	for _, block := range s.blocks {
		nn.Free(block.constants...)
	}
	s.weights.Free()
	s.weights, s.entry, s.entryNoStep, s.exit, s.blocks = nil, nil, nil, nil, nil
}

// prepareBlocks sorts the weights of each block by the program that takes them, and computes the constants.
func (s *Structure) prepareBlocks() error {
	for i := range s.cfg.Blocks {
		all := s.weights.In("blocks.%d", i)
		block := structureBlock{unconditional: all.Only("adaLN_modulation", "self_attn", "mlp")}
		block.conditional = all.Only("adaLN_modulation", "self_attn", "mlp", "norm2")
		var project, attend, constants []string
		for _, stream := range s.cfg.streams() {
			cross := "cross_attn." + stream.Name
			attend = append(attend, cross+".to_q", cross+".q_rms_norm", cross+".to_out")
			if s.cfg.few(stream) {
				attend = append(attend, cross+".to_kv")
			} else {
				project = append(project, cross+".to_kv", cross+".k_rms_norm")
			}
			constants = append(constants, cross+".to_kv.bias", cross+".to_out")
		}
		block.project = all.Only(project...)
		for name, t := range all.Only(attend...) {
			block.conditional[name] = t
		}
		var err error
		if block.constants, err = s.programs.constants.Call(all.Only(constants...)); err != nil {
			return err
		}
		s.blocks = append(s.blocks, block)
	}
	return nil
}

// Config returns the hyperparameters.
func (s *Structure) Config() StructureConfig { return s.cfg }

// Close frees the device memory and the programs.
func (s *Structure) Close() {
	p := s.programs
	for _, program := range []*nn.Program{p.enter, p.finite, p.project, p.conditional, p.unconditional, p.leave, p.constants} {
		program.Close()
	}
	s.sampler.Close()
	s.Unload()
}

// Condition projects condition tokens [B, S, CondWidth], of any float dtype, for all blocks. The result belongs to the
// caller; the tokens are no longer needed. It fails with ErrNonFinite or ErrInput.
func (s *Structure) Condition(ctx context.Context, tokens *tensors.Tensor) (*Context, error) {
	if err := s.checkTokens(tokens); err != nil {
		return nil, err
	}
	checked, err := s.programs.finite.Call(nil, tokens)
	if err != nil {
		return nil, err
	}
	c := &Context{owner: s, batch: tokens.Shape().Dimensions[0], tokens: checked[1]}
	defer nn.Free(checked[0])
	if ok, err := tensors.CopyFlatData[bool](checked[0]); err != nil || !ok[0] {
		c.Free()
		if err != nil {
			return nil, fmt.Errorf("flow: %w", err)
		}
		return nil, fmt.Errorf("%w: structure: tokens %s", ErrNonFinite, tokens.Shape())
	}
	for i := range s.blocks {
		if err := ctx.Err(); err != nil {
			c.Free()
			return nil, err
		}
		var kv []*tensors.Tensor
		if w := s.blocks[i].project; len(w) > 0 {
			if kv, err = s.programs.project.Call(w, c.tokens); err != nil {
				c.Free()
				return nil, err
			}
		}
		c.blocks = append(c.blocks, kv)
	}
	return c, nil
}

// Velocity evaluates the network once.
//
//	x  every latent of the configuration, float32 [B, tokens, channels]; stays the caller's
//	t  time in thousandths (0 to 1000), 1 or B values
//	d  step size in thousandths, 1 or B values; nil for none, which differs from 0
//	c  of the same batch; nil for condition tokens that are all zero
//
// It returns ctx.Err() within one block of being cancelled, and errors wrapping ErrInput.
func (s *Structure) Velocity(ctx context.Context, x Latents, t, d []float32, c *Context) (Latents, error) {
	if err := s.check(x, t, d, c); err != nil {
		return nil, err
	}
	state, err := s.enter(x, t, d)
	if err != nil {
		return nil, err
	}
	time, streams := state[0], state[1:]
	defer nn.Free(time)
	for i := range s.blocks {
		if err := ctx.Err(); err != nil {
			nn.Free(streams...)
			return nil, err
		}
		next, err := s.block(i, time, streams, c)
		nn.Free(streams...)
		if err != nil {
			return nil, err
		}
		streams = next
	}
	defer nn.Free(streams...)
	out, err := s.programs.leave.Call(s.exit, anys(streams)...)
	if err != nil {
		return nil, err
	}
	return named(s.cfg.names(), out), nil
}

func (s *Structure) enter(x Latents, t, d []float32) ([]*tensors.Tensor, error) {
	w, times := s.entryNoStep, []*tensors.Tensor{sinusoids(t)}
	if d != nil {
		w, times = s.entry, append(times, sinusoids(d))
	}
	defer nn.Free(times...)
	return s.programs.enter.Call(w, append(anys(times), x.list(s.cfg.names())...)...)
}

func (s *Structure) block(i int, time *tensors.Tensor, streams []*tensors.Tensor, c *Context) ([]*tensors.Tensor, error) {
	args := append([]any{time}, anys(streams)...)
	if c == nil {
		return s.programs.unconditional.Call(s.blocks[i].unconditional, append(args, anys(s.blocks[i].constants)...)...)
	}
	args = append(append(args, c.tokens), anys(c.blocks[i])...)
	return s.programs.conditional.Call(s.blocks[i].conditional, args...)
}

// Sample integrates the flow from noise (see StructureConfig.Noise) to data. The result belongs to the caller, and so
// do noise and c. Guidance with a point-map pass needs two contexts: run Velocity under a Sampler of your own.
func (s *Structure) Sample(ctx context.Context, c *Context, noise Latents, opt Sampling) (Latents, error) {
	if opt.Guidance.PointMap {
		return nil, fmt.Errorf("%w: structure: no second context for point-map guidance", ErrInput)
	}
	velocity := func(ctx context.Context, x Latents, t, d []float32, branch Branch) (Latents, error) {
		return s.Velocity(ctx, x, t, d, s.under(branch, c, opt.Guidance))
	}
	return s.sampler.Run(ctx, velocity, noise, opt)
}

// under returns the context of a branch. A model without ZeroCondition ignores the flag, but not zeros.
func (s *Structure) under(branch Branch, c *Context, g Guidance) *Context {
	if branch == Unconditional && (s.cfg.ZeroCondition || g.Zeros) {
		return nil
	}
	return c
}

func (s *Structure) checkTokens(tokens *tensors.Tensor) error {
	if tokens == nil || !tokens.Ok() {
		return fmt.Errorf("%w: structure: no condition tokens", ErrInput)
	}
	dims := tokens.Shape().Dimensions
	if len(dims) != 3 || dims[0] < 1 || dims[1] < 1 || dims[2] != s.cfg.CondWidth || tokens.DType() != dtypes.Float32 {
		return fmt.Errorf("%w: structure: condition tokens %s, want float32 [B, S, %d]", ErrInput, tokens.Shape(), s.cfg.CondWidth)
	}
	return nil
}

func (s *Structure) check(x Latents, t, d []float32, c *Context) error {
	batch := 0
	for _, l := range s.cfg.Latents {
		state := x[l.Name]
		if state == nil || !state.Ok() {
			return fmt.Errorf("%w: structure: no latent %q, have %q", ErrInput, l.Name, x.Names())
		}
		dims := state.Shape().Dimensions
		if batch == 0 && len(dims) > 0 {
			batch = dims[0]
		}
		if batch < 1 || state.DType() != dtypes.Float32 || !slices.Equal(dims, []int{batch, l.Tokens, l.Channels}) {
			return fmt.Errorf("%w: structure: latent %q is %s, want float32 [%d, %d, %d]",
				ErrInput, l.Name, state.Shape(), max(batch, 1), l.Tokens, l.Channels)
		}
	}
	if len(x) != len(s.cfg.Latents) {
		return fmt.Errorf("%w: structure: latents %q, want %q", ErrInput, x.Names(), s.cfg.names())
	}
	if len(t) != 1 && len(t) != batch {
		return fmt.Errorf("%w: structure: %d times for a batch of %d", ErrInput, len(t), batch)
	}
	if d != nil && (!s.cfg.StepInput || len(d) != 1 && len(d) != batch) {
		return fmt.Errorf("%w: structure: %d step sizes for a batch of %d, step input %t", ErrInput, len(d), batch, s.cfg.StepInput)
	}
	if c != nil && (c.owner != any(s) || c.batch != batch || len(c.blocks) != len(s.blocks)) {
		return fmt.Errorf("%w: structure: context of another model, of batch %d instead of %d, or freed", ErrInput, c.batch, batch)
	}
	return nil
}

// sinusoids embeds times [n] as [n, 256].
func sinusoids(times []float32) *tensors.Tensor {
	var flat []float32
	for _, t := range times {
		flat = append(flat, nn.TimestepFrequencies(t, timeFrequencies)...)
	}
	return tensors.FromFlatDataAndDimensions(flat, len(times), timeFrequencies)
}

func anys(ts []*tensors.Tensor) []any {
	out := make([]any, len(ts))
	for i, t := range ts {
		out[i] = t
	}
	return out
}
