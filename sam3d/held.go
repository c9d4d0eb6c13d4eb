// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import (
	"fmt"
	"runtime/debug"

	"github.com/gomlx3d/image3d/weights"
)

// held is a model that a stage needs. Its weights are on the device always, or for that stage alone.
type held[M closer] struct {
	open   func() (M, error)
	set    *weights.Set // what a reloadable model is loaded from
	stream bool         // for the stage alone
	model  M
	opened bool
}

// part is a held model of any kind.
type part interface {
	load() error
	close()
}

type closer interface{ Close() }

// reloadable is a model that keeps its compiled programs while its weights are away.
type reloadable interface {
	closer
	Load(*weights.Set) error
	Unload()
}

// use runs work with the model.
func use[M closer, T any](h *held[M], work func(M) (T, error)) (out T, err error) {
	if err := h.load(); err != nil {
		return out, fmt.Errorf("load weights: %w", err)
	}
	defer func() {
		if h.stream {
			h.unload()
		}
		debug.FreeOSMemory() // of results' copies and of uploads; then what the backend has freed
		releaseNative()
	}()
	return work(h.model)
}

// load puts the weights on the device if they are not there.
func (h *held[M]) load() (err error) {
	model, again := any(h.model).(reloadable)
	switch {
	case h.opened && !h.stream:
	case h.opened && again:
		err = model.Load(h.set)
	default:
		var fresh M
		if fresh, err = h.open(); err == nil {
			h.model, h.opened = fresh, true
		}
	}
	return err
}

// unload takes the weights off the device.
func (h *held[M]) unload() {
	if model, ok := any(h.model).(reloadable); ok {
		model.Unload()
		return
	}
	h.close()
}

func (h *held[M]) close() {
	if h.opened {
		h.model.Close()
		h.opened = false
	}
}
