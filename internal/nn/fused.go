// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package nn

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// halfAttention is a backend on which attention may round its operands to half precision.
type halfAttention struct{ compute.Backend }

// HalfAttention returns the backend with leave to round the operands of attention to bfloat16, where that lets it use an
// attention kernel of its own; the backend itself if it has none. Models on both are of different backends to GoMLX.
func HalfAttention(backend compute.Backend) compute.Backend {
	if !fuses(backend) {
		return backend
	}
	return &halfAttention{backend}
}

// fuses reports whether a backend has an attention kernel: xla:cuda does, cuDNN's.
func fuses(backend compute.Backend) bool {
	return backend.Capabilities().Operations[compute.OpTypeFusedScaledDotProductAttention]
}

// maxFusedWidth is the widest head that cuDNN's kernel takes on every device that has it.
const maxFusedWidth = 128

// fusedDType is the dtype in which the backend's kernel can attend, or InvalidDType if it cannot: it takes half
// precision alone, heads whose width is a multiple of 8, and, by the sizes that go-xla tells cuDNN, as many keys as
// queries.
//
//	q, k, v [B, H, T|S, K]
func fusedDType(q, k, v, bias *Node) dtypes.DType {
	backend := q.Graph().Backend()
	if bias != nil || !fuses(backend) {
		return dtypes.InvalidDType
	}
	width := q.Shape().Dimensions[3]
	if !q.Shape().Equal(k.Shape()) || !q.Shape().Equal(v.Shape()) || width%8 != 0 || width > maxFusedWidth {
		return dtypes.InvalidDType
	}
	if _, half := backend.(*halfAttention); half && q.DType() == dtypes.Float32 {
		return dtypes.BFloat16
	}
	if q.DType() == dtypes.BFloat16 || q.DType() == dtypes.Float16 {
		return q.DType()
	}
	return dtypes.InvalidDType
}

// attendFused is Attend by the backend's kernel, which never stores the scores; by plain if it refuses after all.
func attendFused(dtype dtypes.DType, q, k, v *Node, plain func() *Node) *Node {
	out, _ := InternalFusedOpCaller(func() *Node {
		cast := func(x *Node) *Node { return ConvertDType(x, dtype) }
		o, _ := BackendFusedScaledDotProductAttention(cast(q), cast(k), cast(v), compute.AttentionAxesLayoutBHSD, nil)
		o = HeadsFirst(o) // [B, T, H, K]
		dims := o.Shape().Dimensions
		return ConvertDType(Reshape(o, dims[0], dims[1], dims[2]*dims[3]), q.DType())
	}, plain, false)
	return out
}
