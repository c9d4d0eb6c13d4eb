// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package splat

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
)

// representation is how the reference cases describe an Activation.
type representation struct {
	Kind        string     `json:"kind"`
	AABB        []float32  `json:"aabb"`
	Kernel      float64    `json:"mininum_kernel_size"`
	Kernel3D    *float64   `json:"3d_filter_kernel_size"` // its name in decoder configurations
	ScaleBias   float64    `json:"scaling_bias"`
	OpacityBias float64    `json:"opacity_bias"`
	Scaling     string     `json:"scaling_activation"`
	Decoder     *innerRepr `json:"representation_config"`
}

type innerRepr representation

func (r representation) activation(t *testing.T) Activation {
	t.Helper()
	a := DefaultActivation()
	a.Kernel, a.ScaleBias, a.OpacityBias = r.Kernel, r.ScaleBias, r.OpacityBias
	if r.Kernel3D != nil {
		a.Kernel = *r.Kernel3D
	}
	if len(r.AABB) == 6 {
		a.BoxMin, a.BoxSize = [3]float32(r.AABB[:3]), [3]float32(r.AABB[3:])
	}
	switch r.Scaling {
	case "exp":
		a.Exp = true
	case "softplus":
	default:
		require.Fail(t, "unknown activation of scales", r.Scaling)
	}
	return a
}

func raw(t *testing.T, c *fixture.Case, prefix, suffix string) Raw {
	t.Helper()
	get := func(name string) []float32 { return c.Float32s(t, prefix+name+suffix) }
	return Raw{XYZ: get("xyz"), SH: get("features_dc"), Scaling: get("scaling"), Rotation: get("rotation"), Opacity: get("opacity")}
}

// table returns the 17 columns of a splat file.
func (g *Gaussians) table() []float32 {
	out := make([]float32, 0, 17*g.Len())
	for i := range g.Len() {
		out = append(out, g.Means[3*i:3*i+3]...)
		out = append(out, 0, 0, 0)
		out = append(out, g.SH[3*i:3*i+3]...)
		out = append(out, g.OpacityLogits[i])
		out = append(out, g.LogScales[3*i:3*i+3]...)
		out = append(out, g.Rotations[4*i:4*i+4]...)
	}
	return out
}

func TestReference(t *testing.T) {
	t.Run("gsdecoder", func(t *testing.T) { fixture.Run(t, "gsdecoder", testActivationCase) })
	t.Run("scene", func(t *testing.T) { fixture.Run(t, "scene", testSceneCase) })
}

func testActivationCase(t *testing.T, c *fixture.Case) {
	var config representation
	c.Decode(t, &config)
	prefix := "in/raw_"
	switch config.Kind {
	case "gaussian":
	case "gs_decoder":
		require.NotNil(t, config.Decoder)
		config, prefix = representation(*config.Decoder), "out/raw_"
	case "perturbation":
		t.Skip("offsets inside of a voxel belong to the network's package, sam3d/decoder")
	default:
		require.Fail(t, "unknown kind", config.Kind)
	}
	a := config.activation(t)
	if c.Has("mid/scale_bias") {
		c.CheckWithin(t, "mid/scale_bias", []float32{a.scaleShift()}, fixture.Tolerance{Abs: 1e-6})
		c.CheckWithin(t, "mid/opacity_bias", []float32{a.opacityShift()}, fixture.Tolerance{Abs: 1e-6})
	}
	decoded := make(map[string]*Gaussians) // by suffix: one for each item of the batch
	for _, output := range c.Outputs() {
		name, suffix := strings.TrimPrefix(output, "out/"), ""
		if dot := strings.LastIndexByte(name, '.'); dot >= 0 {
			name, suffix = name[:dot], name[dot:]
		}
		g := decoded[suffix]
		if g == nil {
			var err error
			g, err = a.Decode(raw(t, c, prefix, suffix))
			require.NoError(t, err)
			decoded[suffix] = g
		}
		switch name {
		case "raw_xyz", "raw_features_dc", "raw_scaling", "raw_rotation", "raw_opacity": // what is decoded here
		case "xyz":
			c.Check(t, output, g.Means)
		case "scaling":
			c.Check(t, output, g.Scales())
		case "rotation":
			c.Check(t, output, g.UnitRotations())
		case "opacity":
			c.Check(t, output, g.Opacities())
		case "ply_table":
			c.Check(t, output, g.table())
		case "ply_header":
			require.Contains(t, string(c.Bytes(t, output)), fmt.Sprintf("element vertex %d\n", g.Len()))
		default:
			require.Fail(t, "unknown output", output)
		}
	}
}

