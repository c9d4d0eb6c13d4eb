// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package export

import (
	"bytes"
	"io"
	"math"
	"testing"

	"github.com/qmuntal/gltf"
	"github.com/qmuntal/gltf/modeler"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/flexicubes"
	"github.com/gomlx3d/image3d/internal/geom"
	"github.com/gomlx3d/image3d/splat"
)

// glb writes parts and reads the file back with the decoder of another project.
func glb(t testing.TB, opt GLBOptions, parts ...Part) *gltf.Document {
	t.Helper()
	var buf bytes.Buffer
	require.NoError(t, WriteGLB(&buf, opt, parts...))
	doc := new(gltf.Document)
	require.NoError(t, gltf.NewDecoder(bytes.NewReader(buf.Bytes())).Decode(doc))
	return doc
}

// arrays returns what the primitive of mesh i holds.
func arrays(t testing.TB, doc *gltf.Document, i int) (faces []uint32, positions, normals [][3]float32, colors [][4]uint16) {
	t.Helper()
	require.Len(t, doc.Meshes[i].Primitives, 1)
	p := doc.Meshes[i].Primitives[0]
	require.Equal(t, gltf.PrimitiveTriangles, p.Mode)
	faces, err := modeler.ReadIndices(doc, doc.Accessors[*p.Indices], nil)
	require.NoError(t, err)
	positions, err = modeler.ReadPosition(doc, doc.Accessors[p.Attributes[gltf.POSITION]], nil)
	require.NoError(t, err)
	if at, ok := p.Attributes[gltf.NORMAL]; ok {
		normals, err = modeler.ReadNormal(doc, doc.Accessors[at], nil)
		require.NoError(t, err)
	}
	if at, ok := p.Attributes[gltf.COLOR_0]; ok {
		require.True(t, doc.Accessors[at].Normalized)
		colors, err = modeler.ReadColor64(doc, doc.Accessors[at], nil)
		require.NoError(t, err)
	}
	return faces, positions, normals, colors
}

func TestGLB(t *testing.T) {
	m := ball(20)
	doc := glb(t, GLBOptions{}, Part{Name: "ball", Mesh: m})
	require.Len(t, doc.Nodes, 1)
	require.Equal(t, "ball", doc.Nodes[0].Name)
	require.Equal(t, [3]float64{}, doc.Nodes[0].Translation)
	faces, positions, normals, colors := arrays(t, doc, 0)
	require.Equal(t, m.Faces, faces)
	require.Len(t, positions, len(m.Vertices)/3)
	for i, p := range positions {
		v := m.Vertices[3*i:]
		require.Equal(t, [3]float32{v[0], v[2], -v[1]}, p)
		for k := range p { // the normal of a sphere points away from its middle
			require.InDelta(t, 2*p[k], normals[i][k], 0.15)
			require.InDelta(t, linearFromSRGB(float64(m.Colors[3*i+k])), float64(colors[i][k])/65535, 1e-5)
		}
		require.Equal(t, uint16(65535), colors[i][3])
	}
	position := doc.Accessors[doc.Meshes[0].Primitives[0].Attributes[gltf.POSITION]]
	require.Equal(t, []float64{-0.5, -0.5, -0.5}, position.Min)
	require.Equal(t, []float64{0.5, 0.5, 0.5}, position.Max)
	pbr := doc.Materials[*doc.Meshes[0].Primitives[0].Material].PBRMetallicRoughness
	require.Equal(t, [4]float64{1, 1, 1, 1}, pbr.BaseColorFactorOrDefault())
	require.Zero(t, pbr.MetallicFactorOrDefault())
	require.Equal(t, 1.0, pbr.RoughnessFactorOrDefault())
}

// The colour of the picture becomes linear light: (213, 170, 59) is about (0.665, 0.402, 0.044).
func TestGLBColors(t *testing.T) {
	_, _, _, colors := arrays(t, glb(t, GLBOptions{}, Part{Mesh: hook()}), 0)
	for k, want := range []float64{0.665387, 0.401978, 0.043735} {
		require.InDelta(t, want, float64(colors[0][k])/65535, 2e-5)
	}
	require.Equal(t, [4]uint16{65535, 0, 0, 65535}, colors[1])

	m := hook()
	m.Colors[0], m.Colors[1] = -0.5, 7 // out of range values are cut
	_, _, _, colors = arrays(t, glb(t, GLBOptions{}, Part{Mesh: m}), 0)
	require.Equal(t, uint16(0), colors[0][0])
	require.Equal(t, uint16(65535), colors[0][1])

	m.Colors = nil
	doc := glb(t, GLBOptions{}, Part{Mesh: m})
	require.NotContains(t, doc.Meshes[0].Primitives[0].Attributes, gltf.COLOR_0)
}

func TestGLBRawColors(t *testing.T) {
	doc := glb(t, GLBOptions{RawColors: true}, Part{Mesh: hook()})
	require.Empty(t, doc.Materials)
	p := doc.Meshes[0].Primitives[0]
	require.NotContains(t, p.Attributes, gltf.NORMAL)
	colors, err := modeler.ReadColor(doc, doc.Accessors[p.Attributes[gltf.COLOR_0]], nil)
	require.NoError(t, err)
	require.Equal(t, [4]uint8{213, 170, 59, 255}, colors[0])
	require.Equal(t, [4]uint8{76, 8, 255, 255}, colors[3], "76.5 in float32, rounded to even")
}

