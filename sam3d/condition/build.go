// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package condition

import (
	"bytes"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"golang.org/x/sync/errgroup"

	"github.com/gomlx3d/image3d/dinov2"
	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/weights"
)

// builder loads an Encoder, one stage at a time. After an error the encoder holds what must be freed.
type builder struct {
	backend compute.Backend
	encoder *Encoder
	trunks  []trunk
}

// trunk is an image network that has been uploaded, with the tensors it was read from.
type trunk struct {
	cfg     dinov2.Config
	set     *weights.Set
	encoder *dinov2.Encoder
}

// add adds a stage.
func (b *builder) add(cfg Config, set *weights.Set) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	if err := set.Check(Spec(cfg)); err != nil {
		return err
	}
	groups, err := b.upload(set, "idx_")
	if err != nil {
		return err
	}
	s := stage{join: b.program("join", "condition.join", joinGraph)}
	if s.net, err = b.upload(set, "compression_projector."); err != nil {
		return err
	}
	s.net = prefixed("compression_projector.", s.net)
	for i, e := range cfg.Embedders {
		place := placement{cfg: cfg, set: set, index: i, stage: len(b.encoder.stages), groups: prefixed("idx_", groups)}
		if err := b.place(place, &s, e); err != nil {
			return fmt.Errorf("embedder %d: %w", i, err)
		}
	}
	b.encoder.stages = append(b.encoder.stages, s)
	return nil
}

// placement says where an embedder stands.
type placement struct {
	cfg          Config
	set          *weights.Set
	index, stage int
	groups       nn.Weights // idx_emb
}

// place adds the inputs of an embedder to the stage.
func (b *builder) place(at placement, s *stage, e Embedder) error {
	embedding, err := b.network(at, e)
	if err != nil {
		return err
	}
	head, err := b.head(at, e)
	if err != nil {
		return err
	}
	project := b.projection(e)
	for _, in := range e.Inputs {
		u := use{stage: at.stage, slot: len(s.slots), project: project, weights: head}
		s.slots = append(s.slots, slot{tokens: e.tokens(), width: at.cfg.Width()})
		if slices.Contains(at.cfg.Drop, in.Name) {
			continue
		}
		if in.Group != "" {
			u.row = int32(slices.Index(at.cfg.groups(), in.Group))
			u.weights = merged(head, at.groups)
		}
		embedding.input = in.Name
		b.schedule(embedding, u)
	}
	return nil
}

// schedule adds u to the job that evaluates the same network on the same input, or else a job of its own.
func (b *builder) schedule(embedding job, u use) {
	for i, j := range b.encoder.jobs {
		if j.input == embedding.input && j.trunk == embedding.trunk && j.normalize == embedding.normalize &&
			j.points == embedding.points {
			b.encoder.jobs[i].uses = append(j.uses, u)
			return
		}
	}
	embedding.uses = []use{u}
	b.encoder.jobs = append(b.encoder.jobs, embedding)
}

// network returns a job, without input and uses, for the embedder's network.
func (b *builder) network(at placement, e Embedder) (job, error) {
	if e.Image == nil {
		w, err := at.set.Sub(fmt.Sprintf("module_list.%d.", at.index)).Upload(b.backend)
		if err != nil {
			return job{}, err
		}
		return job{points: b.pointNet(*e.Points, w)}, nil
	}
	encoder, err := b.trunk(e.Image.Backbone, at.set.Sub(trunkPrefix(at.index)))
	if err != nil {
		return job{}, err
	}
	size := e.Image.InputSize
	normalize := b.program(size, "condition.normalize", func(_ nn.Params, in []*Node) []*Node {
		return []*Node{dinov2.Normalize(in[0], size)}
	})
	return job{trunk: encoder, normalize: normalize}, nil
}

// pointNet returns a point embedder with these weights.
func (b *builder) pointNet(cfg PointEmbedder, w nn.Weights) *pointNet {
	for _, net := range b.encoder.points {
		if net.cfg == cfg && net.weights == nil {
			net.load(w)
			return net
		}
	}
	net := newPointNet(b.backend, cfg, w)
	b.encoder.points = append(b.encoder.points, net)
	return net
}

