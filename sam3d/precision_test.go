// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/flexicubes"
	"github.com/gomlx3d/image3d/moge"
	"github.com/gomlx3d/image3d/sam3d/condition"
	"github.com/gomlx3d/image3d/sam3d/decoder"
	"github.com/gomlx3d/image3d/sam3d/flow"
	"github.com/gomlx3d/image3d/sparse"
	"github.com/gomlx3d/image3d/splat"
	"github.com/gomlx3d/image3d/testdata"
	"github.com/gomlx3d/image3d/weights"
)

// Gates of half-precision weights, against the same weights in float32.
const (
	featureGate = 0.01  // root mean square of the difference of features, relative to that of the features
	surfaceGate = 0.005 // 99 of 100 distances between surfaces, relative to the diagonal of the object's box
)

// TestPrecision runs every stage with its weights in float32, bfloat16 and float16, from the same noise and from what the
// stages before it make in float32, and logs a table of the differences.
//
// IMAGE3D_PRECISION names the folder of a checkpoint to do it with, else it is the embedded model. Weights that are in
// half precision already get random lower bits, so that there is something to round. IMAGE3D_PRECISION_BLOCKS cuts all transformers after some
// blocks, for machines of little memory.
func TestPrecision(t *testing.T) {
	e := newPrecision(t, os.Getenv("IMAGE3D_PRECISION"))
	reference, half := &outcome{}, map[dtypes.DType]*outcome{dtypes.BFloat16: {}, dtypes.Float16: {}}
	for _, s := range precisionStages {
		e.stage(t, s, dtypes.Float32, reference, reference)
		for dtype, o := range half {
			e.stage(t, s, dtype, reference, o)
		}
	}
	table := "\n| difference | bfloat16 | float16 | gate |\n| --- | --- | --- | --- |\n"
	for _, m := range measures {
		a, b := m.of(reference, half[dtypes.BFloat16]), m.of(reference, half[dtypes.Float16])
		gate := ""
		if m.gate > 0 {
			gate = fmt.Sprintf("%.2g", m.gate)
			require.LessOrEqual(t, a, m.gate, "bfloat16: %s", m.name)
			require.LessOrEqual(t, b, m.gate, "float16: %s", m.name)
		}
		table += fmt.Sprintf("| %s | %.2g | %.2g | %s |\n", m.name, a, b, gate)
	}
	t.Logf("%d voxels, %d splats, %d triangles%s", len(reference.coords.Voxels), reference.gaussians.Len(),
		len(reference.mesh.Faces)/3, table)
}

// precision is a checkpoint whose stages are run apart.
type precision struct {
	pipeline *Pipeline
	sets     map[string]*weights.Set
	depth    depthFile
	specs    map[string]weights.Spec
	request  Request
}

// outcome is what the stages made. Everything is on the host.
type outcome struct {
	view                          *view
	structureTokens, latentTokens *tensors.Tensor
	state                         map[string][]float32
	coords                        *sparse.Coords
	pose                          Pose
	latents                       []float32
	gaussians                     *splat.Gaussians
	mesh                          *flexicubes.Mesh
}

// precisionStage makes a part of an outcome from the parts of the reference's that come before it.
type precisionStage struct {
	components []string
	run        func(r *run, known, to *outcome) error
}

var precisionStages = []precisionStage{
	{[]string{weights.Depth}, func(r *run, _, to *outcome) (err error) {
		to.view, err = r.look(r.picture.RGB())
		return err
	}},
	{[]string{weights.SSConditionEmbedder, weights.SLATConditionEmbedder}, func(r *run, _, to *outcome) error {
		made, err := r.encode(r.conditions)
		if err == nil {
			to.structureTokens, to.latentTokens = local(made.structure), local(made.latent)
		}
		return err
	}},
	{[]string{weights.SSGenerator, weights.SSDecoder}, func(r *run, known, to *outcome) error {
		state, err := r.sampleStructure(tokens{structure: local(known.structureTokens)})
		if err != nil {
			return err
		}
		to.state = make(map[string][]float32)
		for name, x := range state {
			to.state[name] = tensors.MustCopyFlatData[float32](x)
		}
		to.coords, err = r.voxels(state, r.conditions)
		to.pose = r.result.Pose
		return err
	}},
	{[]string{weights.SLATGenerator}, func(r *run, known, to *outcome) (err error) {
		to.latents, err = r.sampleLatents(tokens{latent: local(known.latentTokens)}, known.coords)
		return err
	}},
	{[]string{weights.SLATDecoderGS, weights.SLATDecoderMesh}, func(r *run, known, to *outcome) error {
		err := r.decode(known.coords, known.latents)
		to.gaussians, to.mesh = r.result.Gaussians, r.result.Mesh
		return err
	}},
}

