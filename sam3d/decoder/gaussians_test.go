// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package decoder

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/export"
	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/sparse"
	"github.com/gomlx3d/image3d/splat"
	"github.com/gomlx3d/image3d/weights"
)

// torsoCase is how reference cases name the hyperparameters of a TorsoConfig.
type torsoCase struct {
	Resolution int     `json:"resolution"`
	Width      int     `json:"model_channels"`
	Latent     int     `json:"latent_channels"`
	Blocks     int     `json:"num_blocks"`
	Heads      int     `json:"num_heads"`
	MLPRatio   float64 `json:"mlp_ratio"`
	Window     int     `json:"window_size"`

	Attention string `json:"attn_mode"`
	Position  string `json:"pe_mode"`
	HeadNorm  bool   `json:"qk_rms_norm"`
	Half      bool   `json:"use_fp16"`
}

func (c torsoCase) config(t *testing.T) TorsoConfig {
	t.Helper()
	require.True(t, c.Attention == "swin" && c.Position == "ape" && !c.HeadNorm && !c.Half, "not a model of this kind")
	return TorsoConfig{
		Resolution: c.Resolution, LatentChannels: c.Latent, Width: c.Width, Heads: c.Heads, Blocks: c.Blocks,
		MLPRatio: c.MLPRatio, Window: c.Window,
	}
}

// gaussiansCase is the configuration of a reference case of kind gs_decoder.
type gaussiansCase struct {
	torsoCase
	Representation struct {
		Rates struct {
			Position float64 `json:"_xyz"`
			SH       float64 `json:"_features_dc"`
			Opacity  float64 `json:"_opacity"`
			Scaling  float64 `json:"_scaling"`
			Rotation float64 `json:"_rotation"`
		} `json:"lr"`
		Perturb     bool    `json:"perturb_offset"`
		VoxelSize   float64 `json:"voxel_size"`
		Gaussians   int     `json:"num_gaussians"`
		Kernel      float64 `json:"3d_filter_kernel_size"`
		ScaleBias   float64 `json:"scaling_bias"`
		OpacityBias float64 `json:"opacity_bias"`
		Scaling     string  `json:"scaling_activation"`
	} `json:"representation_config"`
}

func (c gaussiansCase) config(t *testing.T) GaussiansConfig {
	t.Helper()
	r := c.Representation
	require.Contains(t, []string{"exp", "softplus"}, r.Scaling)
	return GaussiansConfig{
		TorsoConfig: c.torsoCase.config(t), Gaussians: r.Gaussians, VoxelSize: r.VoxelSize, Perturb: r.Perturb,
		Rates: Rates{
			Position: r.Rates.Position, SH: r.Rates.SH, Scaling: r.Rates.Scaling, Rotation: r.Rates.Rotation,
			Opacity: r.Rates.Opacity,
		},
		Kernel: r.Kernel, ScaleBias: r.ScaleBias, ExpScale: r.Scaling == "exp", OpacityBias: r.OpacityBias,
	}
}

func caseVoxels(t *testing.T, f *fixture.Case, grid int) *sparse.Coords {
	t.Helper()
	coords, err := sparse.New(rows(f.Ints(t, "in/coords")), grid)
	require.NoError(t, err)
	return coords
}

func TestReferenceGaussians(t *testing.T) {
	fixture.Run(t, "gsdecoder", func(t *testing.T, f *fixture.Case) {
		var config struct {
			Kind string `json:"kind"`
		}
		f.Decode(t, &config)
		check := map[string]func(*testing.T, *fixture.Case){
			"gs_decoder": checkGaussiansDecoder, "gaussian": checkActivation, "perturbation": checkPerturbation,
		}[config.Kind]
		require.NotNil(t, check, "unknown kind %q", config.Kind)
		check(t, f)
	})
}

func checkGaussiansDecoder(t *testing.T, f *fixture.Case) {
	var c gaussiansCase
	f.Decode(t, &c)
	d, err := NewGaussians(fixture.Backend(t), c.config(t), f.Tensors.Sub("param/"))
	require.NoError(t, err)
	defer d.Close()
	coords, latents := caseVoxels(t, f, c.Resolution), f.Float32s(t, "in/feats")
	objects, err := d.DecodeBatch(t.Context(), coords, latents)
	require.NoError(t, err)
	require.Len(t, objects, coords.Batches())
	if len(objects) == 1 {
		one, err := d.Decode(t.Context(), coords, latents)
		require.NoError(t, err)
		require.Equal(t, objects[0], one)
	}

	// What Decode passes on to package splat.
	attributes, err := d.attributes(t.Context(), coords, latents)
	require.NoError(t, err)
	defer nn.Free(attributes...)
	checked, item := 0, 0
	require.NoError(t, eachRaw(attributes, coords.Starts, d.cfg.Gaussians, func(raw splat.Raw) error {
		suffix := ""
		if coords.Batches() > 1 {
			suffix = fmt.Sprintf(".%d", item)
		}
		for name, values := range map[string][]float32{
			"xyz": raw.XYZ, "features_dc": raw.SH, "scaling": raw.Scaling, "rotation": raw.Rotation, "opacity": raw.Opacity,
		} {
			f.Check(t, "out/raw_"+name+suffix, values)
			checked++
		}
		checked += checkGaussians(t, f, objects[item], suffix)
		item++
		return nil
	}))
	require.Len(t, f.Outputs(), checked, "not all outputs are checked")
}

