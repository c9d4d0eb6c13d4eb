// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package export

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/qmuntal/gltf"
	"github.com/qmuntal/gltf/modeler"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/flexicubes"
	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/splat"
)

func TestReference(t *testing.T) {
	t.Run("postprocess", func(t *testing.T) { fixture.Run(t, "postprocess", testPostprocessCase) })
	t.Run("writers_mlx", func(t *testing.T) { fixture.Run(t, "writers_mlx", testWritersCase) })
	t.Run("gsdecoder", func(t *testing.T) { fixture.Run(t, "gsdecoder", testGaussiansCase) })
}

func testPostprocessCase(t *testing.T, c *fixture.Case) {
	var config struct{ Kind string }
	c.Decode(t, &config)
	require.Equal(t, "glb_vertex_color", config.Kind)
	doc := glb(t, GLBOptions{RawColors: true}, Part{Mesh: &flexicubes.Mesh{
		Vertices: c.Float32s(t, "in/vertices"),
		Faces:    convert[uint32](c.Ints(t, "in/faces")),
		Colors:   firstThree(c.Float32s(t, "in/vertex_attrs"), c.Shape(t, "in/vertex_attrs")[1]),
	}})
	faces, positions, _, _ := arrays(t, doc, 0)
	colors, err := modeler.ReadColor(doc, doc.Accessors[doc.Meshes[0].Primitives[0].Attributes[gltf.COLOR_0]], nil)
	require.NoError(t, err)
	for _, output := range c.Outputs() {
		switch output {
		case "out/positions":
			c.Check(t, output, flatten(positions, func(v [3]float32) []float32 { return v[:] }))
		case "out/indices":
			c.Check(t, output, faces)
		case "out/colors":
			c.Check(t, output, flatten(colors, func(v [4]uint8) []uint8 { return v[:] }))
		default:
			require.Fail(t, "unknown output", output)
		}
	}
}

func convert[T uint32](in []int) []T {
	out := make([]T, len(in))
	for i, x := range in {
		out[i] = T(x)
	}
	return out
}

func flatten[V any, T any](in []V, slice func(V) []T) (out []T) {
	for _, v := range in {
		out = append(out, slice(v)...)
	}
	return out
}

// firstThree returns the first three of every width values.
func firstThree(in []float32, width int) (out []float32) {
	for i := 0; i < len(in); i += width {
		out = append(out, in[i:i+3]...)
	}
	return out
}

// The MLX port writes the same columns; it clips opacities where this project and the original write infinities.
func testWritersCase(t *testing.T, c *fixture.Case) {
	get := func(name string) []float32 { return c.Float32s(t, "in/gaussian/"+name) }
	g := &splat.Gaussians{
		Means: get("positions"), SH: get("sh_dc"), Rotations: get("rotations"),
		LogScales: get("scales"), OpacityLogits: get("opacities"),
	}
	for i, s := range g.LogScales {
		g.LogScales[i] = float32(math.Log(float64(s)))
	}
	for i, p := range g.OpacityLogits {
		p = min(max(p, 1e-7), 1-1e-7)
		g.OpacityLogits[i] = float32(math.Log(float64(p / (1 - p))))
	}
	m := &flexicubes.Mesh{
		Vertices: c.Float32s(t, "in/mesh/vertices"),
		Faces:    convert[uint32](c.Ints(t, "in/mesh/faces")),
		Colors:   firstThree(c.Float32s(t, "in/mesh/vertex_colors"), c.Shape(t, "in/mesh/vertex_colors")[1]),
	}
	for _, output := range c.Outputs() {
		switch output {
		case "out/ply":
			header, table := split(t, plyBytes(t, g, PLYOptions{}))
			wantHeader, want := split(t, c.Bytes(t, output))
			require.Equal(t, wantHeader, header)
			tol := c.Tolerance[output]
			for i := range want {
				require.InDelta(t, want[i], table[i], tol.Abs+tol.Rel*math.Abs(float64(want[i])), "value %d", i)
			}
		case "out/obj":
			var obj bytes.Buffer
			require.NoError(t, WriteOBJ(&obj, m))
			require.Equal(t, string(c.Bytes(t, output)), obj.String())
		default:
			require.Fail(t, "unknown output", output)
		}
	}
}

// split returns the header and the values of a binary PLY file.
func split(t *testing.T, file []byte) (header string, table []float32) {
	t.Helper()
	head, body, found := bytes.Cut(file, []byte("end_header\n"))
	require.True(t, found)
	require.Zero(t, len(body)%4)
	for i := 0; i < len(body); i += 4 {
		table = append(table, math.Float32frombits(binary.LittleEndian.Uint32(body[i:])))
	}
	return string(head) + "end_header\n", table
}

// representation is how the cases describe an activation.
type representation struct {
	AABB        []float32 `json:"aabb"`
	Kernel      float64   `json:"mininum_kernel_size"`
	Kernel3D    float64   `json:"3d_filter_kernel_size"` // its name in decoder configurations
	ScaleBias   float64   `json:"scaling_bias"`
	OpacityBias float64   `json:"opacity_bias"`
	Scaling     string    `json:"scaling_activation"`
}

func (r representation) activation() splat.Activation {
	a := splat.DefaultActivation()
	a.Kernel, a.ScaleBias, a.OpacityBias, a.Exp = r.Kernel+r.Kernel3D, r.ScaleBias, r.OpacityBias, r.Scaling == "exp"
	if len(r.AABB) == 6 {
		a.BoxMin, a.BoxSize = [3]float32(r.AABB[:3]), [3]float32(r.AABB[3:])
	}
	return a
}

// The bytes of the file from the attributes of a decoder. What is between is checked in package splat.
func testGaussiansCase(t *testing.T, c *fixture.Case) {
	var config struct {
		representation
		Kind    string
		Decoder representation `json:"representation_config"`
	}
	c.Decode(t, &config)
	r, prefix := config.representation, "in/raw_"
	switch config.Kind {
	case "gaussian":
	case "gs_decoder":
		r, prefix = config.Decoder, "out/raw_"
	case "perturbation":
		t.Skip("no file is written: see sam3d/decoder")
	default:
		require.Fail(t, "unknown kind", config.Kind)
	}
	checked := 0
	for _, output := range c.Outputs() {
		name, suffix, _ := strings.Cut(output, ".")
		if name != "out/ply_header" && name != "out/ply_table" {
			continue // checked in package splat
		}
		if suffix != "" {
			suffix = "." + suffix // of an item of a batch
		}
		get := func(attribute string) []float32 { return c.Float32s(t, prefix+attribute+suffix) }
		g, err := r.activation().Decode(splat.Raw{XYZ: get("xyz"), SH: get("features_dc"), Scaling: get("scaling"),
			Rotation: get("rotation"), Opacity: get("opacity")})
		require.NoError(t, err)
		header, table := split(t, plyBytes(t, g, PLYOptions{}))
		if name == "out/ply_header" {
			require.Equal(t, string(c.Bytes(t, output)), header)
		} else {
			c.Check(t, output, table)
		}
		checked++
	}
	require.NotZero(t, checked)
}
