// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flow

import (
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/sparse"
)

// latentCase is the configuration of a reference case of the latent flow.
type latentCase struct {
	Kind string `json:"kind"`

	Resolution int     `json:"resolution"`
	In         int     `json:"in_channels"`
	Out        int     `json:"out_channels"`
	Width      int     `json:"model_channels"`
	CondWidth  int     `json:"cond_channels"`
	Blocks     int     `json:"num_blocks"`
	Heads      int     `json:"num_heads"`
	MLPRatio   float64 `json:"mlp_ratio"`
	PatchSize  int     `json:"patch_size"`
	IOBlocks   int     `json:"num_io_res_blocks"`
	IOWidths   []int   `json:"io_block_channels"`
	Position   string  `json:"pe_mode"`
	Skips      bool    `json:"use_skip_connection"`
	ShareMod   bool    `json:"share_mod"`
	Norm       bool    `json:"qk_rms_norm"`
	CrossNorm  bool    `json:"qk_rms_norm_cross"`
	Shortcut   bool    `json:"is_shortcut_model"`
	ForceZero  bool    `json:"force_zeros_cond"`

	Unconditional bool `json:"cfg"` // of a velocity

	Steps    int        `json:"steps"` // of a sampling
	Rescale  float64    `json:"rescale_t"`
	Strength float64    `json:"cfg_strength"`
	Interval [2]float64 `json:"cfg_interval"`

	Mode        string `json:"mode"` // of a residual block
	Frequencies int    `json:"frequency_embedding_size"`
}

func (c latentCase) config(t *testing.T) LatentConfig {
	t.Helper()
	require.True(t, c.Position == "ape" && c.Skips && !c.ShareMod && !c.CrossNorm && c.PatchSize == 2 && len(c.IOWidths) == 1 && c.In == c.Out,
		"not a model of this kind")
	return LatentConfig{
		Resolution: c.Resolution, Channels: c.In, Width: c.Width, Heads: c.Heads, Blocks: c.Blocks, MLPRatio: c.MLPRatio,
		CondWidth: c.CondWidth, IOWidth: c.IOWidths[0], IOBlocks: c.IOBlocks,
		HeadNorm: c.Norm, StepInput: c.Shortcut, ZeroCondition: c.ForceZero,
	}
}

func (c latentCase) load(t *testing.T, f *fixture.Case) *Latent {
	t.Helper()
	l, err := NewLatent(fixture.Backend(t), c.config(t), f.Tensors.Sub("param/"))
	require.NoError(t, err)
	t.Cleanup(l.Close)
	return l
}

func voxels(t *testing.T, f *fixture.Case, grid int) *sparse.Coords {
	t.Helper()
	var flat []int32
	for _, v := range f.Ints(t, "in/coords") {
		flat = append(flat, int32(v))
	}
	coords, err := sparse.FromFlat(flat, grid)
	require.NoError(t, err)
	return coords
}

func TestReferenceLatentFlow(t *testing.T) {
	fixture.Run(t, "slatflow", func(t *testing.T, f *fixture.Case) {
		var c latentCase
		f.Decode(t, &c)
		checked := map[string]func(*testing.T, *fixture.Case, latentCase) int{
			"timestep": checkLatentTimestep, "resblock": checkResidual, "velocity": checkLatentVelocity, "sampling": checkLatentSampling,
		}[c.Kind]
		require.NotNil(t, checked, "unknown kind %q", c.Kind)
		require.Equal(t, len(f.Outputs()), checked(t, f, c), "not all outputs are checked")
	})
}

func checkLatentTimestep(t *testing.T, f *fixture.Case, c latentCase) int {
	require.Equal(t, timeFrequencies, c.Frequencies)
	backend := fixture.Backend(t)
	program := nn.NewProgram(backend, "test", func(p nn.Params, in []*Node) []*Node {
		return []*Node{nn.FeedForward(p.In("mlp"), "0", "2", nn.SiLU, in[0])}
	})
	defer program.Close()
	out, err := program.Call1(f.Params(t, backend, "param/"), sinusoids(f.Float32s(t, "in/t")))
	require.NoError(t, err)
	f.Check(t, "out/emb", out)
	return 1
}

