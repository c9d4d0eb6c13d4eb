// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flexicubes

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
)

// referenceConfig holds the keys of the kinds of case that concern meshing.
type referenceConfig struct {
	Kind        string  `json:"kind"`
	Res         int     `json:"res"`          // flexicubes, sparse2mesh
	WeightScale float64 `json:"weight_scale"` // flexicubes
	UseColor    *bool   `json:"use_color"`    // sparse2mesh
	Resolution  int     `json:"resolution"`   // mesh_decoder: of the latent
}

func TestReference(t *testing.T) {
	fixture.Run(t, "meshdecoder", func(t *testing.T, c *fixture.Case) {
		var config referenceConfig
		c.Decode(t, &config)
		switch config.Kind {
		case "tables":
			checkTables(t, c)
		case "flexicubes":
			checkField(t, c, config)
		case "sparse2mesh":
			channels := plainChannels
			if config.UseColor == nil || *config.UseColor {
				channels = coloredChannels
			}
			require.Equal(t, channels, c.Shape(t, "in/feats")[1])
			checkVoxels(t, c, config.Res, "in/coords", "in/feats")
		case "mesh_decoder":
			if !c.Has("mid/out_layer") || !c.Has("mid/fine_coords") {
				t.Skip("network: the case holds no features to mesh; read by sam3d/decoder")
			}
			checkVoxels(t, c, 4*config.Resolution, "mid/fine_coords", "mid/out_layer")
		case "subdivide_block":
			t.Skip("network block: read by sam3d/decoder")
		default:
			t.Fatalf("unknown kind %q", config.Kind)
		}
	})
}

// checkTables compares the generated topology with the layout of the original tables.
func checkTables(t *testing.T, c *fixture.Case) {
	var patches, counts, checks, corners, edges []int
	for i, s := range signCases() {
		counts = append(counts, int(s.count))
		for _, p := range s.patches {
			for k := range 7 {
				if k < len(p) {
					patches = append(patches, int(p[k]))
				} else {
					patches = append(patches, -1)
				}
			}
		}
		if s.flagged {
			checks = append(checks, 1, int(s.dir[0]), int(s.dir[1]), int(s.dir[2]), 255-i)
		} else {
			checks = append(checks, 0, 0, 0, 0, 0)
		}
	}
	for i := range 8 {
		corners = append(corners, i&1, i>>1&1, i>>2)
	}
	for _, e := range edgeCorners {
		edges = append(edges, int(e[0]), int(e[1]))
	}
	checkOutputs(t, c, map[string]any{
		"out/dmc_table": patches, "out/num_vd_table": counts, "out/check_table": checks,
		"out/cube_corners": corners, "out/cube_edges": edges,
	})
}

func checkField(t *testing.T, c *fixture.Case, config referenceConfig) {
	optional := func(name string) []float32 {
		if !c.Has(name) {
			return nil
		}
		return c.Float32s(t, name)
	}
	f := Field{
		Resolution: config.Res, SDF: c.Float32s(t, "in/sdf"), WeightScale: config.WeightScale,
		Deform: optional("in/deform"), Colors: optional("in/colors"),
		Beta: optional("in/beta"), Alpha: optional("in/alpha"), Gamma: optional("in/gamma"),
	}
	mesh, err := FromField(t.Context(), f)
	require.NoError(t, err)
	checkMesh(t, c, mesh, "out/colors")

	s := newSurface(config.Res)
	for x := range s.res + 1 {
		for y := range s.res + 1 {
			setSigns(s.inside.row(x, y), s.zero.row(x, y), f.SDF[f.vertex(x, y, 0):][:s.res+1])
		}
	}
	checkSurface(t, c, s, &f, f.Gamma != nil)
}

