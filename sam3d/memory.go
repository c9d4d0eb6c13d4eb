// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import (
	"errors"
	"fmt"

	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/moge"
	"github.com/gomlx3d/image3d/sam3d/decoder"
	"github.com/gomlx3d/image3d/weights"
)

// ErrMemory is a memory limit that cannot be kept: the error is a *MemoryError.
var ErrMemory = errors.New("sam3d: not enough memory")

// MemoryError is an Options.MemoryLimit below what a pipeline may need. It matches ErrMemory.
type MemoryError struct {
	Needed, Limit int64 // bytes
	Stage         Stage // that needs the most
}

// Error implements error.
func (e *MemoryError) Error() string {
	return fmt.Sprintf("%v: %s may need %d bytes (%.1f GiB), and the limit is %d bytes (%.1f GiB)",
		ErrMemory, e.Stage, e.Needed, gib(e.Needed), e.Limit, gib(e.Limit))
}

// Is reports that the error is ErrMemory.
func (e *MemoryError) Is(target error) bool { return target == ErrMemory }

func gib(bytes int64) float64 { return float64(bytes) / (1 << 30) }

// demand estimates the memory of stages from the sizes of their weights and arrays. The factors were fitted to the peaks
// of the resident set of released-size runs on xla:cpu, and rounded up.
type demand struct {
	cfg     *config
	depth   *moge.Config // nil: no depth model
	weights map[Stage]int64
	process int64 // what a process with the backend takes, and what its allocator keeps
	scores  int64 // attention scores that are stored at a time
}

const (
	goProcess    = 64 << 20
	xlaProcess   = 600 << 20 // 200 MB of it are the plugin
	minSlab      = 2048      // voxels of the middle grid
	pictureBytes = 64        // of a pixel of the photograph
)

// demandOf is the demand of a pipeline's models.
func (p *Pipeline) demandOf(sets map[string]*weights.Set, depth depthFile) demand {
	d := demand{cfg: &p.cfg, process: goProcess, weights: map[Stage]int64{
		StageCondition:  sets[weights.SSConditionEmbedder].Bytes() + sets[weights.SLATConditionEmbedder].Bytes(),
		StageStructure:  sets[weights.SSGenerator].Bytes(),
		StageVoxels:     sets[weights.SSDecoder].Bytes(),
		StageLatent:     sets[weights.SLATGenerator].Bytes(),
		StageGaussians:  sets[weights.SLATDecoderGS].Bytes(),
		StageGaussians4: sets[weights.SLATDecoderGS4].Bytes(),
		StageMesh:       sets[weights.SLATDecoderMesh].Bytes(),
	}}
	if depth.set != nil {
		d.depth, d.weights[StageDepth] = &depth.cfg, depth.set.Bytes()
	}
	if p.backend.Name() == "xla" {
		d.process = xlaProcess
	}
	if p.scoreBytes > 0 {
		d.scores = 2 * max(p.scoreBytes, nn.MinScoreBytes) // before and after the exponential
	}
	return d
}

// all is the memory of all weights.
func (d demand) all() (bytes int64) {
	for _, w := range d.weights {
		bytes += w
	}
	return bytes
}

// most is the largest need of a stage, with all weights or those of the stage alone on the device, for an object of a
// number of voxels whose mesh is made in the smallest slabs.
func (d demand) most(stream bool, voxels int) (stage Stage, bytes int64) {
	for _, s := range []Stage{StageDepth, StageCondition, StageStructure, StageVoxels, StageLatent, StageGaussians, StageMesh} {
		if n := d.stage(s, stream, voxels, minSlab); n > bytes {
			stage, bytes = s, n
		}
	}
	return stage, bytes
}

// stage is the need of one stage; slab is the mesh decoder's, 0 for none.
func (d demand) stage(stage Stage, stream bool, voxels, slab int) int64 {
	held := d.all()
	if stream {
		held = d.weights[stage]
	}
	return d.process + d.scores + held + d.work(stage, int64(voxels), int64(slab))
}

