// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d_test

import (
	"bytes"
	"context"
	"encoding/json"
	"image"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx/compute"

	"github.com/gomlx3d/image3d/export"
	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/geom"
	"github.com/gomlx3d/image3d/sam3d"
	"github.com/gomlx3d/image3d/splat"
)

// endToEnd is the part of an end-to-end case that says how to run it.
type endToEnd struct {
	Call struct {
		Seed          uint64   `json:"seed"`
		Formats       []string `json:"formats"`
		Steps         int      `json:"ss_steps"`
		LatentSteps   int      `json:"slat_steps"`
		EstimateDepth *bool    `json:"estimate_depth"`
	} `json:"call"`
	Weights struct {
		Bundle string `json:"bundle"`
	} `json:"weights"`
}

// TestReference runs the whole pipeline on a small bundle with the noise of the reference.
func TestReference(t *testing.T) {
	skipIfShort(t)
	fixture.Run(t, "e2e_mlx", func(t *testing.T, c *fixture.Case) {
		var e endToEnd
		require.NoError(t, json.Unmarshal(c.Raw, &e))
		checkEndToEnd(t, c, generate(t, filepath.Join(filepath.Dir(c.Path), e.Weights.Bundle), endToEndRequest(t, c)))
	})
}

// TestOfficialFolderGivesTheSame runs the same weights from a folder in the official layout.
func TestOfficialFolderGivesTheSame(t *testing.T) {
	skipIfShort(t)
	c := fixture.Load(t, "e2e_mlx", "a_pointmap")
	request := endToEndRequest(t, c)
	official := generate(t, filepath.Join(fixture.Dir(), "checkpoint_official_tiny"), request)
	checkEndToEnd(t, c, official)
	bundle := generate(t, filepath.Join(fixture.Dir(), "checkpoint_mlx_tiny"), request)
	official.Timings, official.Took, bundle.Timings, bundle.Took = nil, 0, nil, 0
	require.Equal(t, bundle, official, "both layouts hold the same weights")
}

// backendName is the backend under test.
func backendName() string {
	if name := os.Getenv(compute.ConfigEnvVar); name != "" {
		return name
	}
	return "go"
}

