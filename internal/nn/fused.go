// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package nn

import (
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// tuned is a backend with choices about attention, for programs. GoMLX itself is given the backend inside, whose the
// arrays are: it takes those of one backend only.
type tuned struct {
	compute.Backend
	half       bool // attention may round its operands to half precision
	scoreBytes int  // bound of the scores that are stored together; 0: what is fastest
}

// Unwrap returns the backend inside.
func (t *tuned) Unwrap() compute.Backend { return t.Backend }

// Plain returns the backend without choices, which arrays belong to.
func Plain(backend compute.Backend) compute.Backend {
	if t, ok := backend.(*tuned); ok {
		return t.Backend
	}
	return backend
}

// tunedState is the key of the choices among the states of a graph.
type tunedState struct{}

// chosen is what was chosen for a graph.
func chosen(g *Graph) *tuned {
	if t, ok := g.State(tunedState{}).(*tuned); ok {
		return t
	}
	return &tuned{}
}

// choices returns a copy of what was chosen so far.
func choices(backend compute.Backend) *tuned {
	if t, ok := backend.(*tuned); ok {
		clone := *t
		return &clone
	}
	return &tuned{Backend: backend}
}

// HalfAttention returns the backend with leave to round the operands of attention to bfloat16, where that lets it use an
// attention kernel of its own; the backend itself if it has none.
func HalfAttention(backend compute.Backend) compute.Backend {
	if !fuses(backend) {
		return backend
	}
	t := choices(backend)
	t.half = true
	return t
}

const (
	// MinScoreBytes is the least bound of LimitScores: with fewer scores at a time graphs become long.
	MinScoreBytes = 16 << 20
	// UsualScoreBytes is a bound that costs no speed worth mentioning.
	UsualScoreBytes = 256 << 20
)

// LimitScores returns the backend with a bound on the attention scores that a graph holds at a time, in bytes of
// float32; at least those of one query are formed together. XLA's CPU plugin need not be bound: it does not store them.
func LimitScores(backend compute.Backend, bytes int64) compute.Backend {
	t := choices(backend)
	t.scoreBytes = int(max(bytes, MinScoreBytes))
	return t
}

// FusesScores reports whether a backend attends without storing the scores: XLA's CPU plugin does.
func FusesScores(backend compute.Backend) bool {
	return strings.HasPrefix(backend.Description(), xlaBackend+":cpu")
}

// ScoreBytes is the bound of LimitScores for a graph, or 0.
func ScoreBytes(g *Graph) int { return chosen(g).scoreBytes }

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
	if chosen(q.Graph()).half && q.DType() == dtypes.Float32 {
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
