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