// work is the memory of a stage's arrays in float32.
func (d demand) work(stage Stage, voxels, slab int64) int64 {
	const float = 4
	cfg := d.cfg
	switch stage {
	case StageDepth:
		if d.depth == nil {
			return 0
		}
		return int64(d.depth.MaxTokens) * 14 * 14 * 2048
	case StageCondition:
		tokens := cfg.structureTokens.Tokens() + cfg.latentTokens.Tokens()
		return int64(tokens*cfg.structureTokens.Width()) * float * 24
	case StageStructure:
		tokens := 0
		for _, l := range cfg.structure.Latents {
			tokens += l.Tokens
		}
		context := cfg.structureTokens.Tokens() * cfg.structure.Blocks * 2
		return int64((context+32*tokens)*cfg.structure.Width) * float
	case StageVoxels:
		return 512 << 20
	case StageLatent:
		context := cfg.latentTokens.Tokens() * cfg.latent.Blocks * 2
		return int64(context*cfg.latent.Width)*float + voxels*int64(12*cfg.latent.Width)*float
	case StageGaussians, StageGaussians4:
		return voxels * int64(16*cfg.gaussians.Width) * float
	case StageMesh:
		return max(voxels*int64(16*cfg.mesh.Width)*float, d.meshWork(voxels, slab))
	}
	return 0
}

// meshWork is the memory of the mesh decoder's last block, in slabs or, if slab is 0, as a whole.
func (d demand) meshWork(voxels, slab int64) int64 {
	const float, children, features = 4, 8, 101
	width := int64(d.cfg.mesh.Width)
	last := children * (width/8*6 + features) * float // of a voxel of the middle grid
	if slab == 0 {
		return children * voxels * last
	}
	around := 2*slab + minSlab // with the voxels around
	return children*voxels*(width/4*6+children*features)*float + around*last
}

// slabVoxels is what the mesh decoder may work on at a time for an object of a number of voxels, 0 for all.
func (d demand) slabVoxels(limit int64, stream bool, voxels int) int {
	if d.stage(StageMesh, stream, voxels, 0) <= limit {
		return 0
	}
	slab := minSlab
	for slab < 8*voxels && d.stage(StageMesh, stream, voxels, 2*slab) <= limit {
		slab *= 2
	}
	return slab
}

// limitMemory chooses whether to stream, so that an object of the most voxels fits the limit. It fails with a
// MemoryError if that is not enough.
func (p *Pipeline) limitMemory(d demand) error {
	p.demand = d
	if _, bytes := d.most(false, decoder.MaxVoxels); !p.stream && bytes <= p.limit {
		return nil
	}
	stage, bytes := d.most(true, decoder.MaxVoxels)
	if bytes > p.limit {
		return &MemoryError{Needed: bytes, Limit: p.limit, Stage: stage}
	}
	p.stream = true
	return nil
}

// checkPicture refuses a photograph whose pixels do not fit beside the depth model, which sees all of them.
func (p *Pipeline) checkPicture(width, height int) error {
	if p.limit == 0 {
		return nil
	}
	bytes := p.demand.stage(StageDepth, p.stream, 0, 0) + int64(width)*int64(height)*pictureBytes
	if bytes > p.limit {
		return &MemoryError{Needed: bytes, Limit: p.limit, Stage: StageDepth}
	}
	return nil
}

// limitScores gives the models' backends a bound on what attention stores: that of the options, or a usual one on GPUs and
// under a memory limit. XLA's CPU plugin stores no scores.
func (p *Pipeline) limitScores(options Options) {
	p.scoreBytes = options.ScoreBytes
	careful := options.MemoryLimit > 0 || p.backend.Name() == "xla"
	if p.scoreBytes == 0 && careful && !nn.FusesScores(p.backend) {
		p.scoreBytes = nn.UsualScoreBytes
	}
	if p.scoreBytes > 0 {
		p.models, p.backend = nn.LimitScores(p.models, p.scoreBytes), nn.LimitScores(p.backend, p.scoreBytes)
	}
}
