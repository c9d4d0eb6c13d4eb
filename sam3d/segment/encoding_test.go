// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"context"
	"image"
	"image/color"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// picture returns a coloured pattern whose first pixel is not at the origin.
func picture(width, height int) image.Image {
	img := image.NewNRGBA(image.Rect(5, -3, 5+width, -3+height))
	for y := range height {
		for x := range width {
			img.SetNRGBA(5+x, y-3, color.NRGBA{R: uint8(7 * x), G: uint8(11 * y), B: uint8(x * y), A: 255})
		}
	}
	return img
}

// TestEncode clicks into pictures of several shapes.
func TestEncode(t *testing.T) {
	model := smallModel(t)
	for _, size := range [][2]int{{1, 1}, {64, 3}, {3000, 2}, {1, 700}, {30, 40}, {20, 20}} {
		encoding, err := model.Encode(t.Context(), picture(size[0], size[1]))
		require.NoError(t, err)
		require.Equal(t, size, [2]int{encoding.Width, encoding.Height})
		at := Point{X: float64(size[0]), Y: float64(size[1]) / 2, Label: Foreground}
		found, err := encoding.Click(t.Context(), ClickPrompt{Points: []Point{at}})
		require.NoError(t, err)
		require.Equal(t, image.Rect(0, 0, size[0], size[1]), found[0].Mask.Rect)
		encoding.Close()
	}
}

func TestEncodeRefuses(t *testing.T) {
	model := smallModel(t)
	for name, img := range map[string]image.Image{
		"none": nil, "nil pointer": (*image.NRGBA)(nil), "empty": image.NewGray(image.Rect(0, 0, 0, 5)),
		"short":   &image.NRGBA{Pix: make([]byte, 3), Stride: 40, Rect: image.Rect(0, 0, 10, 10)},
		"endless": image.NewUniform(color.White),
	} {
		_, err := model.Encode(t.Context(), img)
		require.ErrorIs(t, err, ErrInput, name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := model.Encode(ctx, picture(4, 4))
	require.ErrorIs(t, err, context.Canceled)
}

// TestEncodeAtOnce encodes pictures from several goroutines while clicks go on.
func TestEncodeAtOnce(t *testing.T) {
	model := smallModel(t)
	prompt := ClickPrompt{Points: []Point{{X: 2, Y: 3, Label: Foreground}}, All: true}
	answer := func(size int) ([]Object, error) {
		encoding, err := model.Encode(t.Context(), picture(size, size))
		if err != nil {
			return nil, err
		}
		defer encoding.Close()
		return encoding.Click(t.Context(), prompt)
	}
	var alone, together [6][]Object
	var errs [6]error
	for i := range alone {
		alone[i], errs[i] = answer(8 + i)
		require.NoError(t, errs[i])
	}
	var group sync.WaitGroup
	for i := range together {
		group.Go(func() { together[i], errs[i] = answer(8 + i) })
	}
	group.Wait()
	for i := range together {
		require.NoError(t, errs[i])
	}
	require.Equal(t, alone, together)
}
