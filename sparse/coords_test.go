// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sparse

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBucket(t *testing.T) {
	for n := range 16 {
		assert.Equal(t, n, Bucket(n))
	}
	assert.Equal(t, 0, Bucket(-3))
	previous, steps := 0, 0
	for n := 1; n < 1<<15; n++ {
		b := Bucket(n)
		require.GreaterOrEqual(t, b, n)
		require.LessOrEqual(t, b-n, n/8, "%d", n)
		require.Equal(t, b, Bucket(b))
		require.GreaterOrEqual(t, b, previous)
		if b != previous && n > 1<<14 {
			steps++
		}
		previous = b
	}
	assert.Equal(t, 8, steps, "steps an octave")
}

func TestLayoutLeavesAPaddingRow(t *testing.T) {
	for n := 1; n < 3000; n++ {
		l := NewLayout(n)
		require.Equal(t, n, l.Count)
		require.Greater(t, l.Rows, n)
		require.Equal(t, Layout{Rows: 8 * l.Rows, Count: 8 * n}, l.Subdivide())
	}
}

func TestNewRejects(t *testing.T) {
	for name, test := range map[string]struct {
		voxels []Voxel
		grid   int
		want   error
	}{
		"no voxels":           {nil, 64, ErrEmpty},
		"no grid":             {[]Voxel{{0, 0, 0, 0}}, 0, ErrSize},
		"huge grid":           {[]Voxel{{0, 0, 0, 0}}, MaxGrid + 1, ErrSize},
		"negative coordinate": {[]Voxel{{0, 1, -1, 1}}, 64, ErrRange},
		"coordinate of grid":  {[]Voxel{{0, 1, 1, 64}}, 64, ErrRange},
		"huge coordinate":     {[]Voxel{{0, 1 << 30, 1, 1}}, 64, ErrRange},
		"negative item":       {[]Voxel{{-1, 0, 0, 0}}, 64, ErrOrder},
		"first item missing":  {[]Voxel{{1, 0, 0, 0}}, 64, ErrOrder},
		"item missing":        {[]Voxel{{0, 0, 0, 0}, {2, 0, 0, 0}}, 64, ErrOrder},
		"items interleaved":   {[]Voxel{{0, 0, 0, 0}, {1, 0, 0, 0}, {0, 1, 0, 0}}, 64, ErrOrder},
		"duplicate":           {[]Voxel{{0, 5, 6, 7}, {0, 1, 1, 1}, {0, 5, 6, 7}}, 64, ErrDuplicate},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(test.voxels, test.grid)
			assert.ErrorIs(t, err, test.want)
		})
	}
	_, err := FromFlat(make([]int32, 7), 64)
	assert.ErrorIs(t, err, ErrOrder)
}

func TestNewBoundsMemoryOfScatteredItems(t *testing.T) {
	var voxels []Voxel
	for b := range int32(100) {
		voxels = append(voxels, Voxel{b, 0, 0, 0}, Voxel{b, MaxGrid - 1, MaxGrid - 1, MaxGrid - 1})
	}
	_, err := New(voxels, MaxGrid)
	assert.ErrorIs(t, err, ErrSize)
}

func TestNewAcceptsSameVoxelInTwoItems(t *testing.T) {
	c, err := New([]Voxel{{0, 63, 63, 63}, {0, 0, 0, 0}, {1, 63, 63, 63}}, 64)
	require.NoError(t, err)
	assert.Equal(t, 2, c.Batches())
	assert.Equal(t, []int{0, 2, 3}, c.Starts)
}

func TestSubdivideStopsAtMaxGrid(t *testing.T) {
	c, err := New([]Voxel{{0, 0, 0, 0}}, MaxGrid/2)
	require.NoError(t, err)
	fine, err := c.Subdivide()
	require.NoError(t, err)
	_, err = fine.Subdivide()
	assert.ErrorIs(t, err, ErrSize)
}

