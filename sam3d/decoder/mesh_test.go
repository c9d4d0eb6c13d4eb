// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package decoder

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/flexicubes"
	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/sparse"
	"github.com/gomlx3d/image3d/weights"
)

// meshCase is the configuration of a reference case of the mesh decoder.
type meshCase struct {
	torsoCase
	Kind           string `json:"kind"`
	Groups         *int   `json:"num_groups"` // absent means the default of the original
	Representation struct {
		Color *bool `json:"use_color"`
	} `json:"representation_config"`

	Channels    int  `json:"channels"`     // of a subdivide_block
	OutChannels *int `json:"out_channels"` // of a subdivide_block; absent means channels

	Res         int     `json:"res"`          // flexicubes, sparse2mesh
	WeightScale float64 `json:"weight_scale"` // flexicubes
}

func (c meshCase) groups() int {
	if c.Groups == nil {
		return ReleasedMesh().Groups
	}
	return *c.Groups
}

func (c meshCase) config(t *testing.T) MeshConfig {
	t.Helper()
	color := c.Representation.Color
	return MeshConfig{TorsoConfig: c.torsoCase.config(t), Groups: c.groups(), Color: color != nil && *color}
}

func TestReferenceMesh(t *testing.T) {
	fixture.Run(t, "meshdecoder", func(t *testing.T, f *fixture.Case) {
		var c meshCase
		f.Decode(t, &c)
		if c.Kind == "tables" {
			t.Skip("read by flexicubes")
		}
		check := map[string]func(*testing.T, *fixture.Case, meshCase) int{
			"mesh_decoder": checkMeshDecoder, "subdivide_block": checkSubdivision, "flexicubes": checkField, "sparse2mesh": checkVoxels,
		}[c.Kind]
		require.NotNil(t, check, "unknown kind %q", c.Kind)
		require.Len(t, f.Outputs(), check(t, f, c), "not all outputs are checked")
	})
}

func checkMeshDecoder(t *testing.T, f *fixture.Case, c meshCase) int {
	d, err := NewMesh(fixture.Backend(t), c.config(t), f.Tensors.Sub("param/"))
	require.NoError(t, err)
	defer d.Close()
	coords, latents := caseVoxels(t, f, c.Resolution), f.Float32s(t, "in/feats")
	checkMeshFeatures(t, f, d, coords, latents)
	d.SlabVoxels = 10
	inSlabs, err := d.DecodeBatch(t.Context(), coords, latents)
	require.NoError(t, err)
	if len(inSlabs) == 1 {
		checkMesh(t, f, inSlabs[0], "out/vertex_attrs", "")
	}
	d.SlabVoxels = 0
	meshes, err := d.DecodeBatch(t.Context(), coords, latents)
	require.NoError(t, err)
	require.Len(t, meshes, coords.Batches())
	if len(meshes) == 1 {
		one, err := d.Decode(t.Context(), coords, latents)
		require.NoError(t, err)
		require.Equal(t, meshes[0], one)
		return checkMesh(t, f, one, "out/vertex_attrs", "")
	}
	checked := 0
	for i, mesh := range meshes {
		checked += checkMesh(t, f, mesh, "out/vertex_attrs", fmt.Sprintf(".%d", i))
	}
	return checked
}

// checkMeshFeatures compares the stages of the network.
func checkMeshFeatures(t *testing.T, f *fixture.Case, d *MeshDecoder, coords *sparse.Coords, latents []float32) {
	t.Helper()
	check := func(name string, layout sparse.Layout, x *tensors.Tensor) {
		if f.Has("mid/" + name) {
			values, err := layout.Strip(x)
			require.NoError(t, err)
			f.CheckWithin(t, "mid/"+name, values, fixture.Tolerance{Abs: 5e-5, Rel: 1e-5})
		}
	}
	for _, slab := range []int{0, 10, 3 * len(coords.Voxels)} {
		d.SlabVoxels = slab
		require.NoError(t, d.features(t.Context(), coords, latents, func(fine *sparse.Coords, out []float32) error {
			if f.Has("mid/out_layer") {
				values := out[:len(fine.Voxels)*d.cfg.features()]
				f.CheckWithin(t, "mid/out_layer", values, fixture.Tolerance{Abs: 5e-5, Rel: 1e-5})
			}
			if f.Has("mid/fine_coords") {
				f.Check(t, "mid/fine_coords", flat(fine.Voxels))
			}
			return nil
		}))
	}
	d.SlabVoxels = 0
	x, err := d.cfg.run(t.Context(), d.backend, d.torso, coords, latents)
	require.NoError(t, err)
	check(fmt.Sprintf("blocks.%d", d.cfg.Blocks-1), coords.Layout, x)
	for level, block := range d.levels {
		next, err := d.upward.run(t.Context(), block, coords, x)
		require.NoError(t, err)
		nn.Free(x)
		x = next
		coords, err = coords.Subdivide()
		require.NoError(t, err)
		check(fmt.Sprintf("upsample.%d", level), coords.Layout, x)
	}
	nn.Free(x)
}

