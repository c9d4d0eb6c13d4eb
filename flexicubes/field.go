// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flexicubes

import (
	"context"
	"fmt"
)

// Field is a signed distance field at every vertex of a grid, with FlexiCubes parameters before their activation.
// Slices are flat, in the order of the package comment; those that may be nil count as zero where they are.
type Field struct {
	Resolution int       // R, 1 to MaxResolution
	SDF        []float32 // [(R+1)^3], below zero inside
	Deform     []float32 // [(R+1)^3, 3] or nil; a vertex moves by tanh(Deform)/(2R)
	Colors     []float32 // [(R+1)^3, 6] or nil; sigmoid gives RGB and three further channels
	Beta       []float32 // [R^3, 12] or nil; weights of the edges of a cube
	Alpha      []float32 // [R^3, 8] or nil; weights of the corners of a cube
	Gamma      []float32 // [R^3] or nil; decides along which diagonal quads are split

	// WeightScale bounds alpha and beta to 1 +- WeightScale. The zero value means 0.99, as released.
	WeightScale float64
}

// FromField extracts the surface of a field.
//
// It returns an error that wraps [ErrInput], [ErrNotFinite] or ctx.Err().
func FromField(ctx context.Context, f Field) (*Mesh, error) {
	if f.WeightScale == 0 {
		f.WeightScale = releasedWeightScale
	}
	if err := f.check(ctx); err != nil {
		return nil, err
	}
	s := newSurface(f.Resolution)
	err := eachRow(ctx, s.res+1, func(x, y int) {
		setSigns(s.inside.row(x, y), s.zero.row(x, y), f.SDF[f.vertex(x, y, 0):][:s.res+1])
	})
	if err != nil {
		return nil, err
	}
	return extract(ctx, s, &f, f.WeightScale)
}

// releasedWeightScale is the weight scale of the released decoder.
const releasedWeightScale = 0.99

// check validates a field, with its defaults filled in.
func (f *Field) check(ctx context.Context) error {
	if err := checkResolution(f.Resolution); err != nil {
		return err
	}
	if !(f.WeightScale > 0 && f.WeightScale < 1) {
		return fmt.Errorf("%w: weight scale %g is not between 0 and 1", ErrInput, f.WeightScale)
	}
	cubes, vertices := f.Resolution*f.Resolution*f.Resolution, f.vertex(f.Resolution+1, 0, 0)
	for _, a := range []struct {
		name     string
		values   []float32
		want     int
		required bool
	}{
		{"sdf", f.SDF, vertices, true},
		{"deform", f.Deform, 3 * vertices, false},
		{"colors", f.Colors, 6 * vertices, false},
		{"beta", f.Beta, 12 * cubes, false},
		{"alpha", f.Alpha, 8 * cubes, false},
		{"gamma", f.Gamma, cubes, false},
	} {
		if a.values == nil && !a.required {
			continue
		}
		if len(a.values) != a.want {
			return fmt.Errorf("%w: %s has %d values, resolution %d needs %d",
				ErrInput, a.name, len(a.values), f.Resolution, a.want)
		}
		i, err := searchBad(ctx, a.values)
		if err != nil {
			return err
		}
		if i >= 0 {
			return fmt.Errorf("%w: %s value %d is %g", ErrNotFinite, a.name, i, a.values[i])
		}
	}
	return nil
}

func checkResolution(res int) error {
	if res < 1 || res > MaxResolution {
		return fmt.Errorf("%w: resolution %d is not between 1 and %d", ErrInput, res, MaxResolution)
	}
	return nil
}

// setSigns marks the negative values and the zeros of a row.
func setSigns(inside, zero []uint64, sdf []float32) {
	for z, v := range sdf {
		if v < 0 {
			inside[z>>6] |= 1 << (z & 63)
		} else if v == 0 {
			zero[z>>6] |= 1 << (z & 63)
		}
	}
}

// vertex returns the index of a grid vertex.
func (f *Field) vertex(x, y, z int) int { return (x*(f.Resolution+1)+y)*(f.Resolution+1) + z }

func (f *Field) colored() bool { return f.Colors != nil }

func (f *Field) samples(x, y int, row []uint64, out []sample) {
	i := 0
	for z := range points(row) {
		v := f.vertex(x, y, z)
		out[i].sdf = f.SDF[v]
		if f.Deform != nil {
			copy(out[i].position[:], f.Deform[3*v:])
		}
		if f.Colors != nil {
			copy(out[i].color[:], f.Colors[6*v:])
		}
		i++
	}
}

// neutral are the raw weights of a cube that has none.
var neutral [12]float32

func (f *Field) weights(x, y, z int) (beta, alpha []float32, gamma float32) {
	cube := (x*f.Resolution+y)*f.Resolution + z
	beta, alpha = neutral[:], neutral[:]
	if f.Beta != nil {
		beta = f.Beta[12*cube:][:12]
	}
	if f.Alpha != nil {
		alpha = f.Alpha[8*cube:][:8]
	}
	if f.Gamma != nil {
		gamma = f.Gamma[cube]
	}
	return beta, alpha, gamma
}
