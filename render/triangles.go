// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package render

import (
	"context"
	"math"
)

// corner is a vertex as a camera sees it: its place in pixels and 1/z, which is linear between corners.
type corner struct{ x, y, w float32 }

// triangle is a face, or a part of one, as a camera sees it.
type triangle struct {
	corners [3]corner
	face    uint32
}

func (t *triangle) bounds() (x0, y0, x1, y1 float32) {
	a, b, c := t.corners[0], t.corners[1], t.corners[2]
	return min(a.x, b.x, c.x), min(a.y, b.y, c.y), max(a.x, b.x, c.x), max(a.y, b.y, c.y)
}

// edge is a line a x + b y + c, positive on one side.
type edge struct{ a, b, c float64 }

// newEdge returns the line through two corners, with the sign of the triangle's third. Both triangles of an edge get
// exactly opposite numbers, since they are calculated from the same end: no sample between them is lost.
func newEdge(p, q corner) edge {
	sign := 1.0
	if q.x < p.x || q.x == p.x && q.y < p.y {
		p, q, sign = q, p, -1
	}
	px, py, qx, qy := float64(p.x), float64(p.y), float64(q.x), float64(q.y)
	return edge{sign * (py - qy), sign * (qx - px), sign * (px*qy - qx*py)}
}

func (e edge) at(x, y float64) float64 { return e.a*x + e.b*y + e.c }

// meshTile holds the samples of a tile.
type meshTile struct {
	samples int // for each side of a pixel
	stride  int // samples of a row
	box     pixelBox
	depths  []float32 // 1/z; 0 where nothing is
	owners  []int32   // index of the nearest triangle, -1 where there is none
}

func newMeshTile(samples int) *meshTile {
	side := tileSize * samples
	return &meshTile{samples: samples, stride: side, depths: make([]float32, side*side), owners: make([]int32, side*side)}
}

// draw finds the nearest triangle of every sample; of equally near ones it is the first.
func (t *meshTile) draw(ctx context.Context, box pixelBox, triangles []triangle, list []uint32) {
	t.box = box
	clear(t.depths)
	for i := range t.owners {
		t.owners[i] = -1
	}
	for i, index := range list {
		if i%1024 == 1023 && ctx.Err() != nil {
			return
		}
		t.triangle(&triangles[index], int32(index))
	}
}

// span returns the half-open range of samples of the tile from lo to hi, which are relative to its first pixel.
func (t *meshTile) span(lo, hi float32, pixels int) (from, to int) {
	n := float64(t.samples)
	end := float64(pixels) * n
	return int(min(max(math.Ceil(float64(lo)*n-0.5), 0), end)), int(min(max(math.Floor(float64(hi)*n-0.5)+1, 0), end))
}

func (t *meshTile) triangle(tri *triangle, index int32) {
	x0, y0, x1, y1 := tri.bounds()
	left, top := float32(t.box.x0), float32(t.box.y0)
	fromX, toX := t.span(x0-left, x1-left, int(t.box.x1-t.box.x0))
	fromY, toY := t.span(y0-top, y1-top, int(t.box.y1-t.box.y0))
	if fromX >= toX || fromY >= toY {
		return
	}
	a, b, c := tri.corners[0], tri.corners[1], tri.corners[2]
	ab, bc, ca := newEdge(a, b), newEdge(b, c), newEdge(c, a)
	area := ab.at(float64(c.x), float64(c.y))
	switch {
	case area < 0: // seen from the other side
		ab, bc, ca, area = ab.negated(), bc.negated(), ca.negated(), -area
	case !(area > 0):
		return
	}
	// 1/z is the mean of the corners', each weighted by the edge across.
	wa, wb, wc := float64(a.w)/area, float64(b.w)/area, float64(c.w)/area
	depth := edge{wa*bc.a + wb*ca.a + wc*ab.a, wa*bc.b + wb*ca.b + wc*ab.b, wa*bc.c + wb*ca.c + wc*ab.c}
	nearest := max(a.w, b.w, c.w)

	step := 1 / float64(t.samples)
	for sy := fromY; sy < toY; sy++ {
		y := float64(t.box.y0) + (float64(sy)+0.5)*step
		row := sy * t.stride
		for sx := fromX; sx < toX; sx++ {
			x := float64(t.box.x0) + (float64(sx)+0.5)*step
			if ab.at(x, y) < 0 || bc.at(x, y) < 0 || ca.at(x, y) < 0 {
				continue
			}
			// Thin triangles have no reliable slope; no point of theirs is nearer than a corner.
			if w := min(float32(depth.at(x, y)), nearest); w > t.depths[row+sx] {
				t.depths[row+sx] = w
				t.owners[row+sx] = index
			}
		}
	}
}

func (e edge) negated() edge { return edge{-e.a, -e.b, -e.c} }

// resolve averages the samples of each pixel into the frame. A triangle is shaded once for each pixel, in the middle of
// its samples there.
func (t *meshTile) resolve(frame *Frame, s *shader, triangles []triangle) {
	step := 1 / float64(t.samples)
	share := float32(step * step)
	var owners [maxSamples * maxSamples]int32
	for py := range int(t.box.y1 - t.box.y0) {
		for px := range int(t.box.x1 - t.box.x0) {
			for i := range t.samples {
				at := (py*t.samples+i)*t.stride + px*t.samples
				copy(owners[i*t.samples:], t.owners[at:at+t.samples])
			}
			x, y := px+int(t.box.x0), py+int(t.box.y0)
			out := (*[4]float32)(frame.Pix[4*(y*frame.Width+x):])
			for i, owner := range owners[:t.samples*t.samples] {
				if owner < 0 {
					continue
				}
				count, sumX, sumY := 0, 0, 0
				for k := i; k < t.samples*t.samples; k++ {
					if owners[k] == owner {
						owners[k] = -1
						count, sumX, sumY = count+1, sumX+k%t.samples, sumY+k/t.samples
					}
				}
				n := float64(count)
				color := s.color(triangles[owner].face,
					float64(x)+(float64(sumX)/n+0.5)*step, float64(y)+(float64(sumY)/n+0.5)*step)
				weight := share * float32(count)
				for k, c := range color {
					out[k] += weight * c
				}
				out[3] += weight
			}
		}
	}
}
