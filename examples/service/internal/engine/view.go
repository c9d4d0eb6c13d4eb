// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"io"
	"math"

	"golang.org/x/image/draw"

	"github.com/gomlx3d/image3d/sam3d"
)

const (
	photoSide = 1600    // largest side of the photograph for the page
	maxPoints = 200_000 // of the point cloud
)

// Camera is a pinhole camera with its centre in the middle of the photograph. It looks along +Z of the camera frame.
type Camera struct {
	Width  int     `json:"width"` // of the photograph, in pixels
	Height int     `json:"height"`
	Focal  float64 `json:"focal_px"`
	FOVY   float64 `json:"fov_y_degrees"`
}

// cameraOf fits a camera to a point map: the focal length f, in pixels, that brings -f X/Z and -f Y/Z closest to where
// the pixels are. It returns nil for a map that no such camera can see.
func cameraOf(m sam3d.PointMap, width, height int) *Camera {
	var product, square float64
	scaleX, scaleY := float64(width)/float64(m.Width), float64(height)/float64(m.Height)
	for i := 0; i < m.Width*m.Height; i++ {
		x, y, z := float64(m.Points[3*i]), float64(m.Points[3*i+1]), float64(m.Points[3*i+2])
		if !(z > 0) || math.IsInf(x+y+z, 0) || math.IsNaN(x+y) {
			continue
		}
		u := (float64(i%m.Width)+0.5)*scaleX - float64(width)/2
		v := (float64(i/m.Width)+0.5)*scaleY - float64(height)/2
		product -= u*x/z + v*y/z
		square += (x*x + y*y) / (z * z)
	}
	focal := product / square
	if !(focal > 0) || math.IsInf(focal, 0) {
		return nil
	}
	return &Camera{Width: width, Height: height, Focal: focal, FOVY: 2 * math.Atan(float64(height)/2/focal) * 180 / math.Pi}
}

// writePhoto writes the photograph, upright, no larger than a page needs.
func writePhoto(w io.Writer, photo image.Image) error {
	size := photo.Bounds().Size()
	scale := min(1, photoSide/float64(max(size.X, size.Y)))
	small := image.NewRGBA(image.Rect(0, 0, max(1, int(float64(size.X)*scale)), max(1, int(float64(size.Y)*scale))))
	draw.Draw(small, small.Rect, image.White, image.Point{}, draw.Src)
	draw.ApproxBiLinear.Scale(small, small.Rect, photo, photo.Bounds(), draw.Over, nil)
	return jpeg.Encode(w, small, &jpeg.Options{Quality: 88})
}

// writePoints writes the points of a map, with the colours of the photograph, as a binary PLY point cloud. Of a large
// map it takes a regular part.
func writePoints(w io.Writer, m sam3d.PointMap, photo image.Image) error {
	stride := 1
	for (m.Width/stride)*(m.Height/stride) > maxPoints {
		stride++
	}
	bounds := photo.Bounds()
	var body []byte
	count := 0
	for y := stride / 2; y < m.Height; y += stride {
		for x := stride / 2; x < m.Width; x += stride {
			point := m.Points[3*(y*m.Width+x):][:3]
			if sum := point[0] + point[1] + point[2]; sum-sum != 0 {
				continue // NaN or infinite
			}
			c := color.NRGBAModel.Convert(photo.At(bounds.Min.X+x*bounds.Dx()/m.Width, bounds.Min.Y+y*bounds.Dy()/m.Height)).(color.NRGBA)
			for _, v := range point {
				body = binary.LittleEndian.AppendUint32(body, math.Float32bits(v))
			}
			body = append(body, c.R, c.G, c.B)
			count++
		}
	}
	_, err := fmt.Fprintf(w, "ply\nformat binary_little_endian 1.0\nelement vertex %d\nproperty float x\nproperty float y\n"+
		"property float z\nproperty uchar red\nproperty uchar green\nproperty uchar blue\nend_header\n", count)
	if err != nil {
		return err
	}
	_, err = w.Write(body)
	return err
}