func checkVoxels(t *testing.T, c *fixture.Case, res int, coords, feats string) {
	voxels := Voxels{Resolution: res, Coords: rows(c.Ints(t, coords)), Features: c.Float32s(t, feats)}
	mesh, err := FromVoxels(t.Context(), voxels)
	require.NoError(t, err)
	checkMesh(t, c, mesh, "out/vertex_attrs")

	f, err := newVoxelField(voxels)
	require.NoError(t, err)
	require.NoError(t, f.load(t.Context(), voxels.Coords))
	s := newSurface(res)
	for x := range res + 1 {
		for y := range res + 1 {
			f.signRow(s, x, y)
		}
	}
	checkSurface(t, c, s, f, true)

	if !c.Has("mid/vertex_coords") || !c.Has("mid/vertex_sdf") {
		return
	}
	touched := c.Ints(t, "mid/vertex_coords")
	var sdf []float32
	for v := range slices.Chunk(touched, 3) {
		row := make([]uint64, s.inside.words)
		row[v[2]>>6] = 1 << (v[2] & 63)
		out := make([]sample, 1)
		f.samples(v[0], v[1], row, out)
		sdf = append(sdf, out[0].sdf)
	}
	c.CheckWithin(t, "mid/vertex_sdf", sdf, fixture.Tolerance{Abs: 1e-6, Rel: 1e-6})
}

// checkSurface compares intermediate results; where they differ says which stage is at fault.
func checkSurface(t *testing.T, c *fixture.Case, s *surface, f field, gamma bool) {
	e := &extraction{surface: s, source: f, scale: 0.99, offset: 0.005}
	require.NoError(t, s.build(t.Context()))
	var cubes, raw, edges []int
	for x := range s.res {
		for y := range s.res {
			for z := range points(s.cubes.row(x, y)) {
				cubes = append(cubes, (x*s.res+y)*s.res+z)
				raw = append(raw, int(s.signs(x, y, z)))
			}
		}
	}
	side := s.res + 1
	for v := range side * side * side {
		x, y, z := v/side/side, v/side%side, v%side
		for _, k := range []struct{ axis, end int }{{1, v - side}, {2, v + 1}, {0, v + side*side}} {
			if s.edges(k.axis, x, y, z>>6)>>(z&63)&1 != 0 {
				edges = append(edges, v, k.end)
			}
		}
	}
	for name, got := range map[string]any{
		"mid/surf_cubes": cubes, "mid/case_ids_raw": raw, "mid/case_ids": s.cases, "mid/surf_edges": edges,
	} {
		if c.Has(name) {
			c.Check(t, name, got)
		}
	}
	if !gamma || !c.Has("mid/vd_gamma") {
		return // the original has 1 where we have the neutral 0.5; only ratios count
	}
	got := make([]float32, s.numVertices)
	i := 0
	for x := range s.res {
		for y := range s.res {
			for z := range points(s.cubes.row(x, y)) {
				_, _, g := f.weights(x, y, z)
				for p := range signCases()[s.cases[i]].count {
					got[int(s.first[i])+int(p)] = sigmoid(g)*e.scale + e.offset
				}
				i++
			}
		}
	}
	c.CheckWithin(t, "mid/vd_gamma", got, fixture.Tolerance{Abs: 1e-6})
}

// checkMesh compares every output; attributes is the name of the interleaved colours and normal channels.
func checkMesh(t *testing.T, c *fixture.Case, m *Mesh, attributes string) {
	t.Helper()
	got := map[string]any{"out/vertices": m.Vertices, "out/faces": m.Faces}
	if m.Colors != nil {
		flat := []float32{}
		for i := 0; i < len(m.Colors); i += 3 {
			flat = append(append(flat, m.Colors[i:i+3]...), m.NormalMap[i:i+3]...)
		}
		got[attributes] = flat
	}
	for _, v := range m.Vertices {
		require.False(t, math.IsNaN(float64(v)))
	}
	checkOutputs(t, c, got)
}

// checkOutputs compares results with all outputs of a case, no more and no less.
func checkOutputs(t *testing.T, c *fixture.Case, got map[string]any) {
	t.Helper()
	names := c.Outputs()
	require.Len(t, got, len(names), "the case has %v", names)
	for _, name := range names {
		require.Contains(t, got, name)
		c.Check(t, name, got[name])
	}
}

func rows(flat []int) [][4]int32 {
	out := make([][4]int32, len(flat)/4)
	for i, v := range flat {
		out[i/4][i%4] = int32(v)
	}
	return out
}
