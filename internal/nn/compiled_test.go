// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package nn_test

import (
	"fmt"
	"sync"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/internal/nn"
)

// double calls a program that doubles numbers.
func double(p *nn.Program, length int) error {
	values := make([]float32, length)
	for i := range values {
		values[i] = float32(i)
	}
	in := tensors.FromFlatDataAndDimensions(values, length)
	defer nn.Free(in)
	out, err := p.Call1(nil, in)
	if err != nil {
		return err
	}
	defer nn.Free(out)
	for i, v := range flat(out) {
		if v != float32(2*i) {
			return fmt.Errorf("twice %d is %v", i, v)
		}
	}
	return nil
}

func doubling(t *testing.T) *nn.Program {
	p := nn.NewProgram(fixture.Backend(t), "double", func(_ nn.Params, in []*Node) []*Node { return []*Node{Add(in[0], in[0])} })
	t.Cleanup(p.Close)
	return p
}

// The graphs that were not used for longest make room for others, those of other programs too.
func TestGraphsMakeRoom(t *testing.T) {
	before := nn.KeptGraphs()
	t.Cleanup(nn.LimitGraphs(before + 3))
	a, b := doubling(t), doubling(t)
	compiles := func(p *nn.Program, length int) bool {
		n := nn.Compilations()
		require.NoError(t, double(p, length))
		return nn.Compilations() > n
	}
	for length := 1; length <= 3; length++ {
		require.True(t, compiles(a, length))
	}
	require.False(t, compiles(a, 1))
	require.True(t, compiles(b, 1))
	require.Equal(t, before+3, nn.KeptGraphs())
	require.False(t, compiles(a, 1))
	require.False(t, compiles(a, 3))
	require.True(t, compiles(a, 2), "it made room")
	require.True(t, compiles(b, 1), "and then this")
	b.Close()
	require.Equal(t, before+2, nn.KeptGraphs())
	a.Close()
	require.Equal(t, before, nn.KeptGraphs())
}

// Where room is short before the limit is reached, some of the oldest graphs go with every new one.
func TestGraphsMakeRoomEarly(t *testing.T) {
	t.Cleanup(nn.Crowd())
	p := doubling(t)
	for length := 1; length <= 100; length++ {
		require.NoError(t, double(p, length))
	}
	require.Less(t, nn.KeptGraphs(), 10)
}

// Graphs that run are not freed, however many there are.
func TestGraphsInUse(t *testing.T) {
	before := nn.KeptGraphs()
	t.Cleanup(nn.LimitGraphs(1))
	p := doubling(t)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for i := range 40 {
				if err := double(p, 1+i%5); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	require.NoError(t, double(p, 9))
	require.LessOrEqual(t, nn.KeptGraphs(), before+1)
}