// world returns the positions of the node's mesh in the world, by the formulas of the glTF specification.
func world(t testing.TB, doc *gltf.Document, node int) (positions []float32, rotation geom.Mat3) {
	t.Helper()
	n := doc.Nodes[node]
	require.Equal(t, gltf.DefaultMatrix, n.MatrixOrDefault())
	x, y, z, w := n.Rotation[0], n.Rotation[1], n.Rotation[2], n.Rotation[3]
	require.InDelta(t, 1, x*x+y*y+z*z+w*w, 1e-12)
	rotation = geom.Mat3{
		{1 - 2*(y*y+z*z), 2 * (x*y - z*w), 2 * (x*z + y*w)},
		{2 * (x*y + z*w), 1 - 2*(x*x+z*z), 2 * (y*z - x*w)},
		{2 * (x*z - y*w), 2 * (y*z + x*w), 1 - 2*(x*x+y*y)},
	}
	_, local, _, _ := arrays(t, doc, *n.Mesh)
	for _, p := range local {
		scaled := geom.Vec3{float64(p[0]) * n.Scale[0], float64(p[1]) * n.Scale[1], float64(p[2]) * n.Scale[2]}
		for k, x := range rotation.MulVec(scaled) {
			positions = append(positions, float32(x+n.Translation[k]))
		}
	}
	return positions, rotation
}

// A posed mesh lies where the posed splats lie, is not mirrored and keeps its winding.
func TestGLBPoseMatchesSplats(t *testing.T) {
	h := math.Sqrt(0.5)
	for name, pose := range map[string]splat.Pose{
		"general":         testPose(),
		"identity":        splat.NewPose([4]float64{1}, [3]float64{}, 1),
		"quarter about z": splat.NewPose([4]float64{h, 0, 0, h}, [3]float64{1, 2, 3}, 0.1),
		"half about y":    splat.NewPose([4]float64{0, 0, 1, 0}, [3]float64{0, 0, 5}, 3),
		"not unit":        splat.NewPose([4]float64{2, 1, -3, 0.5}, [3]float64{-1, 0, 5}, 3),
	} {
		m := hook()
		g := onVertices(m)
		require.NoError(t, g.Transform(pose))
		doc := glb(t, GLBOptions{}, Part{Mesh: m, Pose: &pose})
		got, rotation := world(t, doc, 0)
		require.InDeltaSlice(t, g.Means, got, 1e-5, name)
		require.InDelta(t, 1, rotation.Det(), 1e-12)
		want := volume(m.Vertices, m.Faces) * math.Pow(pose.Scale, 3)
		require.Positive(t, want)
		require.InEpsilon(t, want, volume(got, m.Faces), 1e-4, name)
	}
}

// Without a pose the mesh is turned, not mirrored.
func TestGLBKeepsHandedness(t *testing.T) {
	faces, positions, _, _ := arrays(t, glb(t, GLBOptions{}, Part{Mesh: hook()}), 0)
	var flat []float32
	for _, p := range positions {
		flat = append(flat, p[:]...)
	}
	require.InEpsilon(t, volume(hook().Vertices, hook().Faces), volume(flat, faces), 1e-6)
}

// A scene of meshes coincides with the scene of their splats; empty parts stay as nodes.
func TestGLBScene(t *testing.T) {
	poses := []splat.Pose{testPose(), splat.NewPose([4]float64{0.5, 0.5, -0.5, 0.5}, [3]float64{1, 0, 2}, 0.4)}
	meshes := []*flexicubes.Mesh{hook(), ball(4)}
	var objects []splat.Object
	for i := range meshes {
		objects = append(objects, splat.Object{Gaussians: onVertices(meshes[i]), Pose: poses[i]})
	}
	scene, err := splat.MakeScene(objects)
	require.NoError(t, err)

	doc := glb(t, GLBOptions{},
		Part{Name: "hook", Mesh: meshes[0], Pose: &poses[0]},
		Part{Name: "nothing", Mesh: &flexicubes.Mesh{}, Pose: &poses[0]},
		Part{Name: "ball", Mesh: meshes[1], Pose: &poses[1]})
	require.Len(t, doc.Nodes, 3)
	require.Len(t, doc.Meshes, 2)
	require.Len(t, doc.Materials, 1)
	require.Equal(t, []int{0, 1, 2}, doc.Scenes[0].Nodes)
	require.Nil(t, doc.Nodes[1].Mesh)
	first, _ := world(t, doc, 0)
	second, _ := world(t, doc, 2)
	require.InDeltaSlice(t, scene.Means, append(first, second...), 1e-5)
}

func TestGLBRejectsPose(t *testing.T) {
	require.ErrorIs(t, WriteGLB(io.Discard, GLBOptions{}, Part{Mesh: hook(), Pose: &splat.Pose{}}), splat.ErrPose)
}

// Lone vertices and flat faces have no normal of their own; the file still holds unit vectors.
func TestGLBNormalsAreUnit(t *testing.T) {
	m := hook()
	m.Vertices = append(m.Vertices, 1, 1, 1, 2, 2, 2, 3, 3, 3)
	m.Colors = append(m.Colors, make([]float32, 9)...)
	m.Faces = append(m.Faces, 5, 6, 6)
	for _, factor := range []float32{1, 1e-20, 1e18} {
		scaled := &flexicubes.Mesh{Faces: m.Faces}
		for _, x := range m.Vertices {
			scaled.Vertices = append(scaled.Vertices, factor*x)
		}
		_, _, normals, _ := arrays(t, glb(t, GLBOptions{}, Part{Mesh: scaled}), 0)
		for _, n := range normals {
			length := math.Sqrt(float64(n[0])*float64(n[0]) + float64(n[1])*float64(n[1]) + float64(n[2])*float64(n[2]))
			require.InDelta(t, 1, length, 1e-6)
		}
		require.Equal(t, [3]float32{0, 1, 0}, [3]float32{normals[4][0], normals[4][1], normals[4][2] + 0})
	}
}