// checkGaussians checks the activated values and the file of an object.
func checkGaussians(t *testing.T, f *fixture.Case, g *splat.Gaussians, suffix string) int {
	t.Helper()
	f.Check(t, "out/xyz"+suffix, g.Means)
	f.Check(t, "out/scaling"+suffix, g.Scales())
	f.Check(t, "out/rotation"+suffix, g.UnitRotations())
	f.Check(t, "out/opacity"+suffix, g.Opacities())
	var file bytes.Buffer
	require.NoError(t, export.WritePLY(&file, g, export.PLYOptions{}))
	header, body, _ := strings.Cut(file.String(), "end_header\n")
	f.Check(t, "out/ply_header"+suffix, []byte(header+"end_header\n"))
	table := make([]float32, len(body)/4)
	require.NoError(t, binary.Read(strings.NewReader(body), binary.LittleEndian, table))
	f.Check(t, "out/ply_table"+suffix, table)
	return 6
}

func checkActivation(t *testing.T, f *fixture.Case) {
	var c struct {
		Box         [6]float32 `json:"aabb"`
		Kernel      float64    `json:"mininum_kernel_size"`
		ScaleBias   float64    `json:"scaling_bias"`
		OpacityBias float64    `json:"opacity_bias"`
		Scaling     string     `json:"scaling_activation"`
	}
	f.Decode(t, &c)
	require.Contains(t, []string{"exp", "softplus"}, c.Scaling)
	a := GaussiansConfig{Kernel: c.Kernel, ScaleBias: c.ScaleBias, ExpScale: c.Scaling == "exp", OpacityBias: c.OpacityBias}.activation()
	a.BoxMin, a.BoxSize = [3]float32(c.Box[:3]), [3]float32(c.Box[3:])
	raw := func(name string) []float32 { return f.Float32s(t, "in/raw_"+name) }
	g, err := a.Decode(splat.Raw{
		XYZ: raw("xyz"), SH: raw("features_dc"), Scaling: raw("scaling"), Rotation: raw("rotation"), Opacity: raw("opacity"),
	})
	require.NoError(t, err)
	require.Len(t, f.Outputs(), checkGaussians(t, f, g, ""))
}

func checkPerturbation(t *testing.T, f *fixture.Case) {
	var c struct {
		Gaussians int     `json:"num_gaussians"`
		VoxelSize float64 `json:"voxel_size"`
	}
	f.Decode(t, &c)
	var points []float64
	for g := range c.Gaussians {
		p := hammersley(g, c.Gaussians)
		points = append(points, p[:]...)
	}
	f.CheckWithin(t, "mid/hammersley", points, fixture.Tolerance{Abs: 1e-7})
	f.Check(t, "out/offset_perturbation", GaussiansConfig{Gaussians: c.Gaussians, VoxelSize: c.VoxelSize}.Perturbation())
	require.Len(t, f.Outputs(), 1)
}

// tinyGaussians is a model with random weights.
func tinyGaussians(t testing.TB) *GaussiansDecoder {
	t.Helper()
	cfg := ReleasedGaussians4()
	cfg.TorsoConfig = tinyTorso()
	d, err := NewGaussians(fixture.Backend(t), cfg, randomWeights(GaussiansSpec(cfg)))
	require.NoError(t, err)
	t.Cleanup(d.Close)
	return d
}

func tinyTorso() TorsoConfig {
	return TorsoConfig{Resolution: 16, LatentChannels: 4, Width: 16, Heads: 2, Blocks: 2, MLPRatio: 2, Window: 4}
}

// blob is a few voxels of each of some batch items, with latents of four channels.
func blob(t testing.TB, grid, batches int) (*sparse.Coords, []float32) {
	t.Helper()
	var voxels []sparse.Voxel
	for b := range int32(batches) {
		for i := range int32(9) {
			voxels = append(voxels, sparse.Voxel{b, i % 3, i / 3, (i * (b + 2)) % 5})
		}
	}
	coords, err := sparse.New(voxels, grid)
	require.NoError(t, err)
	latents := make([]float32, 4*len(voxels))
	for i := range latents {
		latents[i] = float32(math.Sin(float64(i)))
	}
	return coords, latents
}

// Items of a batch do not see each other.
func TestGaussiansBatch(t *testing.T) {
	d := tinyGaussians(t)
	coords, latents := blob(t, 16, 2)
	both, err := d.DecodeBatch(t.Context(), coords, latents)
	require.NoError(t, err)
	require.Len(t, both, 2)
	single, first := blob(t, 16, 1)
	alone, err := d.Decode(t.Context(), single, first)
	require.NoError(t, err)
	require.Equal(t, 9*4, alone.Len())
	require.InDeltaSlice(t, alone.Means, both[0].Means, 1e-6)
	require.InDeltaSlice(t, alone.OpacityLogits, both[0].OpacityLogits, 1e-5)
	_, err = d.Decode(t.Context(), coords, latents)
	require.ErrorIs(t, err, ErrInput)
}

