// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package finder finds objects in clients' photographs with SAM 3. It keeps a bounded number of photographs encoded, so
// that a prompt costs no more than the small part of the network that answers it.
package finder

import (
	"context"
	"crypto/rand"
	"errors"
	"image"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomlx3d/image3d/examples/internal/segmenter"
	"github.com/gomlx3d/image3d/sam3d/segment"
)

var (
	// ErrNotReady says that the network is not loaded, or not any more.
	ErrNotReady = errors.New("finder: the segmenter is not loaded")
	// ErrBusy says that too many requests wait already.
	ErrBusy = errors.New("finder: the segmenter is busy")
	// ErrNoEncoding says that the client has no such encoding, or that it was dropped.
	ErrNoEncoding = errors.New("finder: there is no such encoding")
	// ErrNoMask says that the encoding has no such mask of an earlier click, or that it was dropped.
	ErrNoMask = errors.New("finder: there is no such mask")
	// ErrPrompt says that a prompt asks for nothing.
	ErrPrompt = errors.New("finder: the prompt is empty")
)

const (
	maxWaiting = 8  // for the image encoder and for words, which run one at a time
	keptMasks  = 16 // of the latest clicks of an encoding
)

// Finder holds the network and what it has seen. It is safe for concurrent use.
type Finder struct {
	limit int
	keep  time.Duration

	life    sync.RWMutex // read-held by calls, so that Close waits for them
	model   *segment.Model
	waiting atomic.Int32
	turn    chan struct{}

	mu   sync.Mutex
	kept []*kept // the longest unused first
}

// kept is a photograph that is encoded.
type kept struct {
	id, client, digest string
	encoding           *segment.Encoding
	used               time.Time
	count              int    // of clicks
	masks              []mask // the oldest first
}

type mask struct {
	id     string
	logits segment.Logits
}

// New returns a finder that keeps up to limit encodings, of all clients together, each for some time after its last use.
func New(limit int, keep time.Duration) *Finder {
	return &Finder{limit: limit, keep: keep, turn: make(chan struct{}, 1)}
}

// Open loads the network.
func (f *Finder) Open(ctx context.Context, checkpoint, vocabulary, backend string) error {
	model, err := segmenter.Open(ctx, backend, checkpoint, vocabulary)
	if err != nil {
		return err
	}
	f.life.Lock()
	defer f.life.Unlock()
	f.model = model
	return nil
}

// State is what the network can do.
type State struct {
	Ready  bool `json:"ready" doc:"The segmenter is loaded"`
	Clicks bool `json:"clicks" doc:"It takes clicks"`
	Words  bool `json:"words" doc:"It takes words"`
}

// State returns what the network can do. Until it is loaded that is nothing.
func (f *Finder) State() State {
	model, done, err := f.use()
	if err != nil {
		return State{}
	}
	defer done()
	cfg := model.Config()
	return State{Ready: true, Clicks: cfg.Interactive, Words: cfg.Grounding}
}

// Close frees all encodings and the network, after the calls in progress.
func (f *Finder) Close() {
	f.life.Lock()
	defer f.life.Unlock()
	f.drop(func(*kept) bool { return true })
	if f.model != nil {
		f.model.Close()
		f.model = nil
	}
}

// use keeps the network until done is called.
func (f *Finder) use() (model *segment.Model, done func(), err error) {
	f.life.RLock()
	if f.model == nil {
		f.life.RUnlock()
		return nil, nil, ErrNotReady
	}
	return f.model, f.life.RUnlock, nil
}

// wait waits for the turn to do something that takes much time or memory.
func (f *Finder) wait(ctx context.Context) (done func(), err error) {
	if f.waiting.Add(1) > maxWaiting {
		f.waiting.Add(-1)
		return nil, ErrBusy
	}
	defer f.waiting.Add(-1)
	select {
	case f.turn <- struct{}{}:
		return func() { <-f.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Encoding is what a client sees of a photograph that is encoded.
type Encoding struct {
	ID      string    `json:"id"`
	Width   int       `json:"width" doc:"Of the photograph, in pixels"`
	Height  int       `json:"height"`
	Expires time.Time `json:"expires" doc:"If it is not used until then. It may go earlier, if the service needs room for others."`
}

// Add encodes a photograph of a client, unless it has one of the same digest. It reads the photograph when its turn has
// come.
func (f *Finder) Add(ctx context.Context, client, digest string, read func() (image.Image, error)) (Encoding, error) {
	model, done, err := f.use()
	if err != nil {
		return Encoding{}, err
	}
	defer done()
	same := func(k *kept) bool { return k.client == client && k.digest == digest }
	if k := f.find(same); k != nil {
		return f.view(k), nil
	}
	end, err := f.wait(ctx)
	if err != nil {
		return Encoding{}, err
	}
	defer end()
	if k := f.find(same); k != nil { // it came meanwhile
		return f.view(k), nil
	}
	picture, err := read()
	if err != nil {
		return Encoding{}, err
	}
	f.shrink(f.limit - 1) // first, so that there are never more on the device
	encoding, err := model.Encode(ctx, picture)
	if err != nil {
		return Encoding{}, err
	}
	k := &kept{id: rand.Text(), client: client, digest: digest, encoding: encoding, used: time.Now()}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept = append(f.kept, k)
	return f.view(k), nil
}

func (f *Finder) view(k *kept) Encoding {
	return Encoding{ID: k.id, Width: k.encoding.Width, Height: k.encoding.Height, Expires: time.Now().Add(f.keep).UTC()}
}

// Remove drops an encoding of a client.
func (f *Finder) Remove(client, id string) error {
	if f.drop(func(k *kept) bool { return k.client == client && k.id == id }) == 0 {
		return ErrNoEncoding
	}
	return nil
}

// Sweep drops the encodings that were not used for long.
func (f *Finder) Sweep(now time.Time) {
	f.drop(func(k *kept) bool { return now.Sub(k.used) > f.keep })
}

// shrink drops the longest unused encodings above a number.
func (f *Finder) shrink(n int) {
	seen := 0
	f.drop(func(*kept) bool { seen++; return seen <= len(f.kept)-n })
}

// drop drops the encodings that a condition, called with the lock, is true of, and returns their number.
func (f *Finder) drop(when func(*kept) bool) int {
	f.mu.Lock()
	var stay, gone []*kept
	for _, k := range f.kept {
		if when(k) {
			gone = append(gone, k)
		} else {
			stay = append(stay, k)
		}
	}
	f.kept = stay
	f.mu.Unlock()
	for _, k := range gone {
		k.encoding.Close() // waits for clicks, without the lock
	}
	return len(gone)
}

// find returns an encoding, which counts as used then, or nil.
func (f *Finder) find(is func(*kept) bool) *kept {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for i, k := range f.kept {
		if is(k) && now.Sub(k.used) <= f.keep {
			k.used = now
			f.kept = append(append(f.kept[:i:i], f.kept[i+1:]...), k)
			return k
		}
	}
	return nil
}

// own returns an encoding of a client.
func (f *Finder) own(client, id string) (*kept, error) {
	k := f.find(func(k *kept) bool { return k.client == client && k.id == id })
	if k == nil {
		return nil, ErrNoEncoding
	}
	return k, nil
}
