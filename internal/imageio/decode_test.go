// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package imageio

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"
)

// quarters returns a picture of four plain rectangles, so that its orientation shows. If their sides are multiples of
// 16, JPEG hardly changes it.
func quarters(width, height int) *image.NRGBA {
	colors := [4]color.NRGBA{{250, 20, 20, 255}, {20, 250, 20, 255}, {20, 20, 250, 255}, {240, 240, 240, 255}}
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			img.SetNRGBA(x, y, colors[2*(2*y/height)+2*x/width])
		}
	}
	return img
}

func encodePNG(t testing.TB, img image.Image) []byte {
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, img))
	return b.Bytes()
}

func encodeJPEG(t testing.TB, img image.Image, quality int) []byte {
	var b bytes.Buffer
	require.NoError(t, jpeg.Encode(&b, img, &jpeg.Options{Quality: quality}))
	return b.Bytes()
}

func decodeNRGBA(t testing.TB, data []byte) *image.NRGBA {
	img, _, err := Decode(bytes.NewReader(data), 0)
	require.NoError(t, err)
	out, err := NRGBA(img)
	require.NoError(t, err)
	return out
}

func requireClose(t *testing.T, want, got *image.NRGBA, within int) {
	t.Helper()
	require.Equal(t, want.Rect, got.Rect)
	for i := range want.Pix {
		require.InDelta(t, want.Pix[i], got.Pix[i], float64(within), "byte %d", i)
	}
}

// webpFiles are one pixel, with loss and without.
var webpFiles = []string{
	"UklGRiQAAABXRUJQVlA4IBgAAAAwAQCdASoBAAEAAwA0JaQAA3AA/vuUAAA=",
	"UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==",
}

func TestDecodeFormats(t *testing.T) {
	img := quarters(64, 32)
	encoded := map[string][]byte{"png": encodePNG(t, img), "jpeg": encodeJPEG(t, img, 95)}
	var b bytes.Buffer
	require.NoError(t, tiff.Encode(&b, img, nil))
	encoded["tiff"] = bytes.Clone(b.Bytes())
	b.Reset()
	require.NoError(t, bmp.Encode(&b, img))
	encoded["bmp"] = bytes.Clone(b.Bytes())
	b.Reset()
	require.NoError(t, gif.Encode(&b, img, nil))
	encoded["gif"] = bytes.Clone(b.Bytes())
	for want, data := range encoded {
		got, format, err := Decode(bytes.NewReader(data), 0)
		require.NoError(t, err, want)
		require.Equal(t, want, format)
		pixels, err := NRGBA(got)
		require.NoError(t, err, want)
		requireClose(t, img, pixels, map[string]int{"jpeg": 20, "gif": 60}[want]) // a GIF has a fixed palette here
	}
	for _, text := range webpFiles {
		data, err := base64.StdEncoding.DecodeString(text)
		require.NoError(t, err)
		require.Equal(t, image.Rect(0, 0, 1, 1), decodeNRGBA(t, data).Rect)
	}
}

func TestDecodePNGKinds(t *testing.T) {
	for _, img := range pictures(13, 7) {
		switch img.(type) {
		case *image.NRGBA, *image.NRGBA64, *image.Gray, *image.Gray16, *image.Paletted:
			want, err := NRGBA(img)
			require.NoError(t, err)
			requireClose(t, want, decodeNRGBA(t, encodePNG(t, img)), 1) // the encoder truncates premultiplied palettes
		}
	}
}

