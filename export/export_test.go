// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package export

import (
	"encoding/binary"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/flexicubes"
	"github.com/gomlx3d/image3d/splat"
)

// wave returns n splats along a curve: cheap to make, no two alike.
func wave(n int) *splat.Gaussians {
	g := &splat.Gaussians{
		Means: make([]float32, 3*n), SH: make([]float32, 3*n), LogScales: make([]float32, 3*n),
		Rotations: make([]float32, 4*n), OpacityLogits: make([]float32, n), Kernel: 0.0009,
	}
	for _, s := range [][]float32{g.Means, g.SH, g.LogScales, g.Rotations, g.OpacityLogits} {
		x, y := float32(0.1), float32(0.7)
		for i := range s {
			x += 0.37 * y // steps round an ellipse
			y -= 0.37 * x
			s[i] = x
		}
	}
	for i := range g.LogScales {
		g.LogScales[i] -= 4
	}
	return g
}

// decoded returns n splats as a decoder makes them.
func decoded(t testing.TB, n int, seed uint64) *splat.Gaussians {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 2))
	normal := func(n int, factor float64) []float32 {
		out := make([]float32, n)
		for i := range out {
			out[i] = float32(factor * rng.NormFloat64())
		}
		return out
	}
	g, err := splat.DefaultActivation().Decode(splat.Raw{
		XYZ: normal(3*n, 0.3), SH: normal(3*n, 1), Scaling: normal(3*n, 3),
		Rotation: normal(4*n, 0.2), Opacity: normal(n, 8),
	})
	require.NoError(t, err)
	return g
}

// hook is a mesh without any symmetry: a tetrahedron whose three edges at the origin have different lengths, directions
// and colours. It is wound outward.
func hook() *flexicubes.Mesh {
	return &flexicubes.Mesh{
		Vertices: []float32{0, 0, 0, 0.4, 0.05, 0, 0, 0.25, 0.1, -0.02, 0, 0.15},
		Faces:    []uint32{0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3},
		Colors:   []float32{213. / 255, 170. / 255, 59. / 255, 1, 0, 0, 0, 1, 0, 0.3, 0.03, 1},
	}
}

// ball returns a sphere of radius 1/2 with colours, of n rings.
func ball(n int) *flexicubes.Mesh {
	m := &flexicubes.Mesh{}
	for i := range n + 1 {
		for j := range 2 * n {
			theta, phi := math.Pi*float64(i)/float64(n), math.Pi*float64(j)/float64(n)
			x, y, z := math.Sin(theta)*math.Cos(phi), math.Sin(theta)*math.Sin(phi), math.Cos(theta)
			m.Vertices = append(m.Vertices, float32(x/2), float32(y/2), float32(z/2))
			m.Colors = append(m.Colors, float32(x+1)/2, float32(y+1)/2, float32(z+1)/2)
		}
	}
	at := func(i, j int) uint32 { return uint32(i*2*n + j%(2*n)) }
	for i := range n {
		for j := range 2 * n {
			m.Faces = append(m.Faces, at(i, j), at(i+1, j), at(i+1, j+1), at(i, j), at(i+1, j+1), at(i, j+1))
		}
	}
	return m
}

// volume returns the signed volume of a closed mesh, positive if it is wound outward.
func volume(vertices []float32, faces []uint32) float64 {
	m := &flexicubes.Mesh{Vertices: vertices, Faces: faces}
	sum := 0.0
	for i := 0; i < len(faces); i += 3 {
		sum += vertexAt(m, faces[i]).Dot(vertexAt(m, faces[i+1]).Cross(vertexAt(m, faces[i+2]))) / 6
	}
	return sum
}

func testPose() splat.Pose {
	q := [4]float64{0.3, -0.6, 0.5, 0.2}
	norm := math.Sqrt(q[0]*q[0] + q[1]*q[1] + q[2]*q[2] + q[3]*q[3])
	for i := range q {
		q[i] /= norm
	}
	return splat.NewPose(q, [3]float64{0.3, -0.7, 2.5}, 1.7)
}

// writers are all functions of the package that write, each with data that fills more than one buffer.
func writers(t testing.TB) map[string]func(io.Writer) error {
	g, m := decoded(t, 40_000, 1), ball(160)
	return map[string]func(io.Writer) error{
		"splats.ply":        func(w io.Writer) error { return WritePLY(w, g, PLYOptions{}) },
		"splats_padded.ply": func(w io.Writer) error { return WritePLY(w, g, PLYOptions{PadRest: true}) },
		"ball.glb":          func(w io.Writer) error { return WriteGLB(w, GLBOptions{}, Part{Mesh: m}) },
		"ball_raw.glb":      func(w io.Writer) error { return WriteGLB(w, GLBOptions{RawColors: true}, Part{Mesh: m}) },
		"ball.obj":          func(w io.Writer) error { return WriteOBJ(w, m) },
		"ball.stl":          func(w io.Writer) error { return WriteSTL(w, m) },
	}
}

// failing is a writer for a full disk: it takes room bytes and no more.
type failing struct{ room int }

var errFull = &os.PathError{Op: "write", Path: "disk", Err: syscall.ENOSPC}

func (f *failing) Write(p []byte) (int, error) {
	n := min(len(p), f.room)
	f.room -= n
	if n < len(p) {
		return n, errFull
	}
	return n, nil
}

