// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package finder

import (
	"context"
	"errors"
	"image"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/examples/internal/segmenter"
	"github.com/gomlx3d/image3d/examples/internal/segmenter/tiny"
	"github.com/gomlx3d/image3d/examples/service/internal/store"
	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/sam3d/segment"
	"github.com/gomlx3d/image3d/weights"
)

// open returns a finder with a small network, closed with the test.
func open(t *testing.T, limit int, kind tiny.Kind) *Finder {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, tiny.Write(folder, kind))
	f := New(limit, time.Hour)
	require.NoError(t, f.Open(t.Context(), folder, "", "go"))
	t.Cleanup(f.Close)
	return f
}

// photo returns a picture of 40 x 30 pixels.
func photo() (image.Image, error) {
	img := image.NewGray(image.Rect(0, 0, 40, 30))
	for i := range img.Pix {
		img.Pix[i] = uint8(i * i >> 5)
	}
	return img, nil
}

func add(t *testing.T, f *Finder, client, digest string) Encoding {
	t.Helper()
	e, err := f.Add(t.Context(), client, digest, photo)
	require.NoError(t, err)
	return e
}

var middle = store.Clicks{Positive: []store.Point{{X: 20, Y: 15}}}

func TestEncodingsAreBounded(t *testing.T) {
	f := open(t, 2, tiny.Sure)
	first, second := add(t, f, "a", "1"), add(t, f, "a", "2")
	require.Equal(t, []int{40, 30}, []int{first.Width, first.Height})
	require.Equal(t, first.ID, add(t, f, "a", "1").ID, "the same photograph is not encoded again")
	held := f.find(func(k *kept) bool { return k.id == second.ID }).encoding
	_, err := f.Click(t.Context(), "a", first.ID, "", middle) // used later than the second
	require.NoError(t, err)
	third := add(t, f, "b", "1")
	require.NotEqual(t, first.ID, third.ID, "clients are apart")
	_, err = f.Click(t.Context(), "a", second.ID, "", middle)
	require.ErrorIs(t, err, ErrNoEncoding)
	_, err = held.Click(t.Context(), segment.ClickPrompt{Points: []segment.Point{{X: 1, Y: 1, Label: segment.Foreground}}})
	require.ErrorIs(t, err, segment.ErrClosed, "its memory is free")
	for _, id := range []string{first.ID, third.ID} {
		_, err = f.Click(t.Context(), "c", id, "", middle)
		require.ErrorIs(t, err, ErrNoEncoding)
	}

	f.Sweep(time.Now().Add(30 * time.Minute))
	require.Len(t, f.kept, 2)
	f.Sweep(time.Now().Add(2 * time.Hour))
	require.Empty(t, f.kept)
	require.ErrorIs(t, f.Remove("a", first.ID), ErrNoEncoding)
	e := add(t, f, "a", "1")
	require.ErrorIs(t, f.Remove("b", e.ID), ErrNoEncoding)
	require.NoError(t, f.Remove("a", e.ID))
	f.keep = -1
	_, err = f.Click(t.Context(), "a", add(t, f, "a", "3").ID, "", middle)
	require.ErrorIs(t, err, ErrNoEncoding, "expired before the sweep")
}

