// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package imageio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"io"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tests of this file are the faults C4 to C11 and C37 of other programs for this task, one test each; those that
// need more than pictures are in package sam3d.

// object is where the masks of these tests are set: 20 x 12 pixels of 48 x 32.
var object = image.Rect(14, 10, 34, 22)

// painted returns a picture of two colours.
func painted(inside, outside color.Color) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, 48, 32))
	for y := range 32 {
		for x := range 48 {
			if image.Pt(x, y).In(object) {
				img.Set(x, y, inside)
			} else {
				img.Set(x, y, outside)
			}
		}
	}
	return img
}

// asPalette returns a picture of two colours as indices.
func asPalette(img image.Image, palette ...color.Color) *image.Paletted {
	out := image.NewPaletted(img.Bounds(), palette)
	for y := range 32 {
		for x := range 48 {
			out.Set(x, y, img.At(x, y))
		}
	}
	return out
}

// count returns the number of mask pixels of at least a value.
func count(mask *image.Gray, least uint8) (n int) {
	for _, v := range mask.Pix {
		if v >= least {
			n++
		}
	}
	return n
}

func decodeMask(t *testing.T, data []byte, o MaskOptions) *image.Gray {
	t.Helper()
	mask, err := DecodeMask(bytes.NewReader(data), o)
	require.NoError(t, err)
	return mask
}

// requireObject checks that a mask is 255 in the object and 0 elsewhere.
func requireObject(t *testing.T, mask *image.Gray, msg string) {
	t.Helper()
	require.Equal(t, image.Rect(0, 0, 48, 32), mask.Rect, msg)
	for y := range 32 {
		for x := range 48 {
			var want uint8
			if image.Pt(x, y).In(object) {
				want = 255
			}
			require.Equal(t, want, mask.GrayAt(x, y).Y, "%s: pixel %d, %d", msg, x, y)
		}
	}
}

// C4: the original reads the last channel, so that red paint is nothing and an opaque picture is everything.
func TestC4PaintedMasks(t *testing.T) {
	black, white := color.NRGBA{A: 255}, color.NRGBA{255, 255, 255, 255}
	for name, img := range map[string]image.Image{
		"red":                 painted(color.NRGBA{255, 0, 0, 255}, black),
		"dark red":            painted(color.NRGBA{100, 0, 0, 255}, black),
		"blue":                painted(color.NRGBA{0, 0, 255, 255}, black),
		"white, opaque RGBA":  painted(white, black),
		"translucent RGBA":    painted(color.NRGBA{255, 255, 255, 90}, color.NRGBA{0, 0, 0, 90}),
		"black where visible": painted(black, color.NRGBA{}),
		"white where hidden":  painted(white, color.NRGBA{255, 255, 255, 0}),
	} {
		requireObject(t, decodeMask(t, encodePNG(t, img), MaskOptions{}), name)
	}
	// Every colour counts, also dark ones next to light ones.
	img := painted(color.NRGBA{255, 0, 0, 255}, black)
	for x := object.Min.X; x < object.Max.X; x++ {
		img.Set(x, object.Min.Y, color.NRGBA{0, 40, 0, 255})
	}
	requireObject(t, decodeMask(t, encodePNG(t, img), MaskOptions{}), "labels in colour")
	// Grey edges stay soft.
	soft := painted(white, black)
	soft.Set(object.Min.X, object.Min.Y, color.Gray{77})
	require.Equal(t, uint8(77), decodeMask(t, encodePNG(t, soft), MaskOptions{}).GrayAt(object.Min.X, object.Min.Y).Y)
}

// C5: compression spreads a mask over its surroundings.
func TestC5MaskJPEG(t *testing.T) {
	data := encodeJPEG(t, painted(color.White, color.Black), 60)
	requireObject(t, decodeMask(t, data, MaskOptions{}), "half brightness")
	require.Greater(t, count(decodeMask(t, data, MaskOptions{NonZero: true}), 255), object.Dx()*object.Dy())
	// Turning the picture does not change what counts.
	turned := withExif(encodeJPEG(t, storedAs(painted(color.White, color.Black), 6), 60), exifData(binary.LittleEndian, 6))
	requireObject(t, decodeMask(t, turned, MaskOptions{}), "turned")
}

