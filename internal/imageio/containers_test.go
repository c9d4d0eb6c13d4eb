// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package imageio

import (
	"encoding/base64"
	"image"
	"image/color"
	"testing"

	"github.com/stretchr/testify/require"
)

// Files of 16 x 16 pixels, made with Pillow.
const (
	// The colour (200, 30, 10), compressed with loss, opaque and with alpha 255 in the middle 8 x 8 pixels.
	lossyWebP = "UklGRjoAAABXRUJQVlA4IC4AAADQAQCdASoQABAAAUAmJaACdLoB+AADsAD+8iJf/KVeCxu5n/72C+7Bfdgv9bAA"
	alphaWebP = "UklGRmwAAABXRUJQVlA4WAoAAAAQAAAADwAADwAAQUxQSBgAAAABDzD/ERGCINtmBvO3vMRyhYj+TwA5HxJWUDggLgAAANABAJ0BKhAAEAABQCYloAJ0ug" +
		"H4AAOwAP7yIl/8pV4LG7mf/vYL7sF92C/1sAA="
	// White in the middle 8 x 8 pixels, fax compression, 0 is black.
	faxTIFF = "SUkqABIAAADzYv///j4AIAIACQAAAQMAAQAAABAAAAABAQMAAQAAABAAAAACAQMAAQAAAAEAAAADAQMAAQAAAAQAAAAGAQMAAQAAAAEAAAARAQQAAQ" +
		"AAAAgAAAAWAQMAAQAAABAAAAAXAQQAAQAAAAkAAAAcAQMAAQAAAAEAAAAAAAAA"
)

func base64File(t testing.TB, text string) []byte {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(text)
	require.NoError(t, err)
	return data
}

// The colours of a WebP with loss are those that were stored, and hidden ones are kept.
func TestWebPColours(t *testing.T) {
	for _, text := range []string{lossyWebP, alphaWebP} {
		img := decodeNRGBA(t, base64File(t, text))
		for i := range 256 {
			for c, want := range []float64{200, 30, 10} {
				require.InDelta(t, want, img.Pix[4*i+c], 4, "channel %d of pixel %d", c, i)
			}
		}
	}
	alpha := decodeNRGBA(t, base64File(t, alphaWebP))
	require.Equal(t, uint8(0), alpha.NRGBAAt(3, 3).A)
	require.Equal(t, uint8(255), alpha.NRGBAAt(4, 4).A)
	mask := decodeMask(t, base64File(t, alphaWebP), MaskOptions{})
	require.Equal(t, 64, count(mask, 255))
	require.Equal(t, 64, count(mask, 1))
	require.Equal(t, 256, count(decodeMask(t, base64File(t, lossyWebP), MaskOptions{}), 255))
	for _, gray := range []struct{ luma, want uint8 }{{0, 0}, {16, 0}, {126, 128}, {235, 255}, {255, 255}} {
		r, g, b := videoRGB(gray.luma, 128, 128)
		require.Equal(t, [3]uint8{gray.want, gray.want, gray.want}, [3]uint8{r, g, b})
	}
}

// A mask in fax compression is not inverted.
func TestFaxTIFF(t *testing.T) {
	mask := decodeMask(t, base64File(t, faxTIFF), MaskOptions{})
	require.Equal(t, image.Rect(0, 0, 16, 16), mask.Rect)
	require.Equal(t, 64, count(mask, 255))
	require.Equal(t, color.Gray{255}, mask.GrayAt(8, 8))
}