// trunk returns the network with these weights, uploading them unless it is there.
func (b *builder) trunk(cfg dinov2.Config, set *weights.Set) (*dinov2.Encoder, error) {
	for _, t := range b.trunks {
		if t.cfg == cfg && sameTrunk(t.set, set) {
			return t.encoder, nil
		}
	}
	encoder, err := b.uploadTrunk(cfg, set)
	if err != nil {
		return nil, err
	}
	b.trunks = append(b.trunks, trunk{cfg, set, encoder})
	return encoder, nil
}

// uploadTrunk uploads weights, to a network that was unloaded if there is one.
func (b *builder) uploadTrunk(cfg dinov2.Config, set *weights.Set) (encoder *dinov2.Encoder, err error) {
	upload := func() (*dinov2.Encoder, error) { return dinov2.New(b.backend, cfg, set) }
	for _, other := range b.encoder.trunks {
		switch {
		case other.Config() != cfg:
		case !other.Loaded():
			return other, other.Load(set)
		default:
			upload = func() (*dinov2.Encoder, error) { return other.WithWeights(set) }
		}
	}
	if encoder, err = upload(); err == nil {
		b.encoder.trunks = append(b.encoder.trunks, encoder)
	}
	return encoder, err
}

// sameTrunk reports whether two image networks of one configuration give the same tokens, their final norms aside: a
// norm belongs to the head of its stage.
func sameTrunk(a, b *weights.Set) bool {
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	var differ atomic.Bool
	for _, name := range a.Names() {
		if name == "mask_token" || strings.HasPrefix(name, "norm.") {
			continue
		}
		group.Go(func() error {
			if differ.Load() {
				return nil
			}
			x, _ := a.Get(name)
			y, _ := b.Get(name)
			if x.DType != y.DType || !bytes.Equal(x.Data, y.Data) {
				differ.Store(true)
			}
			return nil
		})
	}
	_ = group.Wait() // nothing fails
	a.Forget()
	b.Forget()
	return !differ.Load()
}

// head uploads what follows the network: the final norm and the projection.
func (b *builder) head(at placement, e Embedder) (nn.Weights, error) {
	net, err := b.upload(at.set, fmt.Sprintf("projection_nets.%d.", at.index))
	if err != nil || e.Image == nil || e.Image.Prenorm {
		return prefixed("net.", net), err
	}
	norm, err := b.upload(at.set, trunkPrefix(at.index)+"norm.")
	return merged(prefixed("net.", net), prefixed("norm.", norm)), err
}

// projection returns the program that follows the embedder's network.
func (b *builder) projection(e Embedder) *nn.Program {
	if e.Image == nil {
		return b.program("points", "condition.project", func(p nn.Params, in []*Node) []*Node {
			return []*Node{project(p, in[0], in[1])}
		})
	}
	image := *e.Image
	return b.program(image, "condition.project", func(p nn.Params, in []*Node) []*Node {
		return []*Node{project(p, imageTokens(p, image, in[0]), in[1])}
	})
}

// program returns the program of a key, made once.
func (b *builder) program(key any, name string, build nn.GraphFn) *nn.Program {
	programs := b.encoder.programs
	if programs[key] == nil {
		programs[key] = nn.NewProgram(b.backend, name, build)
	}
	return programs[key]
}

// upload uploads the tensors below prefix, under the rest of their names. They are freed with the encoder.
func (b *builder) upload(set *weights.Set, prefix string) (nn.Weights, error) {
	w, err := set.Sub(prefix).Upload(b.backend)
	if err == nil {
		b.encoder.weights = append(b.encoder.weights, w)
	}
	return w, err
}

// prefixed returns w with prefix before the names.
func prefixed(prefix string, w nn.Weights) nn.Weights {
	out := make(nn.Weights, len(w))
	for name, t := range w {
		out[prefix+name] = t
	}
	return out
}

// merged returns the weights of a and of b.
func merged(a, b nn.Weights) nn.Weights {
	out := prefixed("", a)
	maps.Copy(out, b)
	return out
}
