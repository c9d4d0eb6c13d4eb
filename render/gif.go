// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package render

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"io"
	"math"
	"time"
)

// ErrAnimation is wrapped by errors about frames that make no animation.
var ErrAnimation = errors.New("render: invalid animation")

// Animation is a GIF file in the making: frames with one palette that plays for ever.
type Animation struct {
	// Delay is the time that each frame is seen, rounded to hundredths of a second, at least two, since viewers slow
	// down what is faster. 0 means two.
	Delay time.Duration
	// Frames have all the same size. Pixels with an alpha under one half become transparent, all others opaque.
	Frames []*image.RGBA
}

// Write writes the file. One palette of up to 256 colours is made for all frames, and colours between its entries are
// mixed by a fixed pattern (ordered dithering), so that nothing flickers that does not move. Colours that have an entry
// of their own, such as that of a background, are not mixed.
//
// The error wraps ErrAnimation for no frames or frames of different sizes, ctx.Err(), or an error of w.
func (a *Animation) Write(ctx context.Context, w io.Writer) error {
	if len(a.Frames) == 0 {
		return fmt.Errorf("%w: no frames", ErrAnimation)
	}
	size := a.Frames[0].Rect.Size()
	if size.X < 1 || size.Y < 1 || size.X > math.MaxUint16 || size.Y > math.MaxUint16 {
		return fmt.Errorf("%w: frames of %v pixels", ErrAnimation, size)
	}
	for i, frame := range a.Frames {
		if frame.Rect.Size() != size {
			return fmt.Errorf("%w: frame %d has %v pixels, the first has %v", ErrAnimation, i, frame.Rect.Size(), size)
		}
	}
	p, err := newPalette(ctx, a.Frames)
	if err != nil {
		return err
	}
	file := gif.GIF{
		Image: make([]*image.Paletted, len(a.Frames)), Delay: make([]int, len(a.Frames)),
		Disposal: make([]byte, len(a.Frames)),
		Config:   image.Config{ColorModel: color.Palette(p.colors), Width: size.X, Height: size.Y},
	}
	delay := max(2, int(math.Round(min(a.Delay.Seconds(), 600)*100)))
	err = inParallel(ctx, len(a.Frames), func(i int) {
		file.Image[i], file.Delay[i], file.Disposal[i] = p.dither(a.Frames[i]), delay, gif.DisposalNone
		if p.transparent {
			file.Disposal[i] = gif.DisposalBackground
		}
	})
	if err != nil {
		return err
	}
	if err := gif.EncodeAll(cancelWriter{ctx, w}, &file); err != nil {
		return fmt.Errorf("render: write GIF: %w", err)
	}
	return nil
}

// cancelWriter stops writing when ctx is done.
type cancelWriter struct {
	ctx context.Context
	w   io.Writer
}

func (c cancelWriter) Write(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.w.Write(p)
}
