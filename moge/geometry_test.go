// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/geom"
)

// scene returns the points that a camera sees of a bumpy wall, their z short of shift.
func scene(height, width int, focal, shift float64) []float32 {
	camera := geom.IntrinsicsFromFocal(focal, float64(width)/float64(height))
	points := make([]float32, 0, 3*height*width)
	for y := range height {
		for x := range width {
			u, v := (float64(x)+0.5)/float64(width), (float64(y)+0.5)/float64(height)
			p := camera.Unproject(u, v, 3+math.Sin(9*u)+math.Cos(7*v))
			points = append(points, float32(p[0]), float32(p[1]), float32(p[2]-shift))
		}
	}
	return points
}

func TestRecoverKnownCamera(t *testing.T) {
	for _, size := range [][2]int{{64, 64}, {30, 90}, {200, 120}, {3, 4}} {
		height, width := size[0], size[1]
		points := scene(height, width, 1.2, 0.5)
		found, err := RecoverFocalShift(points, height, width, nil)
		require.NoError(t, err)
		require.InDelta(t, 1.2, found.Focal, 1e-4, size)
		require.InDelta(t, 0.5, found.Shift, 1e-4, size)
		require.Equal(t, 64*64, found.Samples)

		again, err := RecoverFocalShift(points, height, width, nil)
		require.NoError(t, err)
		require.Equal(t, found, again)

		known, err := RecoverShift(points, height, width, nil, 1.2)
		require.NoError(t, err)
		require.InDelta(t, 0.5, known.Shift, 1e-4, size)
		require.Equal(t, float32(1.2), known.Focal)
	}
}

// TestRecoverIsFreeOfScale: in another unit of length the focal length stays and the shift follows, to the last bit.
func TestRecoverIsFreeOfScale(t *testing.T) {
	points := scene(50, 70, 0.9, -0.3)
	found, err := RecoverFocalShift(points, 50, 70, nil)
	require.NoError(t, err)
	for i := range points {
		points[i] *= 4
	}
	scaled, err := RecoverFocalShift(points, 50, 70, nil)
	require.NoError(t, err)
	require.InDelta(t, found.Focal, scaled.Focal, 1e-4)
	require.InDelta(t, 4*found.Shift, scaled.Shift, 1e-3)
}

func TestRecoverMirrored(t *testing.T) {
	points := scene(40, 40, 1, 0.2)
	for i := range points {
		if i%3 < 2 {
			points[i] = -points[i]
		}
	}
	found, err := RecoverFocalShift(points, 40, 40, nil)
	require.NoError(t, err)
	require.InDelta(t, -1, found.Focal, 1e-4)
	result := newResult(&Raw{Height: 40, Width: 40, Points: points}, nil, found, 1, Options{KeepInvalid: true})
	require.True(t, result.Degenerate())
}

func TestRecoverWithoutSamples(t *testing.T) {
	points, mask := scene(40, 50, 1, 0), make([]bool, 40*50)
	for i := range points {
		points[i] = float32(math.NaN()) // not looked at
	}
	found, err := RecoverFocalShift(points, 40, 50, mask)
	require.NoError(t, err)
	require.Equal(t, FocalShift{Focal: 1}, found)
	found, err = RecoverShift(points, 40, 50, mask, 0.7)
	require.NoError(t, err)
	require.Equal(t, FocalShift{Focal: 0.7}, found)
}

func TestRecoverRefuses(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	flat := make([]float32, 3*40*40)
	for i := 2; i < len(flat); i += 3 {
		flat[i] = 1 // x = y = 0 everywhere
	}
	_, err := RecoverFocalShift(flat, 40, 40, nil)
	require.ErrorIs(t, err, ErrCamera)
	for _, bad := range []float32{nan, inf, -inf} {
		for axis := range 3 {
			points := scene(64, 64, 1, 0)
			points[3*100+axis] = bad
			_, err := RecoverFocalShift(points, 64, 64, nil)
			require.ErrorIs(t, err, ErrCamera, "%g on axis %d", bad, axis)
		}
	}
	points := scene(64, 64, 1, 0)
	points[3*100+2] = 0
	_, err = RecoverFocalShift(points, 64, 64, nil)
	require.ErrorIs(t, err, ErrCamera)

	for _, focal := range []float32{0, -1, nan, inf} {
		_, err = RecoverShift(scene(4, 4, 1, 0), 4, 4, nil, focal)
		require.ErrorIs(t, err, ErrInput)
	}
	for _, size := range [][2]int{{0, 0}, {4, 5}, {-4, -4}, {math.MaxInt, 2}, {1 << 62, 1 << 62}, {16, 0}} {
		_, err = RecoverFocalShift(scene(4, 4, 1, 0), size[0], size[1], nil)
		require.ErrorIs(t, err, ErrInput)
	}
	_, err = RecoverFocalShift(scene(4, 4, 1, 0), 4, 4, make([]bool, 15))
	require.ErrorIs(t, err, ErrInput)
}