// A GIF's first frame may cover a part of the canvas.
func TestDecodeGIFFrame(t *testing.T) {
	frame := image.NewPaletted(image.Rect(2, 1, 4, 3), color.Palette{color.White, color.Black})
	frame.SetColorIndex(3, 1, 1)
	var b bytes.Buffer
	require.NoError(t, gif.EncodeAll(&b, &gif.GIF{
		Image: []*image.Paletted{frame}, Delay: []int{0}, Config: image.Config{Width: 6, Height: 4},
	}))
	got := decodeNRGBA(t, b.Bytes())
	require.Equal(t, image.Rect(0, 0, 6, 4), got.Rect)
	require.Equal(t, color.NRGBA{}, got.NRGBAAt(1, 1))
	require.Equal(t, color.NRGBA{255, 255, 255, 255}, got.NRGBAAt(2, 1))
	require.Equal(t, color.NRGBA{0, 0, 0, 255}, got.NRGBAAt(3, 1))
	require.Equal(t, color.NRGBA{}, got.NRGBAAt(4, 2))
}

// cmykJPEG returns a baseline JPEG of one 8x8 block for each colour, side by side. The blocks are plain, so that each
// is a single coefficient. Adobe's files store the inks inverted.
func cmykJPEG(colors ...color.CMYK) []byte {
	b := bytes.NewBuffer([]byte{0xff, 0xd8})
	segment := func(marker byte, body ...byte) {
		b.Write([]byte{0xff, marker, byte((len(body) + 2) >> 8), byte(len(body) + 2)})
		b.Write(body)
	}
	segment(0xee, append([]byte("Adobe"), 0, 100, 0, 0, 0, 0, 0)...)
	segment(0xdb, append([]byte{0}, bytes.Repeat([]byte{1}, 64)...)...)
	segment(0xc0, 8, 0, 8, 0, byte(8*len(colors)), 4, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0, 4, 0x11, 0)
	// Twelve codes of four bits for the sizes of the mean, one of one bit for the end of a block.
	segment(0xc4, 0, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
	segment(0xc4, 0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	segment(0xda, 4, 1, 0, 2, 0, 3, 0, 4, 0, 0, 63, 0)

	var bits uint64
	var count int
	write := func(value, n int) {
		bits, count = bits<<n|uint64(value), count+n
		for ; count >= 8; count -= 8 {
			v := byte(bits >> (count - 8))
			b.WriteByte(v)
			if v == 0xff {
				b.WriteByte(0)
			}
		}
	}
	var previous [4]int
	for _, c := range colors {
		for i, ink := range []uint8{c.C, c.M, c.Y, c.K} {
			mean := 8 * (255 - int(ink) - 128)
			difference := mean - previous[i]
			previous[i] = mean
			size := 0
			for v := max(difference, -difference); v > 0; v >>= 1 {
				size++
			}
			if difference < 0 {
				difference += 1<<size - 1
			}
			write(size, 4)
			write(difference, size)
			write(0, 1)
		}
	}
	write(0x7f, 7)
	b.Write([]byte{0xff, 0xd9})
	return b.Bytes()
}

func TestDecodeCMYK(t *testing.T) {
	img, _, err := Decode(bytes.NewReader(cmykJPEG(color.CMYK{M: 217, Y: 242, K: 55}, color.CMYK{C: 255})), 0)
	require.NoError(t, err)
	require.IsType(t, &image.CMYK{}, img)
	got, err := NRGBA(img)
	require.NoError(t, err)
	for c, want := range []float64{200, 30, 10, 255} {
		require.InDelta(t, want, got.Pix[c], 2)
	}
	require.Equal(t, []uint8{0, 255, 255, 255}, got.Pix[4*15:4*16])
}

// exifData returns a TIFF structure with an orientation between two other tags.
func exifData(order binary.AppendByteOrder, orientation uint16) []byte {
	data := []byte("II*\x00")
	if order == binary.AppendByteOrder(binary.BigEndian) {
		data = []byte("MM\x00*")
	}
	data = order.AppendUint32(data, 10)
	data = append(data, 0, 0)
	data = order.AppendUint16(data, 3)
	for _, entry := range [][4]uint16{{0x010f, 2, 4, 0x4142}, {0x0112, 3, 1, orientation}, {0x0128, 3, 1, 2}} {
		data = order.AppendUint16(data, entry[0])
		data = order.AppendUint16(data, entry[1])
		data = order.AppendUint32(data, uint32(entry[2]))
		data = order.AppendUint16(data, entry[3])
		data = append(data, 0, 0)
	}
	return append(data, 0, 0, 0, 0)
}

// withExif inserts an Exif segment after the start of a JPEG.
func withExif(data, exif []byte) []byte {
	body := append([]byte("Exif\x00\x00"), exif...)
	head := []byte{0xff, 0xd8, 0xff, 0xe1, byte((len(body) + 2) >> 8), byte(len(body) + 2)}
	return append(append(head, body...), data[2:]...)
}

// pngPart is a chunk of a PNG file.
func pngPart(name string, body []byte) []byte {
	chunk := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	chunk = append(append(chunk, name...), body...)
	return binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE(chunk[4:]))
}

// pngFile is a PNG of any depth and colour type. raw holds rows with their filter bytes.
func pngFile(t testing.TB, width, height uint32, depth, colorType byte, raw []byte) []byte {
	header := binary.BigEndian.AppendUint32(nil, width)
	header = append(binary.BigEndian.AppendUint32(header, height), depth, colorType, 0, 0, 0)
	var data bytes.Buffer
	w := zlib.NewWriter(&data)
	_, err := w.Write(raw)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return slices.Concat([]byte("\x89PNG\r\n\x1a\n"), pngPart("IHDR", header), pngPart("IDAT", data.Bytes()), pngPart("IEND", nil))
}

// withChunk inserts an eXIf chunk after the header of a PNG.
func withChunk(data, exif []byte) []byte {
	const header = 8 + 25
	return slices.Concat(data[:header], pngPart("eXIf", exif), data[header:])
}

// storedAs returns a picture as a camera with an orientation stores it. The sides are those of the upright picture
// that the first stored row and the first stored column show, as the EXIF standard defines the orientations.
func storedAs(upright image.Image, orientation int) image.Image {
	sides := [9][2]string{{}, {"top", "left"}, {"top", "right"}, {"bottom", "right"}, {"bottom", "left"},
		{"left", "top"}, {"right", "top"}, {"right", "bottom"}, {"left", "bottom"}}[orientation]
	width, height := upright.Bounds().Dx(), upright.Bounds().Dy()
	rows, columns := height, width
	if orientation >= 5 {
		rows, columns = width, height
	}
	out := image.NewNRGBA(image.Rect(0, 0, columns, rows))
	for row := range rows {
		for column := range columns {
			var x, y int
			for _, from := range []struct {
				side  string
				index int
			}{{sides[0], row}, {sides[1], column}} {
				switch from.side {
				case "top":
					y = from.index
				case "bottom":
					y = height - 1 - from.index
				case "left":
					x = from.index
				case "right":
					x = width - 1 - from.index
				}
			}
			out.Set(column, row, upright.At(x, y))
		}
	}
	return out
}

func TestOrientation(t *testing.T) {
	want := quarters(64, 32)
	for o := 1; o <= 8; o++ {
		stored := storedAs(want, o)
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			exif := exifData(order, uint16(o))
			requireClose(t, want, decodeNRGBA(t, withExif(encodeJPEG(t, stored, 95), exif)), 20)
			require.Equal(t, want.Pix, decodeNRGBA(t, withChunk(encodePNG(t, stored), exif)).Pix, "orientation %d", o)
		}
		// Grey and palette pictures keep their type.
		gray := image.NewGray(stored.Bounds())
		indexed := image.NewPaletted(stored.Bounds(), color.Palette{color.Black, color.White})
		gray.SetGray(0, 0, color.Gray{99})
		indexed.SetColorIndex(0, 0, 1)
		for _, img := range []image.Image{gray, indexed} {
			turned, err := upright(img, o)
			require.NoError(t, err)
			require.IsType(t, img, turned)
			turned, err = NRGBA(turned)
			require.NoError(t, err)
			pixels, err := NRGBA(img)
			require.NoError(t, err)
			require.Equal(t, pixels.Pix, storedAs(turned, o).(*image.NRGBA).Pix, "orientation %d", o)
		}
	}
}