func testSceneCase(t *testing.T, c *fixture.Case) {
	var config struct {
		Objects        int             `json:"n_objects"`
		Representation json.RawMessage `json:"representation"`
	}
	c.Decode(t, &config)
	var r representation
	require.NoError(t, json.Unmarshal(config.Representation, &r))
	a := r.activation(t)

	objects := make([]Object, config.Objects)
	for i := range objects {
		prefix := fmt.Sprintf("in/obj%d/", i)
		g, err := a.Decode(raw(t, c, prefix, ""))
		require.NoError(t, err)
		q, s := c.Float64s(t, prefix+"pose_rotation"), c.Float64s(t, prefix+"pose_scale")
		pose := NewPose([4]float64(q), [3]float64(c.Float64s(t, prefix+"pose_translation")), s[0])
		objects[i] = Object{Gaussians: g, Pose: pose}
	}
	scene, err := MakeScene(objects)
	require.NoError(t, err)
	ready, fixed := scene.Clone(), scene.Clone()
	require.NoError(t, ready.Normalize())
	fixed.SwapViewerAxes()
	require.NoError(t, fixed.Normalize())

	for _, output := range c.Outputs() {
		if output == "out/ply_rows" {
			c.Check(t, output, ready.table())
			continue
		}
		parts := strings.Split(output, "/")
		require.Len(t, parts, 3, output)
		g, ok := map[string]*Gaussians{"scene": scene, "ready": ready, "ready_fixed": fixed}[parts[1]]
		require.True(t, ok, "unknown output %s", output)
		c.Check(t, output, sceneOutput(t, g, a, parts[2]))
	}
}

func sceneOutput(t *testing.T, g *Gaussians, a Activation, name string) any {
	switch name {
	case "positions":
		return g.Means
	case "scales":
		return g.Scales()
	case "quaternions":
		return g.UnitRotations()
	case "opacities":
		return g.Opacities()
	case "kernel_size":
		return []float64{g.Kernel}
	case "covariance6":
		var out []float64
		for i := range g.Len() {
			cov := g.Covariance(i)
			out = append(out, cov[:]...)
		}
		return out
	case "raw_features_dc":
		return g.SH
	}
	return rawOutput(t, g, a, name)
}

// rawOutput inverts the activation, as the original does when it stores the values of a scene.
func rawOutput(t *testing.T, g *Gaussians, a Activation, name string) []float64 {
	var out []float64
	switch name {
	case "raw_xyz":
		for i, x := range g.Means {
			out = append(out, (float64(x)-float64(a.BoxMin[i%3]))/float64(a.BoxSize[i%3]))
		}
	case "raw_scaling":
		for _, l := range g.LogScales {
			s := math.Sqrt(math.Exp(2*float64(l)) - g.Kernel*g.Kernel)
			inverse := s + math.Log(-math.Expm1(-s))
			if a.Exp {
				inverse = math.Log(s)
			}
			out = append(out, inverse-float64(a.scaleShift()))
		}
	case "raw_rotation":
		for i, x := range g.Rotations {
			if i%4 == 0 {
				x--
			}
			out = append(out, float64(x))
		}
	case "raw_opacity":
		for _, l := range g.OpacityLogits {
			out = append(out, float64(l-a.opacityShift()))
		}
	default:
		require.Fail(t, "unknown output", name)
	}
	return out
}