// count only measures.
type count int

func (c *count) Write(p []byte) (int, error) { *c += count(len(p)); return len(p), nil }

// Whichever write fails, the error arrives.
func TestWriteErrorsArrive(t *testing.T) {
	for name, write := range writers(t) {
		var size count
		require.NoError(t, write(&size), name)
		for _, room := range []int{0, 10, 300, bufferSize - 1, bufferSize, int(size) / 2, int(size) - 1} {
			err := write(&failing{room})
			require.ErrorIs(t, err, syscall.ENOSPC, "%s after %d of %d bytes", name, room, size)
		}
		require.NoError(t, write(&failing{int(size)}), name)
		require.ErrorIs(t, write(short{}), io.ErrShortWrite, name)
	}
}

// short breaks the contract of io.Writer.
type short struct{}

func (short) Write(p []byte) (int, error) { return len(p) / 2, nil }

func TestMeshRejected(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for name, spoil := range map[string]func(*flexicubes.Mesh){
		"index":      func(m *flexicubes.Mesh) { m.Faces[4] = 4 },
		"face":       func(m *flexicubes.Mesh) { m.Faces = m.Faces[1:] },
		"coordinate": func(m *flexicubes.Mesh) { m.Vertices = m.Vertices[1:] },
		"colour":     func(m *flexicubes.Mesh) { m.Colors = m.Colors[3:] },
		"NaN":        func(m *flexicubes.Mesh) { m.Vertices[5] = nan },
		"Inf":        func(m *flexicubes.Mesh) { m.Vertices[5] = -inf },
		"NaN colour": func(m *flexicubes.Mesh) { m.Colors[5] = nan },
		"no vertex":  func(m *flexicubes.Mesh) { m.Vertices, m.Colors = nil, nil },
	} {
		m := hook()
		spoil(m)
		requireAll(t, m, ErrMesh, name)
	}
	requireAll(t, nil, ErrMesh, "nil")
	requireAll(t, &flexicubes.Mesh{}, ErrEmptyMesh, "empty")
	requireAll(t, &flexicubes.Mesh{Vertices: []float32{1, 2, 3}}, ErrEmptyMesh, "no faces")
	require.ErrorIs(t, WriteGLB(io.Discard, GLBOptions{}), ErrEmptyMesh)
}

func requireAll(t *testing.T, m *flexicubes.Mesh, want error, name string) {
	t.Helper()
	var written count
	require.ErrorIs(t, WriteGLB(&written, GLBOptions{}, Part{Mesh: m}), want, name)
	require.ErrorIs(t, WriteGLB(&written, GLBOptions{RawColors: true}, Part{Mesh: m}), want, name)
	require.ErrorIs(t, WriteOBJ(&written, m), want, name)
	require.ErrorIs(t, WriteSTL(&written, m), want, name)
	require.Zero(t, written, "nothing is written before the check")
}

// TestWriteSamples leaves files for readers of other projects in $EXPORT_DIR, and beside them the arrays that they were
// written from as bare little-endian numbers: see check_readers.py.
func TestWriteSamples(t *testing.T) {
	dir := os.Getenv("EXPORT_DIR")
	if dir == "" {
		t.Skip("EXPORT_DIR names no folder for sample files")
	}
	pose, posed := testPose(), onVertices(hook())
	require.NoError(t, posed.Transform(pose))
	samples := writers(t)
	samples["hook.glb"] = func(w io.Writer) error { return WriteGLB(w, GLBOptions{}, Part{Name: "hook", Mesh: hook()}) }
	samples["hook_posed.glb"] = func(w io.Writer) error {
		return WriteGLB(w, GLBOptions{}, Part{Name: "hook", Mesh: hook(), Pose: &pose})
	}
	samples["hook.obj"] = func(w io.Writer) error { return WriteOBJ(w, hook()) }
	samples["hook.stl"] = func(w io.Writer) error { return WriteSTL(w, hook()) }
	samples["hook_posed.ply"] = func(w io.Writer) error { return WritePLY(w, posed, PLYOptions{}) }

	g := decoded(t, 40_000, 1)
	for name, m := range map[string]*flexicubes.Mesh{"hook": hook(), "ball": ball(160)} {
		samples[name+".vertices"], samples[name+".faces"], samples[name+".colors"] = bare(m.Vertices), bare(m.Faces), bare(m.Colors)
	}
	for name, values := range map[string][]float32{
		"means": g.Means, "sh": g.SH, "logits": g.OpacityLogits, "logscales": g.LogScales, "rotations": g.Rotations,
	} {
		samples["splats."+name] = bare(values)
	}
	samples["hook_posed.means"] = bare(posed.Means)
	for name, write := range samples {
		require.NoError(t, File(filepath.Join(dir, name), true, write))
	}
}

// bare writes numbers and nothing else.
func bare(values any) func(io.Writer) error {
	return func(w io.Writer) error { return binary.Write(w, binary.LittleEndian, values) }
}

// onVertices returns splats whose centres are the vertices of m.
func onVertices(m *flexicubes.Mesh) *splat.Gaussians {
	g := wave(len(m.Vertices) / 3)
	copy(g.Means, m.Vertices)
	return g
}
