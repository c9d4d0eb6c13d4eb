// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package imageio

import (
	"bytes"
	"encoding/binary"
	"image"
)

// orientation returns the EXIF orientation (1..8) of an encoded picture: 1, upright, unless the data says otherwise in
// a form that can be understood.
func orientation(data []byte, format string) int {
	switch format {
	case "jpeg":
		return tiffOrientation(jpegExif(data))
	case "png":
		return tiffOrientation(pngExif(data))
	case "webp":
		return tiffOrientation(webpExif(data))
	case "tiff":
		return tiffOrientation(data)
	}
	return 1
}

var exifPrefix = []byte("Exif\x00\x00")

// jpegExif returns the TIFF structure inside the first Exif segment, or nil.
func jpegExif(data []byte) []byte {
	for marker, body := range jpegSegments(data) {
		if exif, ok := bytes.CutPrefix(body, exifPrefix); ok && marker == markerAPP1 {
			return exif
		}
	}
	return nil
}

// pngExif returns the content of the eXIf chunk, or nil.
func pngExif(data []byte) []byte {
	for chunk := range pngChunks(data) {
		if chunk.name == "eXIf" {
			return chunk.body
		}
	}
	return nil
}

// webpExif returns the content of the EXIF chunk, or nil.
func webpExif(data []byte) []byte {
	for at := 12; at+8 <= len(data); {
		size := binary.LittleEndian.Uint32(data[at+4:])
		if uint64(size) > uint64(len(data)-at-8) {
			return nil
		}
		body := data[at+8:][:size]
		if string(data[at:at+4]) == "EXIF" {
			return bytes.TrimPrefix(body, exifPrefix)
		}
		at += 8 + int(size) + int(size&1)
	}
	return nil
}

// tiffOrientation reads the orientation tag of a TIFF structure.
func tiffOrientation(data []byte) int {
	const orientationTag = 0x0112
	value, ok := tiffShort(data, orientationTag)
	if !ok || value < 1 || value > 8 {
		return 1
	}
	return value
}

// tiffShort reads a tag that is one number of 16 bits in a TIFF structure's first directory.
func tiffShort(data []byte, tag uint16) (value int, ok bool) {
	const shortType, entryBytes = 3, 12
	if len(data) < 8 || !isTIFF(data) {
		return 0, false
	}
	var order binary.ByteOrder = binary.LittleEndian
	if bytes.HasPrefix(data, tiffBig) {
		order = binary.BigEndian
	}
	at := uint64(order.Uint32(data[4:]))
	if at+2 > uint64(len(data)) {
		return 0, false
	}
	entries := data[at+2:]
	count := int(order.Uint16(data[at:]))
	for i := range min(count, len(entries)/entryBytes) {
		entry := entries[i*entryBytes:]
		if order.Uint16(entry) == tag {
			return int(order.Uint16(entry[8:])), order.Uint16(entry[2:]) == shortType && order.Uint32(entry[4:]) == 1
		}
	}
	return 0, false
}

// upright undoes an EXIF orientation. Grey and palette pictures stay what they are; others become NRGBA.
func upright(img image.Image, orientation int) (image.Image, error) {
	if orientation == 1 {
		return img, nil
	}
	b := img.Bounds()
	bounds := image.Rect(0, 0, b.Dx(), b.Dy())
	if orientation >= 5 {
		bounds = image.Rect(0, 0, b.Dy(), b.Dx())
	}
	switch m := img.(type) {
	case *image.Gray:
		out := image.NewGray(bounds)
		turn(out.Pix, m.Pix[m.PixOffset(b.Min.X, b.Min.Y):], b.Dx(), b.Dy(), m.Stride, 1, orientation)
		return out, nil
	case *image.Gray16:
		out := image.NewGray16(bounds)
		turn(out.Pix, m.Pix[m.PixOffset(b.Min.X, b.Min.Y):], b.Dx(), b.Dy(), m.Stride, 2, orientation)
		return out, nil
	case *image.Paletted:
		out := image.NewPaletted(bounds, m.Palette)
		turn(out.Pix, m.Pix[m.PixOffset(b.Min.X, b.Min.Y):], b.Dx(), b.Dy(), m.Stride, 1, orientation)
		return out, nil
	}
	m, err := NRGBA(img)
	if err != nil {
		return nil, err
	}
	out := image.NewNRGBA(bounds)
	turn(out.Pix, m.Pix, b.Dx(), b.Dy(), m.Stride, 4, orientation)
	return out, nil
}

// turn copies a width x height picture of size-byte pixels to the dense dst so that it stands upright.
func turn(dst, src []uint8, width, height, stride, size, orientation int) {
	outWidth, outHeight := width, height
	if orientation >= 5 {
		outWidth, outHeight = height, width
	}
	ForRows(outHeight, rowsPerTask, func(lo, hi int) {
		for y := lo; y < hi; y++ {
			for x := range outWidth {
				u, v := stored(x, y, width, height, orientation)
				at := (y*outWidth + x) * size
				copy(dst[at:at+size], src[v*stride+u*size:])
			}
		}
	})
}

// stored returns where the pixel at (x, y) of the upright picture is in the stored one, which is width x height.
func stored(x, y, width, height, orientation int) (u, v int) {
	switch orientation {
	case 2: // mirrored left to right
		return width - 1 - x, y
	case 3: // upside down
		return width - 1 - x, height - 1 - y
	case 4: // mirrored top to bottom
		return x, height - 1 - y
	case 5: // mirrored about the falling diagonal
		return y, x
	case 6: // to be turned clockwise
		return y, height - 1 - x
	case 7: // mirrored about the rising diagonal
		return width - 1 - y, height - 1 - x
	case 8: // to be turned anticlockwise
		return width - 1 - y, x
	}
	return x, y
}