func checkResidual(t *testing.T, f *fixture.Case, c latentCase) int {
	backend := fixture.Backend(t)
	coords := voxels(t, f, 64)
	fine, pooling := coords, coords.Downsample()
	coarse := pooling.Parents
	arrays := func(upload func() (sparse.Arrays, error)) sparse.Arrays {
		a, err := upload()
		require.NoError(t, err)
		t.Cleanup(a.Free)
		return a
	}
	rows := func(c *sparse.Coords) sparse.Arrays {
		return arrays(func() (sparse.Arrays, error) { return c.Upload(backend) })
	}
	near := func(c *sparse.Coords) sparse.Arrays {
		n, err := c.Neighbors()
		require.NoError(t, err)
		return arrays(func() (sparse.Arrays, error) { return n.Upload(backend) })
	}
	features := func(name string, l sparse.Layout) *tensors.Tensor {
		x, err := l.UploadFeatures(backend, f.Float32s(t, name), f.Shape(t, name)[1])
		require.NoError(t, err)
		return x
	}
	pools := arrays(func() (sparse.Arrays, error) { return pooling.Upload(backend) })
	emb := f.Tensor(t, "in/emb")
	var build func(p nn.Params, in *sparse.Inputs) *Node
	var args []any
	out := fine
	switch c.Mode {
	case "plain":
		build = func(p nn.Params, in *sparse.Inputs) *Node {
			return residual(p, in.Node(), in.Node(), in.Rows(), in.Neighbors())
		}
		args = sparse.Args(features("in/feats", fine.Layout), emb, rows(fine), near(fine))
	case "down":
		out = coarse
		build = func(p nn.Params, in *sparse.Inputs) *Node {
			x := sparse.Downsample(in.Node(), in.Rows(), in.Pooling())
			return residual(p, x, in.Node(), in.Rows(), in.Neighbors())
		}
		args = sparse.Args(features("in/feats", fine.Layout), rows(fine), pools, emb, rows(coarse), near(coarse))
	case "up":
		build = func(p nn.Params, in *sparse.Inputs) *Node {
			x, time, coarse, pools, rows, pairs := in.Node(), in.Node(), in.Rows(), in.Pooling(), in.Rows(), in.Neighbors()
			h := sparse.ConvUpsampled(p.In("conv1.conv"), normSiLU(p, x), coarse, pools, pairs)
			return Add(modulatedConv(p, h, time, rows, pairs), sparse.Upsample(shortcut(p, x), pools))
		}
		args = sparse.Args(features("in/coarse_feats", coarse.Layout), emb, rows(coarse), pools, rows(fine), near(fine))
	default:
		t.Fatalf("unknown mode %q", c.Mode)
	}
	program := nn.NewProgram(backend, "test", func(p nn.Params, nodes []*Node) []*Node {
		return []*Node{build(p, sparse.Read(nodes))}
	})
	defer program.Close()
	y, err := program.Call1(f.Params(t, backend, "param/"), args...)
	require.NoError(t, err)
	flat, err := out.Layout.Strip(y)
	require.NoError(t, err)
	f.Check(t, "out/feats", flat)
	var places []int
	for _, v := range out.Voxels {
		for _, x := range v {
			places = append(places, int(x))
		}
	}
	f.Check(t, "out/coords", places)
	return 2
}

func checkLatentVelocity(t *testing.T, f *fixture.Case, c latentCase) int {
	l := c.load(t, f)
	v, err := l.Voxels(voxels(t, f, c.Resolution))
	require.NoError(t, err)
	defer v.Free()
	var d []float32
	if f.Has("in/d") {
		d = f.Float32s(t, "in/d")
	}
	branch := Conditional
	if c.Unconditional {
		branch = Unconditional
	}
	tokens, err := l.Condition(t.Context(), f.Tensor(t, "in/cond"))
	require.NoError(t, err)
	defer tokens.Free()
	x, err := v.Layout.UploadFeatures(fixture.Backend(t), f.Float32s(t, "in/x"), c.In)
	require.NoError(t, err)
	defer nn.Free(x)
	e := &latentEvaluation{model: l, voxels: v, observe: func(name string, x *tensors.Tensor) {
		if name == "t_embedder" && d != nil {
			return // the case has it without the step size
		}
		if name = "mid/" + name; f.Has(name) {
			checkIntermediate(t, f, name, x)
		}
	}}
	defer e.free()
	// Twice: the second evaluation finds what the first has remembered.
	for range 2 {
		y, err := e.velocity(t.Context(), x, f.Float32s(t, "in/t"), d, l.under(branch, tokens, Guidance{}))
		require.NoError(t, err)
		flat, err := v.Layout.Strip(y)
		require.NoError(t, err)
		f.Check(t, "out/velocity", flat)
		nn.Free(y)
	}
	return 1
}

// checkIntermediate checks the rows of x that are not padding.
func checkIntermediate(t *testing.T, f *fixture.Case, name string, x *tensors.Tensor) {
	t.Helper()
	flat := tensors.MustCopyFlatData[float32](x)
	f.CheckWithin(t, name, flat[:len(f.Float32s(t, name))], fixture.Tolerance{Abs: 5e-5, Rel: 1e-5})
}

func checkLatentSampling(t *testing.T, f *fixture.Case, c latentCase) int {
	l := c.load(t, f)
	tokens, err := l.Condition(t.Context(), f.Tensor(t, "in/cond"))
	require.NoError(t, err)
	defer tokens.Free()
	steps := 0
	opt := ReleasedLatentSampling()
	opt.Steps, opt.Rescale = c.Steps, c.Rescale
	opt.Guidance.Weight = Weight{Strength: c.Strength, From: c.Interval[0], To: c.Interval[1]}
	opt.Progress = func(step, of int) { steps++ }
	if c.Shortcut {
		opt.Step = StepZero
	}
	scale := LatentScale{Mean: f.Float32s(t, "in/mean"), Std: f.Float32s(t, "in/std")}
	out, err := l.Sample(t.Context(), voxels(t, f, c.Resolution), tokens, f.Float32s(t, "in/noise"), scale, opt)
	require.NoError(t, err)
	require.Equal(t, c.Steps, steps)
	f.Check(t, "out/latent", out.Normalized)
	f.Check(t, "out/slat", out.Scaled)
	return 2
}
