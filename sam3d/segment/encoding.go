// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"context"
	"fmt"
	"image"
	"slices"
	"sync"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/internal/nn"
)

// Encoding is what the network saw in a picture, on the device. It answers any number of prompts, from several
// goroutines at once, until it is closed.
type Encoding struct {
	Width, Height int // of the picture

	model *Model
	mu    sync.RWMutex // read-held by calls, so that Close waits for them
	done  bool

	// Feature maps of the grounding neck, coarser by 2 each: [B, 4g, 4g, D], [B, 2g, 2g, D], [B, g, g, D].
	// None without the head.
	grounding []*tensors.Tensor
	clicks    clickFeatures
}

// Encode runs the image encoder on a picture, which is most of the work. Transparency is ignored. The caller closes the
// Encoding.
//
// It stops within one block of ctx being cancelled. Errors wrap ErrInput, or are the context's.
func (m *Model) Encode(ctx context.Context, picture image.Image) (*Encoding, error) {
	if picture == nil {
		return nil, fmt.Errorf("%w: no picture", ErrInput)
	}
	pixels, err := preprocess(picture, m.cfg.ImageSize)
	if err != nil {
		return nil, err
	}
	input := tensors.FromFlatDataAndDimensions(pixels, 1, 3, m.cfg.ImageSize, m.cfg.ImageSize)
	defer nn.Free(input)
	e, err := m.encode(ctx, input)
	if err != nil {
		return nil, err
	}
	e.Width, e.Height = picture.Bounds().Dx(), picture.Bounds().Dy()
	return e, nil
}

// encode runs the image encoder and the necks.
//
//	pixels [B, 3, S, S] float32, normalised to -1..1
func (m *Model) encode(ctx context.Context, pixels *tensors.Tensor) (e *Encoding, err error) {
	size := m.cfg.ImageSize
	if dims := pixels.Shape().Dimensions; pixels.DType() != dtypes.Float32 || len(dims) != 4 || !slices.Equal(dims[1:], []int{3, size, size}) {
		return nil, fmt.Errorf("%w: pixels %s, want float32 [B, 3, %d, %d]", ErrInput, pixels.Shape(), size, size)
	}
	e = &Encoding{model: m, Width: size, Height: size}
	defer func() {
		if err != nil {
			e.free()
			e = nil
		}
	}()
	features, err := m.vision.trunk(ctx, pixels)
	if err != nil {
		return e, err
	}
	defer nn.Free(features)
	if m.grounding != nil {
		if e.grounding, err = m.vision.neck(ctx, groundingNeck, features); err != nil {
			return e, err
		}
	}
	if m.interactive != nil {
		levels, err := m.vision.neck(ctx, interactiveNeck, features)
		if err != nil {
			return e, err
		}
		defer nn.Free(levels...)
		if e.clicks, err = m.interactive.features(levels); err != nil {
			return e, err
		}
	}
	return e, ctx.Err()
}

// use keeps the Encoding open until release is called.
func (e *Encoding) use() (release func(), err error) {
	e.mu.RLock()
	if e.done {
		e.mu.RUnlock()
		return nil, ErrClosed
	}
	return e.mu.RUnlock, nil
}

// Close frees the device memory. It waits for calls in progress; later ones fail with ErrClosed.
func (e *Encoding) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.done = true
	e.free()
}

func (e *Encoding) free() {
	nn.Free(e.grounding...)
	e.grounding = nil
	e.clicks.free()
}