func checkPairs(t *testing.T, c *Coords) {
	t.Helper()
	checkLists(t, c, neighbors(t, c))
}

// checkLists compares the lists with the definition, and checks what Conv relies on: pairs are ascending in their
// output rows, which are unique, and padding pairs join the last row with an output that has no such neighbour.
func checkLists(t *testing.T, c *Coords, n *Neighbors) {
	t.Helper()
	rows := make(map[Voxel]int32)
	for i, v := range c.Voxels {
		rows[v] = int32(i)
	}
	for class, taps := range classTaps {
		length := n.Lengths[class]
		require.Len(t, n.Pairs[class], 2*len(taps)*length)
		for i, tap := range taps {
			in, out := n.Pairs[class][2*i*length:][:length], n.Pairs[class][(2*i+1)*length:][:length]
			off, found := offset(tap), 0
			for j := range length {
				if j > 0 {
					require.Less(t, out[j-1], out[j])
				}
				require.Less(t, int(out[j]), c.Layout.Rows)
				var want int32 = -1
				if int(out[j]) < len(c.Voxels) {
					v := c.Voxels[out[j]]
					if row, ok := rows[Voxel{v[0], v[1] + off[0], v[2] + off[1], v[3] + off[2]}]; ok {
						want = row
					}
				}
				if want < 0 {
					require.EqualValues(t, c.Layout.Rows-1, in[j])
					continue
				}
				require.Equal(t, want, in[j])
				found++
			}
			count := 0
			for _, v := range c.Voxels {
				if _, ok := rows[Voxel{v[0], v[1] + off[0], v[2] + off[1], v[3] + off[2]}]; ok {
					count++
				}
			}
			require.Equal(t, count, found, "tap %d", tap)
			require.Equal(t, count, n.Counts[tap])
		}
	}
}

func TestNeighbors(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for name, voxels := range map[string][]Voxel{
		"single":    {{0, 0, 0, 0}},
		"corner":    {{0, 1023, 1023, 1023}, {0, 1022, 1023, 1023}, {0, 0, 0, 0}},
		"isolated":  {{0, 0, 0, 0}, {0, 2, 0, 0}, {0, 0, 0, 2}},
		"sparse":    cloud(r, 1, 20, 0.05),
		"half full": cloud(r, 3, 7, 0.5),
		"full":      cloud(r, 1, 8, 1),
	} {
		t.Run(name, func(t *testing.T) {
			c, err := New(voxels, MaxGrid)
			require.NoError(t, err)
			checkPairs(t, c)
		})
	}
	checkPairs(t, shell(t))
}

func TestNeighborsOfCoordsMadeByHand(t *testing.T) {
	_, err := (&Coords{Voxels: []Voxel{{0, 1, 1, 1}, {0, 1, 1, 1}}, Starts: []int{0, 2}, Grid: 4, Layout: NewLayout(2)}).Neighbors()
	assert.ErrorIs(t, err, ErrDuplicate)
}

func TestDownsampleConnects(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	c, err := New(cloud(r, 3, 9, 0.3), 9)
	require.NoError(t, err)
	p := c.Downsample()
	require.Equal(t, 5, p.Parents.Grid)
	require.Len(t, p.Parent, c.Layout.Rows)
	children := make(map[int32]int)
	for row, v := range c.Voxels {
		parent := p.Parent[row]
		require.Equal(t, Voxel{v[0], v[1] / 2, v[2] / 2, v[3] / 2}, p.Parents.Voxels[parent])
		require.Contains(t, p.Children[int(parent)*p.Width:][:p.Width], int32(row))
		children[parent]++
	}
	for i := range p.Parents.Voxels {
		require.EqualValues(t, children[int32(i)]+1, p.Divisors[i])
	}
	for _, parent := range p.Parent[len(c.Voxels):] {
		require.EqualValues(t, p.Parents.Layout.Rows-1, parent)
	}
	_, err = New(p.Parents.Voxels, p.Parents.Grid)
	require.NoError(t, err, "parents are valid coordinates")
}

func TestWindowsPackEveryRowOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for name, voxels := range map[string][]Voxel{
		"single": {{0, 9, 9, 9}}, "scattered": cloud(r, 2, 30, 0.01), "solid": cloud(r, 2, 14, 1), "shell": shell(t).Voxels,
	} {
		t.Run(name, func(t *testing.T) {
			c, err := New(voxels, 64)
			require.NoError(t, err)
			all, err := c.Windows(8, 0, 4)
			require.NoError(t, err)
			require.Equal(t, all[0].Bins, all[1].Bins)
			require.Equal(t, all[0].Length, all[1].Length)
			for i, shift := range []int32{0, 4} {
				checkWindows(t, c, all[i], 8, shift)
			}
		})
	}
}

func checkWindows(t *testing.T, c *Coords, w *Windows, size, shift int32) {
	t.Helper()
	short := w.Bins[0] * w.Length[0]
	require.Len(t, w.Row, short+w.Bins[1]*w.Length[1])
	taken, cells, bins := 0, make(map[int32][4]int32), make(map[int32]int)
	for place, row := range w.Row {
		if int(row) >= len(c.Voxels) {
			require.EqualValues(t, -1, w.Window[place])
			continue
		}
		taken++
		require.EqualValues(t, place, w.Place[row])
		v, number := c.Voxels[row], w.Window[place]
		cell := [4]int32{v[0], (v[1] + shift) / size, (v[2] + shift) / size, (v[3] + shift) / size}
		bin := place / w.Length[0]
		if place >= short {
			bin = w.Bins[0] + (place-short)/w.Length[1]
		}
		if _, seen := cells[number]; !seen {
			cells[number], bins[number] = cell, bin
		}
		require.Equal(t, cells[number], cell, "a window is one cell")
		require.Equal(t, bins[number], bin, "a window is in one bin")
	}
	require.Equal(t, len(c.Voxels), taken)
	distinct := make(map[[4]int32]bool)
	for _, cell := range cells {
		distinct[cell] = true
	}
	require.Len(t, distinct, len(cells), "a cell is one window")
	require.Less(t, float64(len(w.Row)), 1.3*float64(len(c.Voxels))+600, "little padding")
}

func TestWindowsRejects(t *testing.T) {
	c, err := New([]Voxel{{0, 0, 0, 0}}, 64)
	require.NoError(t, err)
	for _, bad := range [][2]int{{0, 0}, {-1, 0}, {MaxGrid + 1, 0}, {8, -1}, {8, MaxGrid + 1}} {
		_, err := c.Windows(bad[0], bad[1])
		assert.ErrorIs(t, err, ErrSize, "%v", bad)
	}
}

// FuzzFromFlat checks that no input makes the topology panic or break its promises.
func FuzzFromFlat(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 0, 1, 2, 4, 1, 9, 9, 9}, 16, 8, 4)
	f.Add([]byte{0, 255, 0, 0}, 64, 1, 0)
	f.Fuzz(func(t *testing.T, data []byte, grid, window, shift int) {
		flat := make([]int32, len(data))
		for i, b := range data {
			flat[i] = int32(int8(b))
		}
		c, err := FromFlat(flat, grid)
		if err != nil {
			return
		}
		checkPairs(t, c)
		p := c.Downsample()
		_, err = New(p.Parents.Voxels, p.Parents.Grid)
		require.NoError(t, err)
		windows, err := c.Windows(window, shift, 0)
		if err != nil {
			require.ErrorIs(t, err, ErrSize)
			return
		}
		for _, w := range windows {
			for row := range c.Voxels {
				require.EqualValues(t, row, w.Row[w.Place[row]])
			}
		}
		fine, err := c.Subdivide()
		if err == nil {
			_, err = New(fine.Voxels, fine.Grid)
			require.NoError(t, err)
		}
	})
}
