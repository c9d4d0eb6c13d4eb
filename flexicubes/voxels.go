// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flexicubes

import (
	"context"
	"fmt"
)

// Channels of a voxel's features. Those of corners are grouped by corner.
const (
	sdfAt    = 0  // [8] signed distance at each corner
	deformAt = 8  // [8, 3] deformation at each corner
	betaAt   = 32 // [12]
	alphaAt  = 44 // [8]
	gammaAt  = 52 // [1]
	colorAt  = 53 // [8, 6] colour and normal channels at each corner

	plainChannels   = colorAt
	coloredChannels = colorAt + 48
)

// Voxels is the output of a mesh decoder: a sparse grid of cubes, each with a row of features. Every cube speaks about
// its own eight corners; what cubes say about a vertex they share is averaged. A vertex of no cube is outside, at
// distance 1.
type Voxels struct {
	Resolution int        // R of the cubes, 1 to MaxResolution: four times that of the latent in the released decoder
	Coords     [][4]int32 // [N] batch index, the same for all, and x, y, z from 0 to R-1; in any order
	Features   []float32  // [N, 101], or [N, 53] without colours
}

// FromVoxels extracts the surface of a sparse grid. Voxels are only read.
//
// Beyond voxels and the mesh it needs 4 bytes for each voxel, 40 for each grid vertex beside the surface and one for
// each grid vertex (17 MB at R = 256), and it keeps nothing.
//
// It returns an error that wraps [ErrInput] (among other things if a voxel occurs twice), [ErrNotFinite] or ctx.Err().
func FromVoxels(ctx context.Context, voxels Voxels) (*Mesh, error) {
	f, err := newVoxelField(voxels)
	if err != nil {
		return nil, err
	}
	if err := f.load(ctx, voxels.Coords); err != nil {
		return nil, err
	}
	s := newSurface(f.res)
	if err := eachRow(ctx, s.res+1, func(x, y int) { f.signRow(s, x, y) }); err != nil {
		return nil, err
	}
	return extract(ctx, s, f, releasedWeightScale)
}

// voxelField finds the features of a cube by its place.
type voxelField struct {
	res      int
	channels int
	bias     float32   // what the decoder adds to every signed distance
	features []float32 // [N, channels]
	cubes    *lattice  // the voxels
	order    []uint32  // [N] row of each voxel, in the order of the lattice
}

// newVoxelField checks everything but the values of features.
func newVoxelField(v Voxels) (*voxelField, error) {
	if err := checkResolution(v.Resolution); err != nil {
		return nil, err
	}
	n := len(v.Coords)
	f := &voxelField{res: v.Resolution, features: v.Features, cubes: newLattice(v.Resolution + 1)}
	f.bias = float32(-1 / float64(f.res))
	switch len(v.Features) {
	case n * coloredChannels:
		f.channels = coloredChannels
	case n * plainChannels:
		f.channels = plainChannels
	default:
		return nil, fmt.Errorf("%w: %d features for %d voxels, which need %d or %d each",
			ErrInput, len(v.Features), n, plainChannels, coloredChannels)
	}
	for i, c := range v.Coords {
		if limit := uint32(v.Resolution); uint32(c[1]) >= limit || uint32(c[2]) >= limit || uint32(c[3]) >= limit {
			return nil, fmt.Errorf("%w: voxel %d at %v is outside of resolution %d", ErrInput, i, c[1:], v.Resolution)
		}
		if c[0] != v.Coords[0][0] {
			return nil, fmt.Errorf("%w: voxel %d is of batch %d, voxel 0 of batch %d", ErrInput, i, c[0], v.Coords[0][0])
		}
		start, z := f.cubes.start(int(c[1]), int(c[2])), int(c[3])
		if f.cubes.at(start, z) {
			return nil, fmt.Errorf("%w: voxel %d at %v occurs twice", ErrInput, i, c[1:])
		}
		f.cubes.bits[start+z>>6] |= 1 << (z & 63)
	}
	f.order = make([]uint32, f.cubes.number())
	return f, nil
}