func checkSubdivision(t *testing.T, f *fixture.Case, c meshCase) int {
	backend := fixture.Backend(t)
	set, out := f.Tensors.Sub("param/"), c.Channels
	if c.OutChannels != nil {
		out = *c.OutChannels
	}
	require.NoError(t, set.Check(subdivisionSpec(c.Channels, out)))
	s := newSubdivider(backend, c.groups())
	defer s.Close()
	coords := caseVoxels(t, f, sparse.MaxGrid/2)
	x, err := coords.Layout.UploadFeatures(backend, f.Float32s(t, "in/feats"), c.Channels)
	require.NoError(t, err)
	defer nn.Free(x)
	y, err := s.run(t.Context(), newSubdivision(f.Params(t, backend, "param/")), coords, x)
	require.NoError(t, err)
	defer nn.Free(y)
	fine, err := coords.Subdivide()
	require.NoError(t, err)
	values, err := fine.Layout.Strip(y)
	require.NoError(t, err)
	f.Check(t, "out/feats", values)
	f.Check(t, "out/coords", flat(fine.Voxels))
	return 2
}

func checkField(t *testing.T, f *fixture.Case, c meshCase) int {
	optional := func(name string) []float32 {
		if !f.Has(name) {
			return nil
		}
		return f.Float32s(t, name)
	}
	mesh, err := flexicubes.FromField(t.Context(), flexicubes.Field{
		Resolution: c.Res, SDF: f.Float32s(t, "in/sdf"), WeightScale: c.WeightScale, Deform: optional("in/deform"),
		Colors: optional("in/colors"), Beta: optional("in/beta"), Alpha: optional("in/alpha"), Gamma: optional("in/gamma"),
	})
	require.NoError(t, err)
	return checkMesh(t, f, mesh, "out/colors", "")
}

func checkVoxels(t *testing.T, f *fixture.Case, c meshCase) int {
	mesh, err := flexicubes.FromVoxels(t.Context(), flexicubes.Voxels{
		Resolution: c.Res, Coords: rows(f.Ints(t, "in/coords")), Features: f.Float32s(t, "in/feats"),
	})
	require.NoError(t, err)
	return checkMesh(t, f, mesh, "out/vertex_attrs", "")
}

// checkMesh checks all of a mesh. attributes is the name of the interleaved colours and normal channels.
func checkMesh(t *testing.T, f *fixture.Case, m *flexicubes.Mesh, attributes, suffix string) int {
	t.Helper()
	f.Check(t, "out/vertices"+suffix, m.Vertices)
	f.Check(t, "out/faces"+suffix, m.Faces)
	if m.Colors == nil {
		return 2
	}
	values := []float32{}
	for i := 0; i < len(m.Colors); i += 3 {
		values = append(append(values, m.Colors[i:i+3]...), m.NormalMap[i:i+3]...)
	}
	f.Check(t, attributes+suffix, values)
	return 3
}

// tinyMesh is a model with random weights.
func tinyMesh(t testing.TB, color bool) *MeshDecoder {
	t.Helper()
	cfg := MeshConfig{TorsoConfig: tinyTorso(), Groups: 32, Color: color}
	d, err := NewMesh(fixture.Backend(t), cfg, randomWeights(MeshSpec(cfg)))
	require.NoError(t, err)
	t.Cleanup(d.Close)
	return d
}

// Items of a batch do not see each other.
func TestMeshBatch(t *testing.T) {
	d := tinyMesh(t, true)
	coords, latents := blob(t, 16, 2)
	both, err := d.DecodeBatch(t.Context(), coords, latents)
	require.NoError(t, err)
	require.Len(t, both, 2)
	single, first := blob(t, 16, 1)
	alone, err := d.Decode(t.Context(), single, first)
	require.NoError(t, err)
	require.NotEmpty(t, alone.Faces)
	require.Len(t, alone.Colors, len(alone.Vertices))
	require.InDeltaSlice(t, alone.Vertices, both[0].Vertices, 1e-5)
	_, err = d.Decode(t.Context(), coords, latents)
	require.ErrorIs(t, err, ErrInput)
}

func TestMeshWithoutColor(t *testing.T) {
	d := tinyMesh(t, false)
	coords, latents := blob(t, 16, 1)
	mesh, err := d.Decode(t.Context(), coords, latents)
	require.NoError(t, err)
	require.NotEmpty(t, mesh.Faces)
	require.Nil(t, mesh.Colors)
}

