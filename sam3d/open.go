// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gomlx3d/image3d/moge"
	"github.com/gomlx3d/image3d/sam3d/condition"
	"github.com/gomlx3d/image3d/sam3d/decoder"
	"github.com/gomlx3d/image3d/sam3d/flow"
	"github.com/gomlx3d/image3d/weights"
)

// load checks every component of the checkpoint, then puts the weights on the device.
func (p *Pipeline) load(ctx context.Context, c *weights.Checkpoint, options Options) error {
	sets, err := p.checkWeights(c)
	if err != nil {
		return err
	}
	depth, err := p.findDepth(ctx, c, options)
	if err != nil {
		return err
	}
	defer depth.close()
	l := loader{ctx: ctx, pipeline: p}
	p.structure = load(&l, func() (*flow.Structure, error) {
		return flow.NewStructure(p.backend, p.cfg.structure, sets[weights.SSGenerator])
	})
	p.structureDecoder = load(&l, func() (*decoder.Structure, error) {
		return decoder.NewStructure(p.backend, p.cfg.structureDecoder, sets[weights.SSDecoder])
	})
	p.latent = load(&l, func() (*flow.Latent, error) {
		return flow.NewLatent(p.backend, p.cfg.latent, sets[weights.SLATGenerator])
	})
	p.condition = load(&l, func() (*condition.Encoder, error) {
		return condition.New(p.backend, p.cfg.structureTokens, sets[weights.SSConditionEmbedder],
			p.cfg.latentTokens, sets[weights.SLATConditionEmbedder])
	})
	p.gaussians = load(&l, func() (*decoder.GaussiansDecoder, error) {
		return decoder.NewGaussians(p.backend, p.cfg.gaussians, sets[weights.SLATDecoderGS])
	})
	p.gaussians4 = load(&l, func() (*decoder.GaussiansDecoder, error) {
		return decoder.NewGaussians(p.backend, p.cfg.gaussians4, sets[weights.SLATDecoderGS4])
	})
	p.mesh = load(&l, func() (*decoder.MeshDecoder, error) {
		return decoder.NewMesh(p.backend, p.cfg.mesh, sets[weights.SLATDecoderMesh])
	})
	if depth.set != nil {
		p.depth = load(&l, func() (*moge.Model, error) { return moge.New(p.backend, depth.cfg, depth.set) })
	}
	return l.err
}

// loader keeps the first error of a sequence of loads.
type loader struct {
	ctx      context.Context
	pipeline *Pipeline
	err      error
}

// load runs one load unless an earlier one failed. The pipeline closes what it returns.
func load[M interface{ Close() }](l *loader, open func() (M, error)) (model M) {
	if l.err == nil {
		l.err = l.ctx.Err()
	}
	if l.err != nil {
		return model
	}
	loaded, err := open()
	if err != nil {
		l.err = err
		return model
	}
	l.pipeline.loaded = append(l.pipeline.loaded, loaded)
	return loaded
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