// load checks all features and fills order.
func (f *voxelField) load(ctx context.Context, coords [][4]int32) error {
	i, err := searchBad(ctx, f.features)
	if err != nil {
		return err
	}
	if i >= 0 {
		return fmt.Errorf("%w: channel %d of voxel %d is %g",
			ErrNotFinite, i%f.channels, i/f.channels, f.features[i])
	}
	const chunk = 4096
	n := len(f.order)
	return inParallel(ctx, (n+chunk-1)/chunk, func(k int) {
		for i := k * chunk; i < min(n, (k+1)*chunk); i++ {
			c := &coords[i]
			f.order[f.cubes.index(f.cubes.start(int(c[1]), int(c[2])), int(c[3]))] = uint32(i)
		}
	})
}

// voxelRow is a row of voxels beside a row of vertices.
type voxelRow struct {
	corner int      // corner of the voxels that is at their own z in the row of vertices; the next is corner|cornerZ
	voxels []uint64 // nil if there are none
	start  int      // of the row in the lattice
}

// rowsAround returns the rows of voxels that touch row (x, y) of vertices, in ascending order.
func (f *voxelField) rowsAround(x, y int) (rows [4]voxelRow, found bool) {
	for i := range rows {
		dx, dy := 1-i>>1, 1-i&1
		row := f.cubes.row(x-dx, y-dy)
		for _, w := range row {
			if w != 0 {
				rows[i] = voxelRow{corner: dx | dy<<1, voxels: row, start: f.cubes.start(x-dx, y-dy)}
				found = true
				break
			}
		}
	}
	return rows, found
}

// signRow finds the signs of a row of vertices.
func (f *voxelField) signRow(s *surface, x, y int) {
	rows, found := f.rowsAround(x, y)
	if !found {
		return
	}
	var sums, counts [MaxResolution + 1]float32
	sum, count := sums[:f.res+1], counts[:f.res+1]
	for _, r := range rows {
		place := f.cubes.index(r.start, 0)
		for z := range points(r.voxels) {
			sdf := f.features[int(f.order[place])*f.channels+sdfAt:][:8]
			sum[z] += sdf[r.corner] + f.bias
			sum[z+1] += sdf[r.corner|cornerZ] + f.bias
			count[z]++
			count[z+1]++
			place++
		}
	}
	for z, n := range count {
		if n == 0 {
			sum[z] = outside
		} else {
			sum[z] /= n
		}
	}
	setSigns(s.inside.row(x, y), s.zero.row(x, y), sum)
}

// outside is the signed distance at vertices of no voxel.
const outside = 1

func (f *voxelField) colored() bool { return f.channels == coloredChannels }

func (f *voxelField) samples(x, y int, row []uint64, out []sample) {
	var counts [MaxResolution + 1]float32
	rows, _ := f.rowsAround(x, y)
	for _, r := range rows {
		if r.voxels == nil {
			continue
		}
		i := 0
		for z := range points(row) {
			place := f.cubes.index(r.start, z)
			if z > 0 && f.cubes.at(r.start, z-1) {
				f.addCorner(&out[i], place-1, r.corner|cornerZ)
				counts[i]++
			}
			if f.cubes.at(r.start, z) {
				f.addCorner(&out[i], place, r.corner)
				counts[i]++
			}
			i++
		}
	}
	for i := range out {
		out[i].divide(counts[i])
	}
}

// addCorner adds what a voxel says about one of its corners.
func (f *voxelField) addCorner(v *sample, place, corner int) {
	features := f.features[int(f.order[place])*f.channels:][:f.channels]
	v.sdf += features[sdfAt+corner] + f.bias
	for i, d := range (*[3]float32)(features[deformAt+3*corner:]) {
		v.position[i] += d
	}
	if len(features) == coloredChannels {
		for i, c := range (*[6]float32)(features[colorAt+6*corner:]) {
			v.color[i] += c
		}
	}
}

// divide turns the sum of n corners into their mean.
func (v *sample) divide(n float32) {
	if n == 0 {
		v.sdf = outside
		return
	}
	v.sdf /= n
	for i := range v.position {
		v.position[i] /= n
	}
	for i := range v.color {
		v.color[i] /= n
	}
}

func (f *voxelField) weights(x, y, z int) (beta, alpha []float32, gamma float32) {
	start := f.cubes.start(x, y)
	if !f.cubes.at(start, z) {
		return neutral[:], neutral[:], 0
	}
	features := f.features[int(f.order[f.cubes.index(start, z)])*f.channels:][:plainChannels]
	return features[betaAt:alphaAt], features[alphaAt:gammaAt], features[gammaAt]
}
