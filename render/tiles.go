// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package render

import (
	"context"
	"math"
)

// tileSize is the side, in pixels, of the squares in which a picture is drawn.
const tileSize = 16

// maxEntries bounds the list entries that exist at the same time. Where splats as large as the picture need more, the
// tiles are drawn in groups.
const maxEntries = 1 << 24

// pixelBox is a half-open range of pixels. A box of nothing has x1 <= x0.
type pixelBox struct{ x0, y0, x1, y1 int16 }

// grid divides a picture into tiles, numbered row by row.
type grid struct{ width, height, across, down int }

func newGrid(width, height int) grid {
	return grid{width, height, (width + tileSize - 1) / tileSize, (height + tileSize - 1) / tileSize}
}

// box returns the pixels of a tile.
func (g grid) box(tile int) pixelBox {
	x, y := tile%g.across*tileSize, tile/g.across*tileSize
	return pixelBox{int16(x), int16(y), int16(min(g.width, x+tileSize)), int16(min(g.height, y+tileSize))}
}

// clip returns the pixels whose centres are inside a box of real numbers, none for NaN.
func (g grid) clip(x0, y0, x1, y1 float64) pixelBox {
	if !(x0 < float64(g.width) && y0 < float64(g.height) && x1 > 0 && y1 > 0) {
		return pixelBox{}
	}
	return pixelBox{
		int16(max(0, math.Ceil(x0-0.5))), int16(max(0, math.Ceil(y0-0.5))),
		int16(min(float64(g.width), x1+0.5)), int16(min(float64(g.height), y1+0.5)),
	}
}

// intersect returns the pixels of both boxes.
func (b pixelBox) intersect(o pixelBox) pixelBox {
	return pixelBox{max(b.x0, o.x0), max(b.y0, o.y0), min(b.x1, o.x1), min(b.y1, o.y1)}
}

func (b pixelBox) empty() bool { return b.x1 <= b.x0 || b.y1 <= b.y0 }

// lists sorts boxes into tiles. For each chunk of boxes it knows how many of each tile's list come from it.
type lists struct {
	grid
	boxes     []pixelBox
	chunkSize int
	counts    [][]int32 // [chunks][tiles]
	totals    []int64   // [tiles]
}

// forTiles calls draw for every tile that boxes touch, with their indices in ascending order.
func (g grid) forTiles(ctx context.Context, boxes []pixelBox, draw func(tile int, list []uint32)) error {
	l := &lists{grid: g, boxes: boxes, chunkSize: max(4096, (len(boxes)+31)/32)}
	if err := l.count(ctx); err != nil {
		return err
	}
	var entries []uint32
	for first := 0; first < len(l.totals); {
		last, sum := first, int64(0)
		for last < len(l.totals) && (last == first || sum+l.totals[last] <= maxEntries) {
			sum += l.totals[last]
			last++
		}
		if int64(cap(entries)) < sum {
			entries = make([]uint32, sum)
		}
		starts, err := l.fill(ctx, first, last, entries[:sum])
		if err != nil {
			return err
		}
		err = inParallel(ctx, last-first, func(i int) {
			if starts[i+1] > starts[i] {
				draw(first+i, entries[starts[i]:starts[i+1]])
			}
		})
		if err != nil {
			return err
		}
		first = last
	}
	return nil
}

// count fills counts and totals. It adds each box at its four corners and sums up afterwards, so that large boxes take
// no longer than small ones.
func (l *lists) count(ctx context.Context) error {
	chunks := (len(l.boxes) + l.chunkSize - 1) / l.chunkSize
	l.counts = make([][]int32, chunks)
	l.totals = make([]int64, l.across*l.down)
	err := inParallel(ctx, chunks, func(chunk int) {
		row := l.across + 1
		corners := make([]int32, row*(l.down+1))
		for _, b := range l.boxes[chunk*l.chunkSize : min(len(l.boxes), (chunk+1)*l.chunkSize)] {
			if b.empty() {
				continue
			}
			x0, y0, x1, y1 := b.tiles()
			corners[y0*row+x0]++
			corners[y0*row+x1]--
			corners[y1*row+x0]--
			corners[y1*row+x1]++
		}
		counts := make([]int32, l.across*l.down)
		for y := range l.down {
			sum := int32(0)
			for x := range l.across {
				sum += corners[y*row+x]
				counts[y*l.across+x] = sum
				if y > 0 {
					counts[y*l.across+x] += counts[(y-1)*l.across+x]
				}
			}
		}
		l.counts[chunk] = counts
	})
	for _, counts := range l.counts {
		for tile, n := range counts {
			l.totals[tile] += int64(n)
		}
	}
	return err
}

// tiles returns the half-open range of tiles that a box touches.
func (b pixelBox) tiles() (x0, y0, x1, y1 int) {
	return int(b.x0) / tileSize, int(b.y0) / tileSize,
		(int(b.x1) + tileSize - 1) / tileSize, (int(b.y1) + tileSize - 1) / tileSize
}

// fill writes the lists of the tiles first to last, one after the other, and returns where each starts.
func (l *lists) fill(ctx context.Context, first, last int, entries []uint32) (starts []int64, err error) {
	starts = make([]int64, last-first+1)
	for i := range last - first {
		starts[i+1] = starts[i] + l.totals[first+i]
	}
	next := make([]int64, last-first)
	copy(next, starts)
	places := make([][]int64, len(l.counts)) // where each chunk goes on in each list
	for chunk, counts := range l.counts {
		places[chunk] = append([]int64(nil), next...)
		for i := range next {
			next[i] += int64(counts[first+i])
		}
	}
	err = inParallel(ctx, len(l.counts), func(chunk int) {
		place := places[chunk]
		start := chunk * l.chunkSize
		for i, b := range l.boxes[start:min(len(l.boxes), start+l.chunkSize)] {
			if b.empty() {
				continue
			}
			if i%256 == 0 && ctx.Err() != nil {
				return
			}
			x0, y0, x1, y1 := b.tiles()
			for y := max(y0, first/l.across); y < min(y1, (last-1)/l.across+1); y++ {
				for tile := max(first, y*l.across+x0); tile < min(last, y*l.across+x1); tile++ {
					entries[place[tile-first]] = uint32(start + i)
					place[tile-first]++
				}
			}
		}
	})
	return starts, err
}