// A click needs no turn: the image encoder, which has one, does not run.
func TestClicks(t *testing.T) {
	f := open(t, 2, tiny.Sure)
	e := add(t, f, "a", "1")
	f.turn <- struct{}{}
	one, err := f.Click(t.Context(), "a", e.ID, "", middle)
	require.NoError(t, err)
	require.Equal(t, image.Rect(0, 0, 40, 30), one.Mask.Rect)
	more := store.Clicks{Positive: middle.Positive, Negative: []store.Point{{X: 3, Y: 3}}, Box: &store.Box{X0: 1, Y0: 2, X1: 30, Y1: 29}}
	two, err := f.Click(t.Context(), "a", e.ID, one.ID, more)
	require.NoError(t, err)
	require.NotEqual(t, one.ID, two.ID)
	for range keptMasks {
		_, err = f.Click(t.Context(), "a", e.ID, "", middle)
		require.NoError(t, err)
	}
	_, err = f.Click(t.Context(), "a", e.ID, one.ID, more)
	require.ErrorIs(t, err, ErrNoMask)
	for _, bad := range []store.Clicks{{}, {Positive: []store.Point{{X: 41, Y: 1}}}, {Box: &store.Box{X0: 5, X1: 4, Y1: 9}}} {
		_, err = f.Click(t.Context(), "a", e.ID, "", bad)
		require.ErrorIs(t, err, segment.ErrInput)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = f.Add(ctx, "a", "2", photo)
	require.ErrorIs(t, err, context.Canceled)
	_, err = f.Words(ctx, "a", e.ID, store.Words{Text: "cat"})
	require.ErrorIs(t, err, context.Canceled)
	f.waiting.Store(maxWaiting)
	_, err = f.Add(t.Context(), "a", "2", photo)
	require.ErrorIs(t, err, ErrBusy)
	<-f.turn
	f.waiting.Store(0)
	broken := errors.New("broken")
	_, err = f.Add(t.Context(), "a", "2", func() (image.Image, error) { return nil, broken })
	require.ErrorIs(t, err, broken)
	require.Len(t, f.kept, 1, "no other had to go for it")
}

func TestWords(t *testing.T) {
	f := open(t, 2, tiny.Sure)
	e := add(t, f, "a", "1")
	objects, err := f.Words(t.Context(), "a", e.ID, store.Words{Text: "cat"})
	require.NoError(t, err)
	require.Len(t, objects, tiny.Queries)
	require.GreaterOrEqual(t, objects[0].Score, objects[1].Score)
	mask, err := f.Mask(t.Context(), "a", "1", photo, store.Options{Words: &store.Words{Text: "cat"}})
	require.NoError(t, err)
	require.Equal(t, objects[0].Mask.Pix, mask.Pix)
	_, err = f.Mask(t.Context(), "a", "1", photo, store.Options{Clicks: &middle})
	require.NoError(t, err)
	require.Len(t, f.kept, 1)
	_, err = f.Words(t.Context(), "a", e.ID, store.Words{Text: " \t"})
	require.ErrorIs(t, err, ErrPrompt)
	_, err = f.Words(t.Context(), "b", e.ID, store.Words{Text: "cat"})
	require.ErrorIs(t, err, ErrNoEncoding)

	blind := open(t, 2, tiny.Blind)
	_, err = blind.Words(t.Context(), "a", add(t, blind, "a", "1").ID, store.Words{Text: "cat"})
	require.ErrorIs(t, err, segmenter.ErrNothing)
}

// Closing waits for what runs, and refuses what comes later.
func TestClose(t *testing.T) {
	f := New(2, time.Hour)
	require.False(t, f.State().Ready)
	_, err := f.Add(t.Context(), "a", "1", photo)
	require.ErrorIs(t, err, ErrNotReady)
	require.ErrorIs(t, f.Open(t.Context(), t.TempDir(), "", "go"), weights.ErrMissing)

	f = open(t, 2, tiny.Sure)
	require.Equal(t, State{Ready: true, Clicks: true, Words: true}, f.State())
	var clients sync.WaitGroup
	for _, client := range []string{"a", "b", "c", "d"} { // more than there is room for
		clients.Go(func() {
			for range 5 {
				e, err := f.Add(t.Context(), client, "1", photo)
				if err == nil {
					_, err = f.Click(t.Context(), client, e.ID, "", middle)
				}
				if err != nil && !errors.Is(err, ErrNotReady) && !errors.Is(err, ErrNoEncoding) {
					t.Error(err)
				}
			}
		})
	}
	f.Close()
	clients.Wait()
	require.Empty(t, f.kept)
	_, err = f.Click(t.Context(), "a", "x", "", middle)
	require.ErrorIs(t, err, ErrNotReady)
}

// Whatever drops an encoding leaves nothing on the device, and closing leaves nothing at all.
func TestDeviceMemory(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, tiny.Write(folder, tiny.Sure))
	device := fixture.NewDevice(fixture.Backend(t))
	model, err := segment.Open(t.Context(), device, folder, weights.HubOptions{})
	require.NoError(t, err)
	f := New(2, time.Hour)
	f.model = model
	prompts := func(client string) {
		e := add(t, f, client, "1")
		one, err := f.Click(t.Context(), client, e.ID, "", middle)
		require.NoError(t, err)
		_, err = f.Click(t.Context(), client, e.ID, one.ID, middle)
		require.NoError(t, err)
		_, err = f.Words(t.Context(), client, e.ID, store.Words{Text: "cat"})
		require.NoError(t, err)
	}
	empty := func() { f.drop(func(*kept) bool { return true }) }
	prompts("a")
	empty()
	idle := device.Count() // and constants of the programs
	prompts("a")
	one := device.Count()
	require.Greater(t, one, idle)
	prompts("b")
	two := device.Count()
	require.Equal(t, one-idle, two-one)
	prompts("c")
	prompts("d")
	require.Equal(t, two, device.Count(), "the longest unused went")
	f.Sweep(time.Now().Add(2 * time.Hour))
	require.Equal(t, idle, device.Count())
	prompts("e")
	f.Close()
	require.Zero(t, device.Count())
}
