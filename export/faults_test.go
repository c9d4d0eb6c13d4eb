// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package export

import (
	"bytes"
	"math"
	"testing"

	"github.com/qmuntal/gltf"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/flexicubes"
	"github.com/gomlx3d/image3d/internal/geom"
	"github.com/gomlx3d/image3d/splat"
)

// The tests of this file are the faults C16 and C31 of other programs for this task.

// needles puts on each vertex of a mesh a splat that is long in the direction of the next one.
func needles(m *flexicubes.Mesh) *splat.Gaussians {
	g := onVertices(m)
	n := uint32(len(m.Vertices) / 3)
	for i := range n {
		along := vertexAt(m, (i+1)%n).Sub(vertexAt(m, i)).Normalize()
		// The rotation that takes x to along: half a turn about the middle of the two.
		half := along.Add(geom.Vec3{1}).Normalize()
		copy(g.Rotations[4*i:], []float32{0, float32(half[0]), float32(half[1]), float32(half[2])})
		copy(g.LogScales[3*i:], []float32{-2, -6, -6})
	}
	return g
}

// C16: pose and axes of a scene. Objects without symmetry are posed, joined to a scene of splats and a scene of meshes, and
// both files are read back: by the transforms that the nodes have, vertices lie where their splats are, and edges
// point where the splats do.
func TestC16SceneOfMeshesIsSceneOfSplats(t *testing.T) {
	h := math.Sqrt(0.5)
	poses := []splat.Pose{
		testPose(), splat.NewPose([4]float64{1}, [3]float64{}, 1), splat.NewPose([4]float64{h, 0, 0, h}, [3]float64{1, 2, 3}, 0.1),
		splat.NewPose([4]float64{0, 0, 1, 0}, [3]float64{0, 0, 5}, 3), splat.NewPose([4]float64{0.5, -0.5, 0.5, 0.5}, [3]float64{-4, 1, 9}, 0.7),
	}
	var objects []SceneObject
	var files []GLBFile
	for i := range poses {
		g := needles(hook())
		objects = append(objects, SceneObject{Splats: g.Len(), Pose: poses[i], Load: func() (*splat.Gaussians, error) { return g, nil }})
		files = append(files, glbFileOf(t, "hook", &poses[i], Part{Mesh: hook()}))
	}
	var ply, joined bytes.Buffer
	require.NoError(t, WriteScenePLY(&ply, PLYOptions{}, objects...))
	require.NoError(t, JoinGLB(&joined, &Camera{FOVX: 1.2, FOVY: 1}, files...))
	scene, err := ReadPLY(&ply)
	require.NoError(t, err)
	doc := new(gltf.Document)
	require.NoError(t, gltf.NewDecoder(&joined).Decode(doc))
	require.Len(t, doc.Nodes, len(poses)+1)

	n := len(hook().Vertices) / 3
	for object := range poses {
		positions, rotation := world(t, doc, object)
		require.InDelta(t, 1, rotation.Det(), 1e-12)
		first := object * n
		require.InDeltaSlice(t, scene.Means[3*first:3*(first+n)], positions, 1e-5, "object %d", object)
		m := &flexicubes.Mesh{Vertices: positions}
		for i := range n {
			edge := vertexAt(m, uint32((i+1)%n)).Sub(vertexAt(m, uint32(i))).Normalize()
			c := scene.Covariance(first + i)
			variance := edge.Dot(geom.Mat3{{c[0], c[1], c[2]}, {c[1], c[3], c[4]}, {c[2], c[4], c[5]}}.MulVec(edge))
			long := math.Exp(-2) * poses[object].Scale
			require.InEpsilon(t, long*long, variance, 1e-4, "object %d, splat %d", object, i)
		}
	}
}

// C31: letters stay readable. The strokes of an R on the front of a plate run the same way round, seen from the front, in
// every format, and faces stay wound outward.
func TestC31NothingIsMirrored(t *testing.T) {
	// Foot, top and leg of the letter, in a plane y = -0.1 that is seen from -y: x goes right and z up.
	letter := &flexicubes.Mesh{Vertices: []float32{-0.2, -0.1, -0.4, -0.2, -0.1, 0.4, 0.3, -0.1, 0.2, 0, 0.3, 0},
		Faces: []uint32{0, 2, 1, 0, 1, 3, 1, 2, 3, 2, 0, 3}}
	turn := func(v []float32) float64 {
		m := &flexicubes.Mesh{Vertices: v}
		foot, top, bow, behind := vertexAt(m, 0), vertexAt(m, 1), vertexAt(m, 2), vertexAt(m, 3)
		return top.Sub(foot).Cross(bow.Sub(foot)).Dot(behind.Sub(foot))
	}
	want := turn(letter.Vertices)
	require.Positive(t, want)
	require.Positive(t, volume(letter.Vertices, letter.Faces))
	pose := testPose()
	posed := onVertices(letter)
	require.NoError(t, posed.Transform(pose))
	require.InEpsilon(t, want*math.Pow(pose.Scale, 3), turn(posed.Means), 1e-5)

	for name, part := range map[string]Part{"local": {Mesh: letter}, "posed": {Mesh: letter, Pose: &pose}} {
		doc := glb(t, GLBOptions{}, part)
		faces, local, normals, _ := arrays(t, doc, 0)
		var flat []float32
		for _, p := range local {
			flat = append(flat, p[:]...)
		}
		require.InEpsilon(t, want, turn(flat), 1e-5, name)
		require.Positive(t, volume(flat, faces), name)
		for i, normal := range normals { // away from the middle
			outward := 0.0
			for k := range normal {
				middle := (flat[k] + flat[3+k] + flat[6+k] + flat[9+k]) / 4
				outward += float64(normal[k]) * float64(flat[3*i+k]-middle)
			}
			require.Positive(t, outward, name)
		}
		if part.Pose != nil {
			positions, rotation := world(t, doc, 0)
			require.InDelta(t, 1, rotation.Det(), 1e-12)
			require.InEpsilon(t, want*math.Pow(pose.Scale, 3), turn(positions), 1e-5)
		}
	}
}