func open(t *testing.T, source string) *sam3d.Pipeline {
	t.Helper()
	p, err := sam3d.Open(context.Background(), source, sam3d.Options{Backend: backendName()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func generate(t *testing.T, source string, request sam3d.Request) *sam3d.Result {
	t.Helper()
	result, err := open(t, source).Generate(context.Background(), request)
	require.NoError(t, err)
	return result
}

func endToEndRequest(t *testing.T, c *fixture.Case) sam3d.Request {
	t.Helper()
	var e endToEnd
	require.NoError(t, json.Unmarshal(c.Raw, &e))
	request := sam3d.Request{
		Image: caseImage(t, c), Seed: e.Call.Seed, Steps: e.Call.Steps, LatentSteps: e.Call.LatentSteps,
		NoDepth: e.Call.EstimateDepth != nil && !*e.Call.EstimateDepth,
		Noise:   &sam3d.Noise{Structure: make(map[string][]float32), Latent: c.Float32s(t, "in/noise/slat")},
	}
	for _, name := range []string{"6drotation_normalized", "scale", "shape", "translation", "translation_scale"} {
		request.Noise.Structure[name] = c.Float32s(t, "in/noise/"+name)
	}
	if c.Has("in/mask") {
		shape := c.Shape(t, "in/mask")
		request.Mask = &image.Gray{Pix: c.Bytes(t, "in/mask"), Stride: shape[1], Rect: image.Rect(0, 0, shape[1], shape[0])}
	}
	if c.Has("in/pointmap") {
		shape := c.Shape(t, "in/pointmap")
		request.PointMap = &sam3d.PointMap{Width: shape[1], Height: shape[0], Points: c.Float32s(t, "in/pointmap")}
	}
	for _, format := range e.Call.Formats {
		switch format {
		case "gaussian":
			request.Outputs |= sam3d.Gaussians
		case "gaussian_4":
			request.Outputs |= sam3d.Gaussians4
		case "mesh":
			request.Outputs |= sam3d.Mesh
		default:
			require.Fail(t, "unknown format", format)
		}
	}
	return request
}

// caseImage is in/image [H, W, 3] or [H, W, 4], uint8.
func caseImage(t *testing.T, c *fixture.Case) image.Image {
	t.Helper()
	shape, data := c.Shape(t, "in/image"), c.Bytes(t, "in/image")
	img := image.NewNRGBA(image.Rect(0, 0, shape[1], shape[0]))
	for i := range shape[0] * shape[1] {
		img.Pix[4*i+3] = 255
		copy(img.Pix[4*i:], data[shape[2]*i:shape[2]*(i+1)])
	}
	return img
}

// checkEndToEnd compares every output of the case.
func checkEndToEnd(t *testing.T, c *fixture.Case, r *sam3d.Result) {
	t.Helper()
	for _, name := range c.Outputs() {
		switch name {
		case "out/coords":
			var coords []int32
			for i := 0; i < len(r.Voxels); i += 3 {
				coords = append(coords, 0, r.Voxels[i], r.Voxels[i+1], r.Voxels[i+2])
			}
			c.Check(t, name, coords)
		case "out/latents":
			c.Check(t, name, r.Latents)
		case "out/pose/rotation":
			c.Check(t, name, r.Pose.Rotation[:])
		case "out/pose/rotation_matrix":
			c.Check(t, name, matrix(r.Pose.Rotation))
		case "out/pose/translation":
			c.Check(t, name, r.Pose.Translation[:])
		case "out/pose/scale":
			c.Check(t, name, []float64{r.Pose.Scale, r.Pose.Scale, r.Pose.Scale})
		case "out/gaussian_ply", "out/gaussian_4_ply":
			checkPLY(t, c, name, map[string]*splat.Gaussians{"out/gaussian_ply": r.Gaussians, "out/gaussian_4_ply": r.Gaussians4}[name])
		default:
			checkGeometry(t, c, name, r)
		}
	}
}

func matrix(wxyz [4]float64) (flat []float64) {
	for _, row := range geom.QuatFromWXYZ(wxyz).Matrix() {
		flat = append(flat, row[:]...)
	}
	return flat
}

func checkGeometry(t *testing.T, c *fixture.Case, name string, r *sam3d.Result) {
	t.Helper()
	folder, attribute := filepath.Split(name)
	if folder == "out/mesh/" {
		switch attribute {
		case "vertices":
			c.Check(t, name, r.Mesh.Vertices)
		case "faces":
			c.Check(t, name, r.Mesh.Faces)
		case "vertex_colors":
			var colors []float32
			for i := 0; i < len(r.Mesh.Colors); i += 3 {
				colors = append(append(colors, r.Mesh.Colors[i:i+3]...), r.Mesh.NormalMap[i:i+3]...)
			}
			c.Check(t, name, colors)
		default:
			t.Errorf("unknown output %s", name)
		}
		return
	}
	g := map[string]*splat.Gaussians{"out/gaussian/": r.Gaussians, "out/gaussian_4/": r.Gaussians4}[folder]
	require.NotNil(t, g, "unknown output %s", name)
	switch attribute {
	case "positions":
		c.Check(t, name, g.Means)
	case "sh_dc":
		c.Check(t, name, g.SH)
	case "scales":
		c.Check(t, name, g.Scales())
	case "rotations":
		c.Check(t, name, g.UnitRotations())
	case "opacities":
		c.Check(t, name, g.Opacities())
	default:
		t.Errorf("unknown output %s", name)
	}
}

// checkPLY compares a file with the reference's, which differs in one documented point: its rotations are normalised.
func checkPLY(t *testing.T, c *fixture.Case, name string, g *splat.Gaussians) {
	t.Helper()
	unit := g.Clone()
	unit.Rotations = g.UnitRotations()
	var ours bytes.Buffer
	require.NoError(t, export.WritePLY(&ours, unit, export.PLYOptions{}))
	theirs := c.Bytes(t, name)
	end := bytes.Index(theirs, []byte("end_header\n")) + len("end_header\n")
	require.Equal(t, string(theirs[:end]), string(ours.Bytes()[:end]), "%s: header", name)
	want, err := export.ReadPLY(bytes.NewReader(theirs))
	require.NoError(t, err)
	tolerance := c.Tolerance[name]
	for attribute, values := range map[string][2][]float32{
		"means": {want.Means, unit.Means}, "SH": {want.SH, unit.SH}, "scales": {want.LogScales, unit.LogScales},
		"rotations": {want.Rotations, unit.Rotations}, "opacities": {want.OpacityLogits, unit.OpacityLogits},
	} {
		require.Len(t, values[1], len(values[0]), "%s: %s", name, attribute)
		for i, w := range values[0] {
			require.InDelta(t, w, values[1][i], tolerance.Abs+tolerance.Rel*max(float64(w), -float64(w)), "%s: %s %d", name, attribute, i)
		}
	}
}
