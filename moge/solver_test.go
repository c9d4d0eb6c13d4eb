// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/geom"
)

// solvers are both ways to fit a camera.
var solvers = map[string]func(*fit) (search, error){"minimise": (*fit).minimise, "descend": (*fit).descend}

// wall returns the points of a wall at distance 3 that is as bumpy as bumps says, seen by a camera, with noise.
func wall(height, width int, focal, bumps, noise float64, r *rand.Rand) []float32 {
	camera := geom.IntrinsicsFromFocal(focal, float64(width)/float64(height))
	points := make([]float32, 0, 3*height*width)
	for y := range height {
		for x := range width {
			u, v := (float64(x)+0.5)/float64(width), (float64(y)+0.5)/float64(height)
			p := camera.Unproject(u, v, 3+bumps*(math.Sin(9*u)+math.Cos(7*v)))
			for axis := range 3 {
				points = append(points, float32(p[axis]+noise*r.NormFloat64()))
			}
		}
	}
	return points
}

// TestSolversOnNoise: noisy and mostly masked maps of bumpy scenes lead near the true camera, in few steps, and to the
// same one each time.
func TestSolversOnNoise(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for name, solve := range solvers {
		for trial := range 40 {
			height, width := 30+r.IntN(80), 30+r.IntN(80)
			focal := 0.5 + 1.5*r.Float64()
			points := wall(height, width, focal, 0.5+0.3*r.Float64(), 0.01, r)
			for i := 2; i < len(points); i += 3 {
				points[i] -= 0.4
			}
			mask := make([]bool, height*width)
			for i := range mask {
				mask[i] = r.IntN(10) == 0
			}
			found, err := recoverCamera(points, height, width, mask, 0, solve)
			require.NoError(t, err)
			require.InEpsilon(t, focal, found.Focal, 0.1, "%s trial %d", name, trial)
			require.InDelta(t, 0.4, found.Shift, 0.3, "%s trial %d", name, trial)
			again, err := recoverCamera(points, height, width, mask, 0, solve)
			require.NoError(t, err)
			require.Equal(t, found, again)
			problem := &fit{samples: takeSamples(points, height, width, mask)}
			s, err := solve(problem)
			require.NoError(t, err)
			require.NotEqual(t, tooMany, s.stop)
			require.LessOrEqual(t, s.residuals, 20)
		}
	}
}

// TestSolversOnFlatWalls: all depths being equal, the shift cannot be told and stays 0; the focal length is that of the
// wall where it is. A wall that is flat but for noise gives some camera, in few steps.
func TestSolversOnFlatWalls(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for name, solve := range solvers {
		for _, size := range [][2]int{{40, 60}, {64, 64}, {9, 200}} {
			points := wall(size[0], size[1], 1.3, 0, 0, r)
			found, err := recoverCamera(points, size[0], size[1], nil, 0, solve)
			require.NoError(t, err)
			require.Zero(t, found.Shift, name)
			require.InDelta(t, 1.3, found.Focal, 1e-5)
			for _, noise := range []float64{1e-7, 1e-5, 1e-3, 0.03} {
				points := wall(size[0], size[1], 1.3, 0, noise, r)
				s, err := solve(&fit{samples: takeSamples(points, size[0], size[1], nil)})
				require.NoError(t, err)
				require.NotEqual(t, tooMany, s.stop)
				require.LessOrEqual(t, s.residuals, 40, "%s, noise %g", name, noise)
				found, err := recoverCamera(points, size[0], size[1], nil, 0, solve)
				require.NoError(t, err)
				require.Positive(t, found.Focal)
				require.Greater(t, found.Shift, float32(-3), "%s, noise %g: the wall is in front of the camera", name, noise)
			}
		}
	}
}

// TestSolversWithFewSamples: nothing, one pixel and two pixels.
func TestSolversWithFewSamples(t *testing.T) {
	points := scene(40, 50, 1, 0.2)
	for name, solve := range solvers {
		mask := make([]bool, 40*50)
		found, err := recoverCamera(points, 40, 50, mask, 0, solve)
		require.NoError(t, err)
		require.Equal(t, FocalShift{Focal: 1}, found, name)
		mask[20*50+25] = true // may be sampled more than once: then the focal length is that pixel's ratio
		found, err = recoverCamera(points, 40, 50, mask, 0, solve)
		require.NoError(t, err)
		require.Zero(t, found.Shift)
		require.Positive(t, found.Focal)
		mask[0] = true
		found, err = recoverCamera(points, 40, 50, mask, 0, solve)
		require.NoError(t, err)
		require.Zero(t, found.Focal-found.Focal+found.Shift-found.Shift, "finite")
	}
}

// TestSolversOnAnything feeds what no camera saw. The solvers end, with numbers or an error.
func TestSolversOnAnything(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for name, solve := range solvers {
		for range 300 {
			points := make([]float32, 3*8*8)
			scale := math.Pow(10, 60*r.Float64()-30)
			for i := range points {
				points[i] = float32(scale * r.NormFloat64())
			}
			found, err := recoverCamera(points, 8, 8, nil, 0, solve)
			if err != nil {
				require.ErrorIs(t, err, ErrCamera, name)
				continue
			}
			sum := found.Focal + found.Shift
			require.Zero(t, sum-sum)
		}
	}
}