// C6: 16 bits are scaled, not cut: 1000 is not 232, and 65280 is not 0.
func TestC6SixteenBits(t *testing.T) {
	grey := func(inside, outside uint16) image.Image {
		img := image.NewGray16(image.Rect(0, 0, 48, 32))
		for y := range 32 {
			for x := range 48 {
				img.SetGray16(x, y, color.Gray16{outside})
				if image.Pt(x, y).In(object) {
					img.SetGray16(x, y, color.Gray16{inside})
				}
			}
		}
		return img
	}
	picture := decodeNRGBA(t, encodePNG(t, grey(1000, 65280)))
	require.Equal(t, color.NRGBA{4, 4, 4, 255}, picture.NRGBAAt(20, 15))
	require.Equal(t, color.NRGBA{254, 254, 254, 255}, picture.NRGBAAt(0, 0))
	require.Equal(t, object.Dx()*object.Dy(), count(decodeMask(t, encodePNG(t, grey(65280, 0)), MaskOptions{}), 254))
	requireObject(t, decodeMask(t, encodePNG(t, grey(65535, 0)), MaskOptions{}), "white")
	// A single value, however small, is the object.
	for _, v := range []uint16{1, 100, 255, 256, 32767} {
		requireObject(t, decodeMask(t, encodePNG(t, grey(v, 0)), MaskOptions{}), "one value")
	}
	require.Zero(t, count(decodeMask(t, encodePNG(t, grey(2, 1)), MaskOptions{}), 1))

	colour := image.NewNRGBA64(image.Rect(0, 0, 1, 1))
	colour.SetNRGBA64(0, 0, color.NRGBA64{1000, 65280, 65535, 0x8080})
	require.Equal(t, []uint8{4, 254, 255, 128}, decodeNRGBA(t, encodePNG(t, colour)).Pix)
}

// C7: the inks of a CMYK JPEG are not red, green and blue. Only Adobe's are stored inverted.
func TestC7CMYK(t *testing.T) {
	red := color.CMYK{M: 217, Y: 242, K: 55}
	plain := func(data []byte) []byte { // without Adobe's segment
		return append([]byte{0xff, 0xd8}, data[2+2+14:]...)
	}
	for name, data := range map[string][]byte{
		"Adobe":       cmykJPEG(red),
		"not inverse": plain(cmykJPEG(color.CMYK{C: 255, M: 255 - red.M, Y: 255 - red.Y, K: 255 - red.K})),
	} {
		got := decodeNRGBA(t, data)
		for c, want := range []float64{200, 30, 10, 255} {
			require.InDelta(t, want, got.Pix[c], 2, name)
		}
	}
}

// C8: grey, palette and grey-alpha pictures are not arrays of three channels.
func TestC8GreyAndPalette(t *testing.T) {
	white, black := color.NRGBA{255, 255, 255, 255}, color.NRGBA{A: 255}
	img := painted(white, black)
	grey := image.NewGray(img.Rect)
	for i := range grey.Pix {
		grey.Pix[i] = img.Pix[4*i]
	}
	inverse := painted(black, white)
	for name, m := range map[string]image.Image{
		"grey": grey, "palette, black is 0": asPalette(img, black, white),
	} {
		data := encodePNG(t, m)
		require.Equal(t, img.Pix, decodeNRGBA(t, data).Pix, name)
		requireObject(t, decodeMask(t, data, MaskOptions{}), name)
	}
	// Indices count in a palette, whatever their colours: white may be the background.
	data := encodePNG(t, asPalette(inverse, white, black))
	require.Equal(t, inverse.Pix, decodeNRGBA(t, data).Pix)
	requireObject(t, decodeMask(t, data, MaskOptions{}), "palette, white is 0")
	labels := asPalette(painted(color.NRGBA{0, 0, 90, 255}, black), black, color.NRGBA{0, 0, 90, 255})
	requireObject(t, decodeMask(t, encodePNG(t, labels), MaskOptions{}), "palette of labels")

	// Grey with alpha: the alpha is the mask, the grey is the picture.
	withAlpha := greyAlphaPNG(t)
	require.Equal(t, color.NRGBA{60, 60, 60, 255}, decodeNRGBA(t, withAlpha).NRGBAAt(20, 15))
	require.Equal(t, color.NRGBA{200, 200, 200, 0}, decodeNRGBA(t, withAlpha).NRGBAAt(0, 0))
	requireObject(t, decodeMask(t, withAlpha, MaskOptions{}), "grey and alpha")
}

// greyAlphaPNG is a PNG of grey and alpha, which the standard library does not write: 60 in the object, 200 under
// transparent pixels.
func greyAlphaPNG(t *testing.T) []byte {
	raw := make([]byte, 0, 32*(1+2*48))
	for y := range 32 {
		raw = append(raw, 0)
		for x := range 48 {
			if image.Pt(x, y).In(object) {
				raw = append(raw, 60, 255)
			} else {
				raw = append(raw, 200, 0)
			}
		}
	}
	return pngFile(t, 48, 32, 8, 4, raw)
}