func TestOrientationOfContainers(t *testing.T) {
	exif := exifData(binary.LittleEndian, 6)
	webp := []byte("RIFF\x00\x00\x00\x00WEBPVP8X\x03\x00\x00\x00abc\x00EXIF")
	webp = append(binary.LittleEndian.AppendUint32(webp, uint32(len(exif))), exif...)
	require.Equal(t, 6, orientation(webp, "webp"))
	require.Equal(t, 6, orientation(exif, "tiff"))
	require.Equal(t, 1, orientation(exif, "bmp"))
}

// Bad metadata are ignored, not fatal.
func TestBrokenExif(t *testing.T) {
	img := storedAs(quarters(64, 32), 6)
	for name, exif := range map[string][]byte{
		"none": nil, "no structure": []byte("garbage, not a structure"), "orientation 0": exifData(binary.BigEndian, 0),
		"orientation 9":     exifData(binary.LittleEndian, 9),
		"directory outside": []byte("II*\x00\xff\xff\xff\xff"), "directory cut off": exifData(binary.BigEndian, 6)[:20],
	} {
		require.Equal(t, img.Bounds(), decodeNRGBA(t, withExif(encodeJPEG(t, img, 90), exif)).Rect, name)
		require.Equal(t, img.Bounds(), decodeNRGBA(t, withChunk(encodePNG(t, img), exif)).Rect, name)
	}
}

