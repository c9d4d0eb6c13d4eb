// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sparse

import (
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/internal/nn"
)

// Arrays are the device tensors of one piece of topology. They may be inputs of concurrent calls.
type Arrays []*tensors.Tensor

// Free releases the device memory.
func (a Arrays) Free() { nn.Free(a...) }

// Args lists the inputs of a call of a nn.Program: Arrays are spread, anything else is passed as it is.
func Args(parts ...any) []any {
	var args []any
	for _, part := range parts {
		if arrays, ok := part.(Arrays); ok {
			for _, t := range arrays {
				args = append(args, t)
			}
			continue
		}
		args = append(args, part)
	}
	return args
}

// Upload returns the bounds of the batch items, to be read as Rows.
func (c *Coords) Upload(backend compute.Backend) (Arrays, error) {
	bounds := make([]int32, len(c.Starts))
	for i, start := range c.Starts {
		bounds[i] = int32(start)
	}
	return upload(backend, device(bounds, len(bounds)))
}

// UploadPositions returns x, y, z of every row, 0 for padding, as one node: int32 [N, 3].
func (c *Coords) UploadPositions(backend compute.Backend) (Arrays, error) {
	flat := make([]int32, 0, 3*c.Layout.Rows)
	for _, v := range c.Voxels {
		flat = append(flat, v[1:]...)
	}
	return upload(backend, device(flat[:cap(flat)], c.Layout.Rows, 3))
}

// UploadFeatures returns an array [Count, channels] with padding rows of zeros added, as one node: float32 [N, channels].
func (l Layout) UploadFeatures(backend compute.Backend, flat []float32, channels int) (*tensors.Tensor, error) {
	if channels < 1 || len(flat) != l.Count*channels {
		return nil, fmt.Errorf("sparse: %d values for %d rows of %d channels", len(flat), l.Count, channels)
	}
	padded := make([]float32, l.Rows*channels)
	copy(padded, flat)
	arrays, err := upload(backend, device(padded, l.Rows, channels))
	if err != nil {
		return nil, err
	}
	return arrays[0], nil
}

// Strip copies a device array [Rows, channels] to the host without its padding rows.
//
//	out [Count, channels]
func (l Layout) Strip(x *tensors.Tensor) ([]float32, error) {
	if x.Rank() != 2 || x.Shape().Dimensions[0] != l.Rows || x.DType() != dtypes.Float32 {
		return nil, fmt.Errorf("sparse: %s is not float32 of %d rows", x.Shape(), l.Rows)
	}
	var out []float32
	err := tensors.ConstFlatData(x, func(flat []float32) {
		out = append(out, flat[:l.Count*x.Shape().Dimensions[1]]...)
	})
	return out, err
}

// Upload returns the lists of pairs, to be read as Neighbors.
func (n *Neighbors) Upload(backend compute.Backend) (Arrays, error) {
	var list []array
	for class, taps := range classTaps {
		list = append(list, device(n.Pairs[class], len(taps), 2, n.Lengths[class]))
	}
	return upload(backend, list...)
}

// Upload returns the arrays, to be read as Pooling.
func (p *Pooling) Upload(backend compute.Backend) (Arrays, error) {
	rows := p.Parents.Layout.Rows
	return upload(backend,
		device(p.Parent, len(p.Parent)), device(p.Children, rows, p.Width), device(p.Divisors, rows))
}

// Upload returns the arrays, to be read as Windows.
func (w *Windows) Upload(backend compute.Backend) (Arrays, error) {
	short := w.Bins[0] * w.Length[0]
	return upload(backend,
		device(w.Row, len(w.Row)), device(w.Place, len(w.Place)),
		device(w.Window[:short], w.Bins[0], w.Length[0]), device(w.Window[short:], w.Bins[1], w.Length[1]))
}

// array is a host array to be uploaded.
type array struct {
	shape shapes.Shape
	bytes []byte
}

func device[T int32 | float32](flat []T, dims ...int) array {
	return array{shapes.Make(dtypes.FromGenericsType[T](), dims...), dtypes.UnsafeByteSliceFromAny(flat)}
}

// upload copies arrays to the first device. On an error nothing is left there. The backend's panics become errors, so
// that callers free what they have.
func upload(backend compute.Backend, list ...array) (out Arrays, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = nn.AsError(r)
		}
		if err != nil {
			out.Free()
			out, err = nil, fmt.Errorf("sparse: upload: %w", err)
		}
	}()
	for _, a := range list {
		t, err := tensors.FromRaw(nn.Plain(backend), 0, a.shape, a.bytes)
		if err != nil {
			return out, fmt.Errorf("%s: %w", a.shape, err)
		}
		out = append(out, t)
	}
	return out, nil
}

// Inputs are the inputs of a graph function, taken back in the order in which Args listed them.
type Inputs struct{ nodes []*Node }

// Read returns the inputs of a graph function.
func Read(nodes []*Node) *Inputs { return &Inputs{nodes} }

// Node takes one input. It panics, as graph functions do, if there is none left.
func (in *Inputs) Node() *Node {
	if len(in.nodes) == 0 {
		panic(fmt.Errorf("sparse: not enough inputs"))
	}
	node := in.nodes[0]
	in.nodes = in.nodes[1:]
	return node
}

// Rows takes what Coords.Upload made.
func (in *Inputs) Rows() Rows { return Rows{in.Node()} }

// Neighbors takes what Neighbors.Upload made.
func (in *Inputs) Neighbors() Pairs { return Pairs{in.Node(), in.Node(), in.Node()} }

// Pooling takes what Pooling.Upload made.
func (in *Inputs) Pooling() Pools {
	return Pools{parent: in.Node(), children: in.Node(), divisors: in.Node()}
}

// Windows takes what Windows.Upload made.
func (in *Inputs) Windows() Bins {
	return Bins{row: in.Node(), place: in.Node(), windows: [2]*Node{in.Node(), in.Node()}}
}

// Slab takes what Slab.Upload made.
func (in *Inputs) Slab() Part {
	return Part{row: in.Node(), All: in.Rows(), Owned: in.Rows(), Pairs: in.Neighbors()}
}