// C9: cameras store portraits lying on their side. Damaged EXIF data are ignored, not fatal.
func TestC9Orientation(t *testing.T) {
	upright := quarters(32, 64)
	jpeg := withExif(encodeJPEG(t, storedAs(upright, 6), 95), exifData(binary.BigEndian, 6))
	requireClose(t, upright, decodeNRGBA(t, jpeg), 20)
	// A chunk whose content, or whose checksum, is wrong.
	data := encodePNG(t, upright)
	for _, exif := range [][]byte{[]byte("no structure"), {}} {
		require.Equal(t, upright.Pix, decodeNRGBA(t, withChunk(data, exif)).Pix)
	}
	damaged := withChunk(data, exifData(binary.BigEndian, 1))
	damaged[8+25+8] ^= 0xff
	require.Equal(t, upright.Pix, decodeNRGBA(t, damaged).Pix)
	// A damaged chunk of pixels is fatal.
	damaged = bytes.Clone(data)
	damaged[bytes.Index(data, []byte("IDAT"))+6] ^= 0xff
	_, _, err := Decode(bytes.NewReader(damaged), 0)
	require.Error(t, err)
	// Grey of 16 bits stays so.
	img, _, err := Decode(bytes.NewReader(withChunk(encodePNG(t, image.NewGray16(image.Rect(0, 0, 3, 2))), exifData(binary.BigEndian, 6))), 0)
	require.NoError(t, err)
	require.IsType(t, &image.Gray16{}, img)
	require.Equal(t, image.Rect(0, 0, 2, 3), img.Bounds())
}

// C10: colours under transparent pixels are part of the scene.
func TestC10HiddenColours(t *testing.T) {
	img := painted(color.NRGBA{200, 30, 10, 255}, color.NRGBA{200, 30, 10, 0})
	img.Set(1, 1, color.NRGBA{9, 90, 250, 3})
	require.Equal(t, img.Pix, decodeNRGBA(t, encodePNG(t, img)).Pix)
	require.Equal(t, []uint8{200, 30, 10, 0, 1, 2, 3, 255}, decodeNRGBA(t, palettePNG(t)).Pix)
	wide := image.NewNRGBA64(image.Rect(0, 0, 1, 1))
	wide.SetNRGBA64(0, 0, color.NRGBA64{200 * 257, 30 * 257, 10 * 257, 0})
	require.Equal(t, []uint8{200, 30, 10, 0}, decodeNRGBA(t, encodePNG(t, wide)).Pix)
}

// palettePNG is a PNG of two palette pixels, the first one transparent, which the standard library would write black.
func palettePNG(t testing.TB) []byte {
	file := pngFile(t, 2, 1, 8, 3, []byte{0, 0, 1})
	head := bytes.Clone(file[:8+25])
	head = append(head, pngPart("PLTE", []byte{200, 30, 10, 1, 2, 3})...)
	head = append(head, pngPart("tRNS", []byte{0})...)
	return append(head, file[8+25:]...)
}

// C11: masks of 0 and 1 are not almost black.
func TestC11ZeroAndOne(t *testing.T) {
	grey := image.NewGray(image.Rect(0, 0, 48, 32))
	for y := object.Min.Y; y < object.Max.Y; y++ {
		for x := object.Min.X; x < object.Max.X; x++ {
			grey.SetGray(x, y, color.Gray{1})
		}
	}
	requireObject(t, decodeMask(t, encodePNG(t, grey), MaskOptions{}), "grey")
	requireObject(t, decodeMask(t, encodePNG(t, painted(color.NRGBA{1, 1, 1, 255}, color.NRGBA{A: 255})), MaskOptions{}), "RGB")
	requireObject(t, decodeMask(t, encodePNG(t, painted(color.NRGBA{A: 1}, color.NRGBA{})), MaskOptions{}), "alpha")
	alpha, found := Alpha(painted(color.NRGBA{A: 1}, color.NRGBA{}))
	require.True(t, found)
	requireObject(t, alpha, "alpha of the picture")
	// One bit a pixel.
	bits := make([]byte, 0, 32*7)
	for y := range 32 {
		line := make([]byte, 1+6)
		for x := range 48 {
			if image.Pt(x, y).In(object) {
				line[1+x/8] |= 0x80 >> (x % 8)
			}
		}
		bits = append(bits, line...)
	}
	requireObject(t, decodeMask(t, pngFile(t, 48, 32, 1, 0, bits), MaskOptions{}), "one bit")
}

// endless is a file that never ends.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return len(p), nil
}