// A header may claim any size: nothing of that size is allocated.
func TestDecodeChecksSizeFirst(t *testing.T) {
	data := encodePNG(t, image.NewGray(image.Rect(0, 0, 1, 1)))
	binary.BigEndian.PutUint32(data[16:], 30000)
	binary.BigEndian.PutUint32(data[20:], 30000)
	binary.BigEndian.PutUint32(data[29:], crc32.ChecksumIEEE(data[12:29]))
	allocated := testing.AllocsPerRun(1, func() {
		_, _, err := Decode(bytes.NewReader(data), 0)
		require.ErrorIs(t, err, ErrTooLarge)
		require.ErrorContains(t, err, "30000x30000")
		_, err = DecodeMask(bytes.NewReader(data), MaskOptions{})
		require.ErrorIs(t, err, ErrTooLarge)
	})
	require.Less(t, allocated, 1000.0)

	_, _, err := Decode(bytes.NewReader(encodePNG(t, quarters(20, 20))), 399)
	require.ErrorIs(t, err, ErrTooLarge)
	_, _, err = Decode(bytes.NewReader(encodePNG(t, quarters(20, 20))), 400)
	require.NoError(t, err)
}

func TestDecodeErrors(t *testing.T) {
	_, _, err := Decode(strings.NewReader("no picture"), 0)
	require.ErrorIs(t, err, image.ErrFormat)
	_, _, err = Decode(strings.NewReader(""), 0)
	require.ErrorIs(t, err, image.ErrFormat)
	whole := encodePNG(t, quarters(64, 64))
	for _, n := range []int{9, 40, len(whole) / 2, len(whole) - 13} {
		_, _, err = Decode(bytes.NewReader(whole[:n]), 0)
		require.Error(t, err, "%d bytes", n)
	}
}

// A mask that went through JPEG has exactly the pixels that were painted, but for those at the edge.
func TestDecodeMaskJPEG(t *testing.T) {
	img := image.NewGray(image.Rect(0, 0, 48, 48))
	for y := 13; y < 33; y++ {
		for x := 11; x < 31; x++ {
			img.SetGray(x, y, color.Gray{255})
		}
	}
	for _, data := range [][]byte{encodeJPEG(t, img, 60), encodePNG(t, img)} {
		mask, err := DecodeMask(bytes.NewReader(data), MaskOptions{})
		require.NoError(t, err)
		require.Equal(t, img.Pix, mask.Pix)
	}
}
