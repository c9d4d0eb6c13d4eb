// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"image"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/internal/nn"
)

const (
	// sizeStep is what the sizes of enlarged masks are rounded up to on the device, so that pictures of about the same
	// size share programs.
	sizeStep = 256
	// maxChunk and maxChunkPixels bound how many masks are made at a time.
	maxChunk       = 8
	maxChunkPixels = 1 << 26
)

// chunk returns how many of some masks are made at a time.
func (e *Encoding) chunk(masks int) int {
	chunk := 1
	for chunk < min(maxChunk, masks) && 2*chunk*roundUp(e.Width)*roundUp(e.Height) <= maxChunkPixels {
		chunk *= 2
	}
	return chunk
}

func roundUp(size int) int { return (size + sizeStep - 1) / sizeStep * sizeStep }

// enlarged brings maps of logits to the picture's size and cuts them at zero: 255 above and 0 elsewhere.
//
//	logits [..., side, side], of which the first n are wanted
func (e *Encoding) enlarged(s *stage, logits *tensors.Tensor, n int) []*image.Gray {
	if s.err != nil {
		return nil
	}
	side, rows, cols := logits.Shape().Dim(-1), roundUp(e.Height), roundUp(e.Width)
	across, down := taps(side, e.Width, cols), taps(side, e.Height, rows)
	s.own(across...)
	s.own(down...)
	cut := s.run1(e.model.enlarge, nil, slices.Concat([]*tensors.Tensor{logits}, across, down)...)
	if s.err != nil {
		return nil
	}
	var masks []*image.Gray
	s.err = tensors.ConstFlatData(cut, func(flat []uint8) {
		for i := range n {
			mask := image.NewGray(image.Rect(0, 0, e.Width, e.Height))
			for y := range e.Height {
				copy(mask.Pix[y*e.Width:(y+1)*e.Width], flat[(i*rows+y)*cols:])
			}
			masks = append(masks, mask)
		}
	})
	return masks
}

func newEnlarge(backend compute.Backend) *nn.Program {
	return nn.NewProgram(backend, "segment.enlarge", func(_ nn.Params, in []*Node) []*Node { return []*Node{cut(enlarge(in))} })
}

// taps say what the cells of an enlarged axis are made of: two cells of the small one, and the share of the second. The
// cells' centres lie half a cell from the borders.
//
//	first, second [padded] int32; share [padded]
func taps(in, out, padded int) []*tensors.Tensor {
	first, second, share := make([]int32, padded), make([]int32, padded), make([]float32, padded)
	for i := range out {
		at := max((float64(i)+0.5)*float64(in)/float64(out)-0.5, 0)
		first[i] = int32(at)
		second[i] = min(first[i]+1, int32(in-1))
		share[i] = float32(at - float64(first[i]))
	}
	return []*tensors.Tensor{
		tensors.FromFlatDataAndDimensions(first, padded), tensors.FromFlatDataAndDimensions(second, padded),
		tensors.FromFlatDataAndDimensions(share, padded),
	}
}

// enlarge resizes maps bilinearly, first along their rows, of which there are fewer before.
//
//	in  maps [..., R, C]; the taps of X columns and of Y rows
//	out [K, Y, X]
func enlarge(in []*Node) *Node {
	dims := in[0].Shape().Dimensions
	x := Reshape(in[0], -1, dims[len(dims)-2], dims[len(dims)-1])
	x = TransposeAllAxes(x, 2, 0, 1) // so that whole rows are gathered
	x = tapped(x, in[1:4])           // [X, K, R]
	x = tapped(TransposeAllAxes(x, 2, 1, 0), in[4:7])
	return TransposeAllAxes(x, 1, 0, 2)
}

// tapped makes rows of others.
func tapped(x *Node, taps []*Node) *Node {
	first, second := Gather(x, ExpandAxes(taps[0], -1)), Gather(x, ExpandAxes(taps[1], -1))
	return Add(first, Mul(ExpandAxes(taps[2], 1, 2), Sub(second, first)))
}

// cut turns logits into 255 above zero and 0 elsewhere.
func cut(logits *Node) *Node {
	g := logits.Graph()
	inside := GreaterThan(logits, ScalarZero(g, logits.DType()))
	return Where(inside, Scalar(g, dtypes.Uint8, 255), Scalar(g, dtypes.Uint8, 0))
}
