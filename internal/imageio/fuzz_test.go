// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package imageio

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"
)

func FuzzOrientation(f *testing.F) {
	exif := exifData(binary.BigEndian, 8)
	f.Add(withExif(encodeJPEG(f, quarters(8, 8), 50), exif))
	f.Add(withChunk(encodePNG(f, quarters(8, 8)), exif))
	f.Add(exif)
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, format := range []string{"jpeg", "png", "webp", "tiff", "gif"} {
			if o := orientation(data, format); o < 1 || o > 8 {
				t.Errorf("orientation %d", o)
			}
		}
	})
}

// pictureFiles are small files of every format, for the fuzzer.
func pictureFiles(t testing.TB) [][]byte {
	exif := exifData(binary.LittleEndian, 6)
	img := quarters(8, 8)
	files := [][]byte{
		withExif(encodeJPEG(t, img, 50), exif), cmykJPEG(color.CMYK{K: 9}), progressiveJPEG(),
		withChunk(encodePNG(t, img), exif), palettePNG(t), pngFile(t, 9, 1, 1, 0, []byte{0, 0xaa, 0x80}),
	}
	for _, m := range pictures(5, 3) {
		files = append(files, encodePNG(t, m))
	}
	for _, encode := range []func(io.Writer) error{
		func(w io.Writer) error {
			return tiff.Encode(w, img, &tiff.Options{Compression: tiff.Deflate, Predictor: true})
		},
		func(w io.Writer) error { return tiff.Encode(w, image.NewGray16(img.Rect), nil) },
		func(w io.Writer) error { return bmp.Encode(w, img) },
		func(w io.Writer) error { return gif.Encode(w, img, nil) },
	} {
		var b bytes.Buffer
		require.NoError(t, encode(&b))
		files = append(files, b.Bytes())
	}
	for _, text := range append(webpFiles, lossyWebP, alphaWebP, faxTIFF) {
		files = append(files, base64File(t, text))
	}
	return files
}

// withChecksums corrects the checksums of a PNG, which a fuzzer does not find.
func withChecksums(data []byte) []byte {
	data = bytes.Clone(data)
	for chunk := range pngChunks(data) {
		end := len(chunk.whole) - 4
		binary.BigEndian.PutUint32(chunk.whole[end:], crc32.ChecksumIEEE(chunk.whole[4:end]))
	}
	return data
}

// FuzzDecode reads anything as a picture and as a mask. Whatever can be decoded has as many pixels as are allowed.
func FuzzDecode(f *testing.F) {
	for _, data := range pictureFiles(f) {
		f.Add(data)
	}
	const limit = 1 << 14
	f.Fuzz(func(t *testing.T, data []byte) {
		if bytes.HasPrefix(data, []byte("\x89PNG")) {
			data = withChecksums(data)
		}
		img, _, err := Decode(bytes.NewReader(data), limit)
		mask, maskErr := DecodeMask(bytes.NewReader(data), MaskOptions{MaxPixels: limit})
		if (err == nil) != (maskErr == nil) {
			t.Fatalf("picture: %v; mask: %v", err, maskErr)
		}
		if err != nil {
			return
		}
		pixels, err := NRGBA(img)
		if err != nil {
			t.Fatal(err)
		}
		if size := pixels.Rect.Size(); size.X*size.Y > limit || size != mask.Rect.Size() || len(mask.Pix) != size.X*size.Y {
			t.Fatalf("picture %v, mask %v", pixels.Rect, mask.Rect)
		}
		if _, err := DecodeMask(bytes.NewReader(data), MaskOptions{NonZero: true}); err != nil {
			t.Fatal(err)
		}
	})
}