// C37: a header costs neither memory nor reading.
func TestC37HugeHeader(t *testing.T) {
	header := encodePNG(t, image.NewGray(image.Rect(0, 0, 1, 1)))[:8+25]
	binary.BigEndian.PutUint32(header[16:], 30000)
	binary.BigEndian.PutUint32(header[20:], 30000)
	header[24] = 1 // one bit a pixel
	binary.BigEndian.PutUint32(header[29:], crc32.ChecksumIEEE(header[12:29]))
	rest := &endless{}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err := Decode(io.MultiReader(bytes.NewReader(header), rest), 0)
	require.ErrorIs(t, err, ErrTooLarge)
	require.ErrorContains(t, err, "30000x30000")
	_, err = DecodeMask(io.MultiReader(bytes.NewReader(header), rest), MaskOptions{})
	require.ErrorIs(t, err, ErrTooLarge)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
	require.Less(t, rest.read, 1<<16)

	// The limit is an option, and so is how much is read of a small picture.
	_, _, err = Decode(bytes.NewReader(encodePNG(t, quarters(20, 20))), 399)
	require.ErrorIs(t, err, ErrTooLarge)
	require.Equal(t, maxExtraBytes+8*400, fileLimit(400))
	require.Equal(t, maxFileBytes, fileLimit(1<<30))
}

// A JPEG may ask for any number of passes over its pixels.
func TestScans(t *testing.T) {
	data := encodeJPEG(t, quarters(16, 16), 90)
	data = append(data[:len(data)-2], bytes.Repeat([]byte{0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0}, maxScans)...)
	_, _, err := Decode(bytes.NewReader(data), 0)
	require.ErrorIs(t, err, ErrTooLarge)
}

// Errors of the reader are told from those of the data.
func TestReaderFails(t *testing.T) {
	broken := errors.New("broken line")
	data := encodePNG(t, quarters(64, 64))
	for _, n := range []int{0, 3, 20, 100, len(data)} {
		_, _, err := Decode(io.MultiReader(bytes.NewReader(data[:n]), failing{broken}), 0)
		require.Error(t, err)
		if n >= 100 || n < 4 {
			require.ErrorIs(t, err, broken, "%d", n)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// Phones store HEIC, which is named in the error.
func TestHEIC(t *testing.T) {
	_, _, err := Decode(bytes.NewReader([]byte("\x00\x00\x00\x18ftypheic\x00\x00\x00\x00")), 0)
	require.ErrorIs(t, err, image.ErrFormat)
	require.ErrorContains(t, err, "HEIC")
}

func TestFitMask(t *testing.T) {
	mask := decodeMask(t, encodePNG(t, painted(color.White, color.Black)), MaskOptions{})
	same, err := FitMask(mask, 48, 32)
	require.NoError(t, err)
	require.Same(t, mask, same)
	double, err := FitMask(mask, 96, 64)
	require.NoError(t, err)
	for y := range 64 {
		for x := range 96 {
			require.Equal(t, mask.GrayAt(x/2, y/2), double.GrayAt(x, y))
		}
	}
	_, err = FitMask(mask, 0, 5)
	require.ErrorIs(t, err, ErrEmpty)
	_, err = FitMask(mask, 1<<30, 1<<30)
	require.ErrorIs(t, err, ErrTooLarge)
}

// progressive JPEGs are decoded; the standard library writes none, so this is one of 16 x 16 pixels in grey.
func TestProgressiveJPEG(t *testing.T) {
	img, err := jpeg.Decode(bytes.NewReader(progressiveJPEG()))
	require.NoError(t, err)
	require.IsType(t, &image.Gray{}, img)
	got := decodeNRGBA(t, progressiveJPEG())
	require.Equal(t, image.Rect(0, 0, 8, 8), got.Rect)
	require.Equal(t, color.NRGBA{168, 168, 168, 255}, got.NRGBAAt(3, 3))
}

// progressiveJPEG is a plain block in two scans: its mean without the lowest bit, and then that bit.
func progressiveJPEG() []byte {
	b := []byte{0xff, 0xd8}
	segment := func(marker byte, body ...byte) {
		b = append(b, 0xff, marker, 0, byte(len(body)+2))
		b = append(b, body...)
	}
	segment(0xdb, append([]byte{0}, bytes.Repeat([]byte{1}, 64)...)...)
	segment(0xc2, 8, 0, 8, 0, 8, 1, 1, 0x11, 0)
	segment(0xc4, append(append([]byte{0}, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)...)
	// The mean is 8 * (168 - 128) = 320: first 160, of 8 bits.
	segment(0xda, 1, 1, 0, 0, 0, 0x01)
	b = append(b, 0b1000_1010, 0b0000_1111) // the code of size 8, then 160
	segment(0xda, 1, 1, 0, 0, 0, 0x10)
	b = append(b, 0b0111_1111) // the lowest bit is 0
	return append(b, 0xff, 0xd9)
}
