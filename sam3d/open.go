// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gomlx/compute"

	"github.com/gomlx3d/image3d/moge"
	"github.com/gomlx3d/image3d/sam3d/condition"
	"github.com/gomlx3d/image3d/sam3d/decoder"
	"github.com/gomlx3d/image3d/sam3d/flow"
	"github.com/gomlx3d/image3d/weights"
)

// load checks every component of the checkpoint, then puts the weights on the device, unless they are streamed. The
// pipeline keeps the files if it streams.
func (p *Pipeline) load(ctx context.Context, c *weights.Checkpoint, options Options) error {
	sets, err := p.checkWeights(c)
	if err != nil {
		return err
	}
	depth, err := p.findDepth(ctx, c, options)
	if err != nil {
		return err
	}
	if p.limit != 0 { // nothing keeps to a negative one
		if err := p.limitMemory(p.demandOf(sets, depth)); err != nil {
			depth.close()
			return err
		}
	}
	if p.stream {
		p.files = append(p.files, depth.close, func() { _ = c.Close() })
	} else {
		defer depth.close()
	}
	if depth.set != nil {
		whole := from(p, p.backend, depth.set, depth.cfg, moge.New)
		p.depth = &whole
	}
	p.hold(sets)
	if p.stream {
		return ctx.Err()
	}
	for _, part := range p.parts() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := part.load(); err != nil {
			return err
		}
	}
	return nil
}

// hold has the models but the depth model made of the sets of their components, when they are needed.
func (p *Pipeline) hold(sets map[string]*weights.Set) {
	structure, latent := sets[weights.SSConditionEmbedder], sets[weights.SLATConditionEmbedder]
	p.condition = held[*condition.Encoder]{
		stream: p.stream,
		open: func() (*condition.Encoder, error) {
			return condition.New(p.models, p.cfg.structureTokens, structure, p.cfg.latentTokens, latent)
		},
		again: func(e *condition.Encoder) error { return e.Load(structure, latent) },
	}
	p.structure = from(p, p.models, sets[weights.SSGenerator], p.cfg.structure, flow.NewStructure)
	p.structureDecoder = from(p, p.models, sets[weights.SSDecoder], p.cfg.structureDecoder, decoder.NewStructure)
	p.latent = from(p, p.models, sets[weights.SLATGenerator], p.cfg.latent, flow.NewLatent)
	p.gaussians = from(p, p.models, sets[weights.SLATDecoderGS], p.cfg.gaussians, decoder.NewGaussians)
	p.gaussians4 = from(p, p.models, sets[weights.SLATDecoderGS4], p.cfg.gaussians4, decoder.NewGaussians)
	p.mesh = from(p, p.models, sets[weights.SLATDecoderMesh], p.cfg.mesh, decoder.NewMesh)
}

// from is a model that is made of a set and a configuration.
func from[M interface {
	model
	Load(*weights.Set) error
}, C any](p *Pipeline, on compute.Backend, set *weights.Set, cfg C, open func(compute.Backend, C, *weights.Set) (M, error)) held[M] {
	return held[M]{
		stream: p.stream,
		open:   func() (M, error) { return open(on, cfg, set) },
		again:  func(m M) error { return m.Load(set) },
	}
}

// parts are the models, in the order in which they are loaded.
func (p *Pipeline) parts() []part {
	parts := []part{&p.structure, &p.structureDecoder, &p.latent, &p.condition, &p.gaussians, &p.gaussians4, &p.mesh}
	if p.depth != nil {
		parts = append(parts, p.depth)
	}
	return parts
}

// checkWeights compares every component with what its model expects, so that one error lists all that is wrong before
// anything large is copied.
func (p *Pipeline) checkWeights(c *weights.Checkpoint) (map[string]*weights.Set, error) {
	sets := make(map[string]*weights.Set)
	var errs []error
	check := func(component string, spec weights.Spec) {
		set, err := c.Component(component)
		if err == nil {
			err = set.Check(spec)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", component, err))
		}
		sets[component] = set
	}
	check(weights.SSGenerator, flow.StructureSpec(p.cfg.structure))
	check(weights.SSConditionEmbedder, condition.Spec(p.cfg.structureTokens))
	check(weights.SSDecoder, decoder.StructureSpec(p.cfg.structureDecoder))
	check(weights.SLATGenerator, flow.LatentSpec(p.cfg.latent))
	check(weights.SLATConditionEmbedder, condition.Spec(p.cfg.latentTokens))
	check(weights.SLATDecoderGS, decoder.GaussiansSpec(p.cfg.gaussians))
	check(weights.SLATDecoderGS4, decoder.GaussiansSpec(p.cfg.gaussians4))
	check(weights.SLATDecoderMesh, decoder.MeshSpec(p.cfg.mesh))
	return sets, errors.Join(errs...)
}

// withMissingYAML adds to an error which configuration files an official folder lacks, as that may explain it.
func withMissingYAML(err error, c *weights.Checkpoint) error {
	var names []string
	for name, document := range c.YAML {
		if document == nil {
			names = append(names, name+".yaml")
		}
	}
	if len(names) == 0 {
		return err
	}
	slices.Sort(names)
	return fmt.Errorf("%w\n(there is no %s: the released values were taken)", err, strings.Join(names, ", no "))
}
