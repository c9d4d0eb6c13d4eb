// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import (
	"fmt"
	"runtime/debug"
)

// held is a model that a stage needs. Its weights are on the device always, or for that stage alone.
type held[M model] struct {
	open   func() (M, error)
	again  func(M) error // loads the weights of a model that was unloaded
	stream bool          // for the stage alone
	model  M
	opened bool
}

// part is a held model of any kind.
type part interface {
	load() error
	close()
}

// model keeps its compiled programs while its weights are away.
type model interface {
	Unload()
	Close()
}

// use runs work with the model.
func use[M model, T any](h *held[M], work func(M) (T, error)) (out T, err error) {
	if err := h.load(); err != nil {
		return out, fmt.Errorf("load weights: %w", err)
	}
	defer func() {
		if h.stream {
			h.model.Unload()
		}
		debug.FreeOSMemory() // of results' copies and of uploads; then what the backend has freed
		releaseNative()
	}()
	return work(h.model)
}

// load puts the weights on the device if they are not there.
func (h *held[M]) load() (err error) {
	switch {
	case !h.opened:
		h.model, err = h.open()
		h.opened = err == nil
	case h.stream:
		err = h.again(h.model)
	}
	return err
}

func (h *held[M]) close() {
	if h.opened {
		h.model.Close()
		h.opened = false
	}
}
