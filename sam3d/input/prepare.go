// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package input

import (
	"fmt"
	"image"

	"github.com/gomlx3d/image3d/internal/imageio"
)

// Size is the side of the network's input in the released model.
const Size = 518

// maxSize bounds the side of conditions.
const maxSize = 1 << 14

// Options are settings of Prepare. The zero value is the released setting.
type Options struct {
	// Size is the side S of the conditions. 0 means 518.
	Size int
	// ClipBeyond, if positive, drops the points that are farther than that many times the object's median depth.
	ClipBeyond float64
	// FullImage is the Image of the full view, if it is known from WholeImage. It is the same for all objects of a picture.
	FullImage []float32
	// AsOriginal treats point maps that are hard to normalise as the original program does, which fills the conditions
	// with points that mean nothing: infinities count in the medians, a map without valid points below the mask gets
	// scale 1 and shift 0, and a map without extent gets scale 0 and only invalid points. Without it infinities count
	// as NaN, and Prepare fails in the other two cases.
	AsOriginal bool
}

// View is one way of looking at the object. The sides are Conditions.Size.
type View struct {
	Image  []float32 // [1, 3, S, S] colours in 0..1, black outside the picture
	Mask   []float32 // [1, 1, S, S] in 0..1
	Points []float32 // [1, 3, S, S] normalised points, NaN in all three channels without one; nil without a point map
}

// Conditions is everything the condition encoders of both stages read.
type Conditions struct {
	Size int
	// Crop shows the object; the original calls its parts image, mask and pointmap.
	Crop View
	// Full shows the whole picture; the original calls its parts rgb_image, rgb_image_mask and rgb_pointmap.
	Full View
	// Scale and Shift normalise the point map: (p - Shift)/Scale. They take the pose back to the camera frame.
	// Without a point map they are 1 and 0.
	Scale, Shift [3]float32
}

// Prepare computes the conditions of a picture. points may be nil; then the views have none.
// The error wraps ErrPicture, ErrPointMap, ErrNoPoints or ErrFlatPoints.
func (p *Picture) Prepare(points *PointMap, o Options) (*Conditions, error) {
	if o.Size == 0 {
		o.Size = Size
	}
	if o.Size < 1 || o.Size > maxSize {
		return nil, fmt.Errorf("%w: conditions of side %d", ErrPicture, o.Size)
	}
	if o.FullImage != nil && len(o.FullImage) != 3*o.Size*o.Size {
		return nil, fmt.Errorf("%w: a full image of %d values for sides of %d", ErrPicture, len(o.FullImage), o.Size)
	}
	if points == nil {
		return p.views(o)
	}
	scene := *points
	if !o.AsOriginal {
		scene = scene.withoutInfinities()
	}
	scene, err := p.ScenePoints(scene, o)
	if err != nil {
		return nil, err
	}
	return p.withPoints(scene, o)
}

// ScenePoints returns a point map as Prepare sees it before it normalises: at the size of the picture and clipped.
// It may share memory with points. The error wraps ErrPointMap.
func (p *Picture) ScenePoints(points PointMap, o Options) (PointMap, error) {
	width, height := p.Size()
	scene, err := points.Resize(width, height)
	if err != nil {
		return PointMap{}, err
	}
	if o.ClipBeyond > 0 {
		scene = scene.clipBeyond(o.ClipBeyond, p.objectPixels(width, height))
	}
	return scene, nil
}

// views computes the conditions without points.
func (p *Picture) views(o Options) (c *Conditions, err error) {
	c = &Conditions{Size: o.Size, Scale: [3]float32{1, 1, 1}}
	crop, full := cropAround(p.box), fullView(p.Size())
	if c.Crop.Image, err = sampleImage(p.pixels, crop, o.Size); err != nil {
		return nil, err
	}
	if c.Full.Image = o.FullImage; c.Full.Image == nil {
		if c.Full.Image, err = sampleImage(p.pixels, full, o.Size); err != nil {
			return nil, err
		}
	}
	c.Crop.Mask, c.Full.Mask = p.sampleMask(crop, o.Size), p.sampleMask(full, o.Size)
	return c, nil
}

// WholeImage returns the Image of the full view of any object of a picture, with sides of size (0 means 518).
// The error wraps ErrPicture.
func WholeImage(img image.Image, size int) ([]float32, error) {
	pixels, err := imageio.NRGBA(img)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPicture, err)
	}
	if size == 0 {
		size = Size
	}
	if size < 1 || size > maxSize {
		return nil, fmt.Errorf("%w: conditions of side %d", ErrPicture, size)
	}
	return sampleImage(pixels, fullView(pixels.Rect.Dx(), pixels.Rect.Dy()), size)
}