func local(x *tensors.Tensor) *tensors.Tensor {
	return tensors.FromFlatDataAndDimensions(tensors.MustCopyFlatData[float32](x), x.Shape().Dimensions...)
}

func newPrecision(t *testing.T, folder string) *precision {
	if folder == "" {
		folder = t.TempDir()
		require.NoError(t, testdata.WriteModel(folder))
	}
	backend, err := OpenBackend("")
	require.NoError(t, err)
	c, err := weights.OpenCheckpoint(folder)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	p := &Pipeline{backend: backend, models: backend, stream: true, turn: make(chan struct{}, 1), closing: make(chan struct{})}
	p.cfg, err = readConfig(c)
	require.NoError(t, err)
	e := &precision{pipeline: p}
	e.sets, err = p.checkWeights(c)
	require.NoError(t, err)
	e.depth, err = p.findDepth(t.Context(), c, Options{})
	require.NoError(t, err)
	t.Cleanup(e.depth.close)
	if text := os.Getenv("IMAGE3D_PRECISION_BLOCKS"); text != "" {
		blocks, err := strconv.Atoi(text)
		require.NoError(t, err)
		cut(&p.cfg, blocks)
	}
	cfg := p.cfg
	e.specs = map[string]weights.Spec{
		weights.SSConditionEmbedder: condition.Spec(cfg.structureTokens), weights.SLATConditionEmbedder: condition.Spec(cfg.latentTokens),
		weights.SSGenerator: flow.StructureSpec(cfg.structure), weights.SSDecoder: decoder.StructureSpec(cfg.structureDecoder),
		weights.SLATGenerator: flow.LatentSpec(cfg.latent), weights.SLATDecoderGS: decoder.GaussiansSpec(cfg.gaussians),
		weights.SLATDecoderMesh: decoder.MeshSpec(cfg.mesh), weights.Depth: moge.Spec(e.depth.cfg),
	}
	picture, mask, err := testdata.Picture()
	require.NoError(t, err)
	e.request = Request{Image: picture, Mask: mask, Seed: 42, Steps: 1, LatentSteps: 1}
	return e
}

// cut shortens the transformers of a model.
func cut(cfg *config, blocks int) {
	shorten := func(n *int) { *n = min(*n, blocks) }
	shorten(&cfg.structure.Blocks)
	shorten(&cfg.latent.Blocks)
	shorten(&cfg.gaussians.Blocks)
	shorten(&cfg.mesh.Blocks)
	for _, tokens := range []*condition.Config{&cfg.structureTokens, &cfg.latentTokens} {
		for _, e := range tokens.Embedders {
			if e.Image != nil {
				shorten(&e.Image.Backbone.Depth)
			}
		}
	}
}

// stage runs a stage with its weights in a precision.
func (e *precision) stage(t *testing.T, s precisionStage, dtype dtypes.DType, known, to *outcome) {
	p := e.pipeline
	sets := make(map[string]*weights.Set)
	for _, component := range s.components {
		if component == weights.Depth {
			whole := from(p, p.backend, rounded(t, e.depth.set, e.specs[component], dtype), e.depth.cfg, moge.New)
			p.depth = &whole
			continue
		}
		sets[component] = rounded(t, e.sets[component], e.specs[component], dtype)
	}
	p.hold(sets)
	picture, err := p.check(&e.request)
	require.NoError(t, err)
	r := newRun(context.Background(), p, &e.request, picture)
	defer r.cancel()
	defer r.free()
	if known.view != nil {
		require.NoError(t, r.condition(known.view))
	}
	require.NoError(t, s.run(r, known, to))
	p.free()
	t.Logf("%s in %s: %s", strings.Join(s.components, ", "), dtype, r.result.Timings[len(r.result.Timings)-1].Took)
}