// TestRecoverAnything feeds the solver with what no camera saw. It must end, with numbers or an error.
func TestRecoverAnything(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		points := make([]float32, 3*8*8)
		scale := math.Pow(10, 60*r.Float64()-30)
		for i := range points {
			points[i] = float32(scale * r.NormFloat64())
		}
		found, err := RecoverFocalShift(points, 8, 8, nil)
		if err != nil {
			require.ErrorIs(t, err, ErrCamera)
			continue
		}
		sum := found.Focal + found.Shift
		require.Zero(t, sum-sum)
	}
}

// TestTraces compares the solver's path with that of the original where a reference case tells it.
func TestTraces(t *testing.T) {
	fixture.Run(t, "moge_geometry", func(t *testing.T, c *fixture.Case) {
		var notes struct {
			PerSample []struct {
				Samples int `json:"n_valid_lowres"`
				Scaled  *struct {
					Info  int `json:"info"`
					Count int `json:"nfev"`
				} `json:"lm_scaled"`
			} `json:"per_sample"`
		}
		if json.Unmarshal(c.Notes, &notes) != nil {
			return // not about the solver
		}
		shape := c.Shape(t, "in/points")
		height, width := shape[len(shape)-3], shape[len(shape)-2]
		points := c.Float32s(t, "in/points")
		for b, want := range notes.PerSample {
			var mask []bool
			if c.Has("in/mask") {
				for _, v := range c.Ints(t, "in/mask")[b*height*width : (b+1)*height*width] {
					mask = append(mask, v != 0)
				}
			}
			problem := fit{samples: takeSamples(points[3*b*height*width:][:3*height*width], height, width, mask)}
			require.Len(t, problem.samples, want.Samples)
			if want.Scaled == nil {
				continue
			}
			if c.Has("in/focal") {
				problem.known = c.Float64s(t, "in/focal")[b]
			}
			got, err := problem.minimise()
			require.NoError(t, err)
			if want.Scaled.Info != costStalled {
				// An exact fit: the last steps are made of rounding errors.
				require.Contains(t, []int{costStalled, stepStalled, bothStalled}, got.stop)
				continue
			}
			require.Equal(t, costStalled, got.stop)
			require.Equal(t, want.Scaled.Count, got.residuals)
		}
	})
}

// TestSlope compares the derivative with a difference quotient.
func TestSlope(t *testing.T) {
	points := scene(20, 30, 1.1, 0.4)
	for _, known := range []float64{0, 1.5} {
		p := fit{samples: takeSamples(points, 20, 30, nil), known: known}
		const at, h = 0.1, 1e-5
		norm, focal := p.residual(at)
		before, _ := p.residual(at - h)
		after, _ := p.residual(at + h)
		length, along := p.slope(at, focal)
		require.InEpsilon(t, (after-before)/(2*h), length*along/norm, 1e-6)
	}
}

func TestFocalFromFOV(t *testing.T) {
	for _, aspect := range []float64{0.5, 1, 1.8} {
		k := geom.IntrinsicsFromFocal(float64(FocalFromFOV(75, aspect)), aspect)
		require.InDelta(t, 75*math.Pi/180, k.FOVX(), 1e-6)
	}
}

func BenchmarkRecoverFocalShift(b *testing.B) {
	points := scene(1024, 1024, 1.2, 0.5)
	for b.Loop() {
		if _, err := RecoverFocalShift(points, 1024, 1024, nil); err != nil {
			b.Fatal(err)
		}
	}
}