// sampleImage returns what a window shows of a picture, [3, size, size].
func sampleImage(pixels *image.NRGBA, w window, size int) ([]float32, error) {
	rgb, err := imageio.ResizeRGB(pixels, w.square, w.crop, size, size, imageio.BilinearAntialias)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPicture, err)
	}
	return rgb.Data, nil
}

// withPoints computes the conditions with a map on a grid of its own.
func (p *Picture) withPoints(scene PointMap, o Options) (*Conditions, error) {
	if !o.AsOriginal {
		scene = scene.withoutInfinities()
	}
	scale, shift, found := measure(scene, p.objectPixels(scene.Width, scene.Height))
	if !o.AsOriginal {
		if err := checkMeasure(scale, shift, found); err != nil {
			return nil, err
		}
	}
	c, err := p.views(o)
	if err != nil {
		return nil, err
	}
	c.Scale, c.Shift = [3]float32{scale, scale, scale}, shift

	normalise := newNormaliser(scale, shift)
	c.Full.Points = samplePoints(scene, normalise, fullView(scene.Width, scene.Height), o.Size)
	if width, height := p.Size(); scene.Width != width || scene.Height != height {
		if scene, err = onGrid(scene.normalised(scale, shift), width, height); err != nil {
			return nil, err
		}
		normalise = newNormaliser(1, [3]float32{})
	}
	c.Crop.Points = samplePoints(scene, normalise, cropAround(p.box), o.Size)
	return c, nil
}

// objectPixels lists the pixels of a width x height grid whose mask is above one half.
func (p *Picture) objectPixels(width, height int) []int32 {
	w, h := p.Size()
	columns, rows := imageio.NearestIndex(w, width), imageio.NearestIndex(h, height)
	object := make([]int32, 0, min(p.above, width*height))
	for y, from := range rows {
		line := p.maskRow(from)
		for x, column := range columns {
			if line[column] >= 128 { // 127/255 is below one half
				object = append(object, int32(y*width+x))
			}
		}
	}
	return object
}

// sampleMask returns what a window shows of the mask, [size, size].
func (p *Picture) sampleMask(w window, size int) []float32 {
	out := make([]float32, size*size)
	index := imageio.NearestIndex(w.square.Dx(), size)
	inside := w.crop.Intersect(p.mask.Rect)
	for y, row := range index {
		v := w.square.Min.Y + row
		for x, column := range index {
			if u := w.square.Min.X + column; image.Pt(u, v).In(inside) {
				out[y*size+x] = imageio.Unit(p.mask.Pix[v*p.mask.Stride+u])
			}
		}
	}
	return out
}

// samplePoints returns what a window shows of a map, normalised, [3, size, size]. Beside the map lies the point
// (0, 0, 0), a valid one; what was added to make the crop a square is invalid.
func samplePoints(m PointMap, normalise normaliser, w window, size int) []float32 {
	out := make([]float32, 3*size*size)
	index := imageio.NearestIndex(w.square.Dx(), size)
	bounds := image.Rect(0, 0, m.Width, m.Height)
	for y, row := range index {
		for x, column := range index {
			at := image.Pt(w.square.Min.X+column, w.square.Min.Y+row)
			var point [3]float32
			switch {
			case !at.In(w.crop):
				point = [3]float32{nan, nan, nan}
			case at.In(bounds):
				point = normalise.apply(m.at(at.X, at.Y))
			}
			for c, v := range point {
				out[(c*size+y)*size+x] = v
			}
		}
	}
	return out
}

// onGrid resamples a normalised map smoothly to another size (resize_all_to_same_size): invalid points count as
// zero, and pixels whose nearest point is invalid become so again.
func onGrid(m PointMap, width, height int) (PointMap, error) {
	planes := imageio.NewPlanes(3, m.Height, m.Width)
	for i, v := range m.Points {
		if v == v {
			planes.Data[i%3*m.Height*m.Width+i/3] = v
		}
	}
	planes, err := imageio.Resize(planes, height, width, imageio.BilinearAntialias)
	if err != nil {
		return PointMap{}, fmt.Errorf("%w: %w", ErrPointMap, err)
	}
	out, err := m.Resize(width, height)
	if err != nil {
		return out, err
	}
	for i, v := range out.Points {
		if v == v { // all three coordinates are valid or none is
			out.Points[i] = planes.Data[i%3*height*width+i/3]
		}
	}
	return out, nil
}
