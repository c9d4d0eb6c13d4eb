// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/sam3d"
)

// everything is a request for all that a pipeline can make.
func everything(t *testing.T) sam3d.Request {
	r := request(t)
	r.Outputs = sam3d.Gaussians | sam3d.Gaussians4 | sam3d.Mesh
	return r
}

// openDevice returns a new device around the tests' backend, and the name that Open knows it by.
func openDevice(t *testing.T) (d *fixture.Device, name string) {
	t.Helper()
	backend, err := sam3d.OpenBackend(backendName())
	require.NoError(t, err)
	d, name = fixture.NewDevice(backend), "device of "+t.Name()
	sam3d.UseBackend(name, d)
	t.Cleanup(func() { sam3d.UseBackend(name, nil) })
	return d, name
}

// openOn opens the embedded model on a device of the test.
func openOn(t *testing.T, name string, options sam3d.Options) *sam3d.Pipeline {
	t.Helper()
	options.Backend = name
	p, err := sam3d.Open(t.Context(), model(t), options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// resident is the process's resident memory in bytes, or 0 where it cannot be known.
func resident() (bytes int) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, pages int
	_, _ = fmt.Sscan(string(text), &size, &pages)
	return pages * os.Getpagesize()
}

// TestMemoryIsFlat makes 50 objects one after the other and 8 at once, some of them cancelled: no buffer of the device,
// no goroutine and next to no memory is more than after the first ones.
func TestMemoryIsFlat(t *testing.T) {
	skipIfShort(t)
	t.Run("weights kept", func(t *testing.T) { memoryIsFlat(t, sam3d.Options{KeepWeights: true}) })
	t.Run("weights loaded", func(t *testing.T) { memoryIsFlat(t, sam3d.Options{}) })
}

func memoryIsFlat(t *testing.T, options sam3d.Options) {
	d, name := openDevice(t)
	p := openOn(t, name, options)
	weights := d.Count()
	heap := func() uint64 { // and gives back to the system what is free
		debug.FreeOSMemory() // twice, as pools keep things for one collection
		debug.FreeOSMemory()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	generate := func(i int) error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := request(t)
		if i%10 == 1 {
			r = everything(t)
		}
		r.NoDepth = i%4 == 0
		r.Progress = func(e sam3d.Event) {
			if i%5 == 4 && e.Stage == sam3d.StageLatent {
				cancel()
			}
		}
		_, err := p.Generate(ctx, r)
		if i%5 == 4 && errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	}
	var before uint64
	var kept map[string]int
	var goroutines, grown int
	for i := 1; i <= 50; i++ {
		require.NoError(t, generate(i))
		if !slices.Contains([]int{1, 10, 25, 50}, i) {
			continue
		}
		inUse := heap()
		if i == 10 {
			before, kept, goroutines, grown = inUse, d.Shapes(), runtime.NumGoroutine(), resident()
		}
		t.Logf("call %d: heap %.1f MB, resident %.1f MB, %d buffers beside %d weights", i, float64(inUse)/1e6,
			float64(resident())/1e6, d.Count()-weights, weights)
	}
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			if err := generate(i); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	require.Empty(t, d.More(kept))
	require.Less(t, heap(), before+2<<20)
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines+2)
	t.Logf("8 at once: resident %.1f MB", float64(resident())/1e6)
	require.Less(t, resident(), grown+64<<20)
	require.NoError(t, p.Close())
	require.Empty(t, d.Shapes(), "after Close")
}

var errBroken = errors.New("the device is broken")