// Splats stay in the cube of VoxelSize around the centre of their voxel.
func TestGaussiansStayNearTheirVoxel(t *testing.T) {
	d := tinyGaussians(t)
	coords, latents := blob(t, 16, 1)
	for i := range latents {
		latents[i] *= 1000
	}
	g, err := d.Decode(t.Context(), coords, latents)
	require.NoError(t, err)
	for i := range g.Len() {
		voxel := coords.Voxels[i/d.cfg.Gaussians]
		for axis := range 3 {
			centre := (float64(voxel[axis+1])+0.5)/16 - 0.5
			require.InDelta(t, centre, g.Means[3*i+axis], 0.75/16+1e-6)
		}
	}
}

func TestGaussiansBadInput(t *testing.T) {
	d := tinyGaussians(t)
	checkBadInput(t, func(ctx context.Context, coords *sparse.Coords, latents []float32) error {
		_, err := d.Decode(ctx, coords, latents)
		return err
	})
}

// checkBadInput checks the errors of decoding with a tiny model.
func checkBadInput(t *testing.T, decode func(ctx context.Context, coords *sparse.Coords, latents []float32) error) {
	coords, latents := blob(t, 16, 1)
	require.NoError(t, decode(t.Context(), coords, latents))
	require.ErrorIs(t, decode(t.Context(), nil, latents), ErrNoVoxels)
	require.ErrorIs(t, decode(t.Context(), &sparse.Coords{}, nil), ErrNoVoxels)
	require.ErrorIs(t, decode(t.Context(), coords, latents[1:]), ErrInput)
	require.ErrorIs(t, decode(t.Context(), coords, nil), ErrInput)
	wide, _ := blob(t, 17, 1)
	require.ErrorIs(t, decode(t.Context(), wide, latents), ErrInput)
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		latents[7] = float32(bad)
		require.ErrorIs(t, decode(t.Context(), coords, latents), ErrNonFinite)
	}
	latents[7] = 0
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, decode(ctx, coords, latents), context.Canceled)
}

// brokenSet is randomWeights with an output bias that is not a number.
func brokenSet(spec weights.Spec) *weights.Set {
	set := randomWeights(spec)
	bias, _ := set.Get("out_layer.bias")
	binary.LittleEndian.PutUint32(bias.Data, math.Float32bits(float32(math.NaN())))
	return set
}

func TestGaussiansNotFinite(t *testing.T) {
	cfg := ReleasedGaussians4()
	cfg.TorsoConfig = tinyTorso()
	d, err := NewGaussians(fixture.Backend(t), cfg, brokenSet(GaussiansSpec(cfg)))
	require.NoError(t, err)
	defer d.Close()
	coords, latents := blob(t, 16, 1)
	_, err = d.Decode(t.Context(), coords, latents)
	require.ErrorIs(t, err, splat.ErrInvalid)
}

func TestGaussiansBadConfig(t *testing.T) {
	require.NoError(t, ReleasedGaussians().Validate())
	require.NoError(t, ReleasedGaussians4().Validate())
	for name, change := range map[string]func(*GaussiansConfig){
		"zero":          func(c *GaussiansConfig) { *c = GaussiansConfig{} },
		"resolution":    func(c *GaussiansConfig) { c.Resolution = sparse.MaxGrid + 1 },
		"width":         func(c *GaussiansConfig) { c.Width = -1 },
		"heads":         func(c *GaussiansConfig) { c.Heads = 7 },
		"blocks":        func(c *GaussiansConfig) { c.Blocks = 0 },
		"perceptron":    func(c *GaussiansConfig) { c.MLPRatio = math.NaN() },
		"window":        func(c *GaussiansConfig) { c.Window = 0 },
		"splats":        func(c *GaussiansConfig) { c.Gaussians = maxGaussians + 1 },
		"rate":          func(c *GaussiansConfig) { c.Rates.Rotation = math.Inf(1) },
		"voxel size":    func(c *GaussiansConfig) { c.VoxelSize = 0 },
		"kernel":        func(c *GaussiansConfig) { c.Kernel = -1 },
		"scale bias":    func(c *GaussiansConfig) { c.ScaleBias = 0 },
		"opacity bias":  func(c *GaussiansConfig) { c.OpacityBias = 1 },
		"latent length": func(c *GaussiansConfig) { c.LatentChannels = 0 },
	} {
		cfg := ReleasedGaussians()
		change(&cfg)
		require.ErrorIs(t, cfg.Validate(), ErrConfig, name)
		_, err := NewGaussians(fixture.Backend(t), cfg, weights.NewSet(nil))
		require.ErrorIs(t, err, ErrConfig, name)
	}
	var mismatch *weights.MismatchError
	_, err := NewGaussians(fixture.Backend(t), ReleasedGaussians(), weights.NewSet(nil))
	require.ErrorAs(t, err, &mismatch)
	require.Len(t, mismatch.Missing, 101)
}
