// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package imageio

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/jpeg"
	"io"
	"iter"

	"golang.org/x/image/tiff"
	"golang.org/x/image/webp"
)

// The first bytes of TIFF structures.
var tiffLittle, tiffBig = []byte("II*\x00"), []byte("MM\x00*")

func isTIFF(data []byte) bool {
	return bytes.HasPrefix(data, tiffLittle) || bytes.HasPrefix(data, tiffBig)
}

// pngChunk is a chunk of a PNG file: whole has its length, name and checksum too.
type pngChunk struct {
	name        string
	body, whole []byte
}

// pngSignature is the number of bytes before the first chunk.
const pngSignature = 8

// pngChunks lists the chunks. It ends at the first that is cut off.
func pngChunks(data []byte) iter.Seq[pngChunk] {
	return func(yield func(pngChunk) bool) {
		const around = 12 // length, name and checksum
		for at := pngSignature; at+around <= len(data); {
			size := binary.BigEndian.Uint32(data[at:])
			if uint64(size) > uint64(len(data)-at-around) {
				return
			}
			whole := data[at:][:around+int(size)]
			if !yield(pngChunk{string(whole[4:8]), whole[8:][:size], whole}) {
				return
			}
			at += len(whole)
		}
	}
}

// pngPixels reads a PNG file without what does not change its pixels, so that damage there does no harm. (A chunk whose
// name starts with a small letter may be skipped; transparency is the only such chunk that changes pixels.)
func pngPixels(data []byte) io.Reader {
	parts := []io.Reader{bytes.NewReader(data[:min(pngSignature, len(data))])}
	at := pngSignature
	for chunk := range pngChunks(data) {
		if chunk.name[0]&0x20 == 0 || chunk.name == "tRNS" {
			parts = append(parts, bytes.NewReader(chunk.whole))
		}
		at += len(chunk.whole)
	}
	if at < len(data) { // a chunk that is cut off: the decoder tells what is missing
		parts = append(parts, bytes.NewReader(data[at:]))
	}
	return io.MultiReader(parts...)
}

// decodeTIFF decodes a TIFF. The decoder takes black runs of fax compression for black whatever the file says of its
// bits; where 0 is black they are white.
func decodeTIFF(data []byte) (image.Image, error) {
	const compressionTag, photometricTag, fax3, fax4, blackIsZero = 0x0103, 0x0106, 3, 4, 1
	img, err := tiff.Decode(bytes.NewReader(data))
	compression, _ := tiffShort(data, compressionTag)
	photometric, known := tiffShort(data, photometricTag)
	fax := (compression == fax3 || compression == fax4) && known && photometric == blackIsZero
	if grey, ok := img.(*image.Gray); ok && fax {
		for i, v := range grey.Pix {
			grey.Pix[i] = 255 - v
		}
	}
	return img, err
}

// decodeWebP decodes a WebP and tells whether it was compressed with loss. Then its brightness is 16 to 235 and its
// chroma 16 to 240 (ITU-R BT.601), which the decoder hands on as if the ranges were full.
func decodeWebP(data []byte) (img image.Image, lossy bool, err error) {
	img, err = webp.Decode(bytes.NewReader(data))
	var ycc *image.YCbCr
	var alpha func(x, y int) uint8
	switch m := img.(type) {
	case *image.YCbCr:
		ycc, alpha = m, func(int, int) uint8 { return 255 }
	case *image.NYCbCrA:
		ycc, alpha = &m.YCbCr, func(x, y int) uint8 { return m.A[m.AOffset(x, y)] }
	default:
		return img, false, err
	}
	out := image.NewNRGBA(ycc.Rect)
	ForRows(ycc.Rect.Dy(), rowsPerTask, func(lo, hi int) {
		for y := lo; y < hi; y++ {
			to := row(out, y)
			for x := range ycc.Rect.Dx() {
				c := ycc.COffset(x, y)
				r, g, b := videoRGB(ycc.Y[ycc.YOffset(x, y)], ycc.Cb[c], ycc.Cr[c])
				to[4*x], to[4*x+1], to[4*x+2], to[4*x+3] = r, g, b, alpha(x, y)
			}
		}
	})
	return out, true, nil
}

// videoRGB converts from BT.601's studio ranges.
func videoRGB(luma, blue, red uint8) (r, g, b uint8) {
	const (
		gain      = 255. / 219
		redRed    = 1.402 * 255 / 224
		blueBlue  = 1.772 * 255 / 224
		greenRed  = redRed * 0.299 / 0.587
		greenBlue = blueBlue * 0.114 / 0.587
	)
	y, u, v := (float32(luma)-16)*gain+0.5, float32(blue)-128, float32(red)-128
	clip := func(v float32) uint8 { return uint8(min(max(v, 0), 255)) }
	return clip(y + redRed*v), clip(y - greenBlue*u - greenRed*v), clip(y + blueBlue*u)
}

// Markers of JPEG segments.
const (
	markerSOF0, markerSOF2  = 0xc0, 0xc2
	markerEOI, markerSOS    = 0xd9, 0xda
	markerAPP1, markerAPP14 = 0xe1, 0xee
)

// maxScans is the number of passes over its pixels that a JPEG may make; cameras and programs make 1 to 20.
const maxScans = 300

// jpegSegments lists the segments before the compressed data: their markers and what they hold.
func jpegSegments(data []byte) iter.Seq2[byte, []byte] {
	return func(yield func(byte, []byte) bool) {
		for at := 2; at+4 <= len(data) && data[at] == 0xff; {
			marker := data[at+1]
			if marker == 0xff { // a fill byte
				at++
				continue
			}
			if marker == markerSOS || marker == markerEOI {
				return
			}
			end := at + 2 + int(binary.BigEndian.Uint16(data[at+2:]))
			if end < at+4 || end > len(data) || !yield(marker, data[at+4:end]) {
				return
			}
			at = end
		}
	}
}

// decodeJPEG decodes a JPEG. Without Adobe's segment, the four channels of a picture are inks as they are; the decoder
// knows only Adobe's, which are inverted.
func decodeJPEG(data []byte) (image.Image, error) {
	if scans := bytes.Count(data, []byte{0xff, markerSOS}); scans > maxScans {
		return nil, fmt.Errorf("%w: %d scans, the limit is %d", ErrTooLarge, scans, maxScans)
	}
	if !plainInks(data) {
		return jpeg.Decode(bytes.NewReader(data))
	}
	adobe := []byte("\xff\xd8\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00\x00")
	img, err := jpeg.Decode(io.MultiReader(bytes.NewReader(adobe), bytes.NewReader(data[2:])))
	if m, ok := img.(*image.CMYK); ok {
		for i, v := range m.Pix {
			m.Pix[i] = 255 - v
		}
	}
	return img, err
}

// plainInks reports whether a JPEG has four channels and no segment of Adobe's.
func plainInks(data []byte) (four bool) {
	for marker, body := range jpegSegments(data) {
		switch {
		case marker == markerAPP14 && bytes.HasPrefix(body, []byte("Adobe")):
			return false
		case marker >= markerSOF0 && marker <= markerSOF2 && len(body) > 5:
			four = body[5] == 4
		}
	}
	return four
}