// TestBrokenDevice lets every call of the device fail in turn, by an error or a panic: each is an error that tells the
// cause, leaves nothing on the device and does not keep the next object from being made.
func TestBrokenDevice(t *testing.T) {
	skipIfShort(t)
	d, name := openDevice(t)
	p, r := openOn(t, name, sam3d.Options{KeepWeights: true}), everything(t)
	want, err := p.Generate(t.Context(), r)
	require.NoError(t, err)
	kept := d.Shapes()
	d.Fail(nil)
	_, err = p.Generate(t.Context(), r)
	require.NoError(t, err)
	calls := d.Fail(nil)
	t.Logf("%d calls of the device for an object", calls)
	for at := 1; at <= calls; at += 1 + calls/30 {
		d.Fail(func(call int, operation string) error {
			switch {
			case call != at:
				return nil
			case at%2 == 0:
				panic(errBroken)
			}
			return errBroken
		})
		result, err := p.Generate(t.Context(), r)
		require.ErrorIs(t, err, errBroken, "call %d of %d", at, calls)
		require.Nil(t, result)
		require.Empty(t, d.More(kept), "call %d of %d", at, calls)
	}
	d.Fail(func(int, string) error { return errBroken })
	var group sync.WaitGroup
	for range 8 { // nobody waits for ever
		group.Go(func() {
			if _, err := p.Generate(t.Context(), r); !errors.Is(err, errBroken) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	d.Fail(nil)
	got, err := p.Generate(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, withoutTimes(want), withoutTimes(got))
}

// TestDeviceFailsToCompile lets some compilations fail: the next object compiles again.
func TestDeviceFailsToCompile(t *testing.T) {
	skipIfShort(t)
	d, name := openDevice(t)
	p, r := openOn(t, name, sam3d.Options{}), request(t)
	for at := 1; ; at += 7 {
		compiled := 0
		d.Fail(func(_ int, operation string) error {
			if operation == "compile" {
				if compiled++; compiled == at {
					return errBroken
				}
			}
			return nil
		})
		_, err := p.Generate(t.Context(), r)
		if compiled < at {
			require.NoError(t, err)
			require.Greater(t, at, 8, "no compilation failed")
			return
		}
		require.ErrorIs(t, err, errBroken)
	}
}

// TestDeviceFailsToLoad lets some uploads of weights fail: a pipeline that is not opened leaves nothing.
func TestDeviceFailsToLoad(t *testing.T) {
	skipIfShort(t)
	d, name := openDevice(t)
	folder := model(t)
	p, err := sam3d.Open(t.Context(), folder, sam3d.Options{Backend: name, KeepWeights: true})
	require.NoError(t, err)
	uploads := d.Fail(nil)
	require.Greater(t, uploads, 100)
	require.NoError(t, p.Close())
	require.Empty(t, d.Shapes(), "after Close")
	for at := 1; at <= uploads; at += 1 + uploads/20 {
		d.Fail(func(call int, _ string) error {
			if call == at {
				return errBroken
			}
			return nil
		})
		_, err := sam3d.Open(t.Context(), folder, sam3d.Options{Backend: name, KeepWeights: true})
		require.ErrorIs(t, err, errBroken, "call %d of %d", at, uploads)
		require.Empty(t, d.Shapes(), "call %d of %d", at, uploads)
	}
}

// TestWeightsLeaveTheDevice: weights that are not kept are gone between objects, also after a failure.
func TestWeightsLeaveTheDevice(t *testing.T) {
	skipIfShort(t)
	d, name := openDevice(t)
	p, r := openOn(t, name, sam3d.Options{}), everything(t)
	require.Zero(t, d.Count())
	_, err := p.Generate(t.Context(), r)
	require.NoError(t, err)
	kept := d.Shapes()
	d.Fail(nil)
	_, err = p.Generate(t.Context(), r)
	require.NoError(t, err)
	require.Empty(t, d.More(kept))
	calls := d.Fail(nil)
	t.Logf("%d buffers between objects, %d calls", d.Count(), calls)
	for at := 1; at <= calls; at += 1 + calls/20 {
		d.Fail(func(call int, _ string) error {
			if call == at {
				return errBroken
			}
			return nil
		})
		_, err := p.Generate(t.Context(), r)
		require.ErrorIs(t, err, errBroken, "call %d of %d", at, calls)
		require.Empty(t, d.More(kept), "call %d of %d", at, calls)
	}
	d.Fail(nil)
	_, err = p.Generate(t.Context(), r)
	require.NoError(t, err)
}

// TestCloseDuringGenerate closes at several moments of an object's making: Close waits for it, and it is whole.
func TestCloseDuringGenerate(t *testing.T) {
	skipIfShort(t)
	d, name := openDevice(t)
	for _, stage := range []sam3d.Stage{sam3d.StageInput, sam3d.StageStructure, sam3d.StageLatent, sam3d.StageMesh} {
		p, err := sam3d.Open(t.Context(), model(t), sam3d.Options{Backend: name})
		require.NoError(t, err)
		r := everything(t)
		closed := make(chan error, 1)
		begun := false
		r.Progress = func(e sam3d.Event) {
			if e.Stage == stage && !begun {
				begun = true
				go func() { closed <- p.Close() }()
			}
		}
		result, err := p.Generate(t.Context(), r)
		require.NoError(t, err, stage)
		require.NotNil(t, result.Mesh)
		require.NoError(t, <-closed)
		require.Empty(t, d.Shapes(), "%s", stage)
		_, err = p.Generate(t.Context(), r)
		require.ErrorIs(t, err, sam3d.ErrClosed)
	}
}