func TestMeshBadInput(t *testing.T) {
	d := tinyMesh(t, true)
	checkBadInput(t, func(ctx context.Context, coords *sparse.Coords, latents []float32) error {
		_, err := d.Decode(ctx, coords, latents)
		return err
	})
}

// The network stops before any of its programs, whenever it is cancelled.
func TestMeshCancelled(t *testing.T) {
	d := tinyMesh(t, true)
	coords, latents := blob(t, 16, 1)
	nothing := func(*sparse.Coords, []float32) error { return nil }
	for _, test := range []struct{ slab, programs int }{{0, 2 * meshLevels}, {coords.Layout.Count, 1 + 2*8}} {
		d.SlabVoxels = test.slab
		for checks := 0; ; checks++ {
			ctx := &countdown{Context: t.Context(), left: checks}
			err := d.features(ctx, coords, latents, nothing)
			if err == nil {
				require.Greater(t, checks, d.cfg.Blocks+test.programs)
				break
			}
			require.ErrorIs(t, err, context.Canceled)
		}
	}
}

// TestMeshInSlabs makes the same mesh a few voxels at a time.
func TestMeshInSlabs(t *testing.T) {
	d := tinyMesh(t, true)
	coords, latents := blob(t, 16, 2)
	whole, err := d.DecodeBatch(t.Context(), coords, latents)
	require.NoError(t, err)
	for _, slab := range []int{1, 50, 333, 1 << 20} {
		d.SlabVoxels = slab
		got, err := d.DecodeBatch(t.Context(), coords, latents)
		require.NoError(t, err)
		require.Len(t, got, len(whole))
		for i, mesh := range got {
			require.Equal(t, whole[i].Faces, mesh.Faces)
			require.InDeltaSlice(t, whole[i].Vertices, mesh.Vertices, 1e-5)
			require.InDeltaSlice(t, whole[i].Colors, mesh.Colors, 1e-5)
		}
	}
}

// countdown is a context that is cancelled after a number of looks at it.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestMeshNotFinite(t *testing.T) {
	cfg := MeshConfig{TorsoConfig: tinyTorso(), Groups: 32, Color: true}
	d, err := NewMesh(fixture.Backend(t), cfg, brokenSet(MeshSpec(cfg)))
	require.NoError(t, err)
	defer d.Close()
	coords, latents := blob(t, 16, 1)
	_, err = d.Decode(t.Context(), coords, latents)
	require.ErrorIs(t, err, flexicubes.ErrNotFinite)
}

func TestMeshConcurrently(t *testing.T) {
	d := tinyMesh(t, true)
	coords, latents := blob(t, 16, 1)
	want, err := d.Decode(t.Context(), coords, latents)
	require.NoError(t, err)
	var meshes [4]*flexicubes.Mesh
	var errs [4]error
	var group sync.WaitGroup
	for i := range meshes {
		group.Go(func() { meshes[i], errs[i] = d.Decode(t.Context(), coords, latents) })
	}
	group.Wait()
	for i := range meshes {
		require.NoError(t, errs[i])
		require.Equal(t, want, meshes[i])
	}
}

func TestMeshClosed(t *testing.T) {
	d := tinyMesh(t, true)
	d.Close()
	coords, latents := blob(t, 16, 1)
	_, err := d.Decode(t.Context(), coords, latents)
	require.ErrorIs(t, err, nn.ErrClosed)
}

func TestMeshBadConfig(t *testing.T) {
	require.NoError(t, ReleasedMesh().Validate())
	require.Equal(t, 256, ReleasedMesh().MeshResolution())
	for name, change := range map[string]func(*MeshConfig){
		"zero":       func(c *MeshConfig) { *c = MeshConfig{} },
		"resolution": func(c *MeshConfig) { c.Resolution = 129 },
		"perceptron": func(c *MeshConfig) { c.MLPRatio = math.Inf(1) },
		"no groups":  func(c *MeshConfig) { c.Groups = 0 },
		"groups":     func(c *MeshConfig) { c.Groups = 36 },
		"width":      func(c *MeshConfig) { c.Width = 12 },
	} {
		cfg := ReleasedMesh()
		change(&cfg)
		require.ErrorIs(t, cfg.Validate(), ErrConfig, name)
		_, err := NewMesh(fixture.Backend(t), cfg, weights.NewSet(nil))
		require.ErrorIs(t, err, ErrConfig, name)
	}
	var mismatch *weights.MismatchError
	_, err := NewMesh(fixture.Backend(t), ReleasedMesh(), weights.NewSet(nil))
	require.ErrorAs(t, err, &mismatch)
	require.Len(t, mismatch.Missing, 120)
}
