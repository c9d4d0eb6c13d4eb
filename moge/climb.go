// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gomlx3d/image3d/internal/nn"
)

// levelPlan is what decides the graph of one level of a stack. Levels of equal plans share a program.
type levelPlan struct {
	resampler          Resampler // from the level before; "" at the first
	coordinates        bool      // what comes in is the coordinates of the pixels, not a map
	input, output      bool      // whether there are those 1x1 convolutions
	blocks             int
	inNorm, hiddenNorm Norm
	planes             bool // give the output alone, as planes
}

func (c *StackConfig) plan(level int, coordinates, planes bool) levelPlan {
	plan := levelPlan{
		coordinates: coordinates, input: c.In[level] > 0, output: c.Out[level] > 0, blocks: c.Blocks[level],
		inNorm: c.InNorm, hiddenNorm: c.HiddenNorm, planes: planes,
	}
	if level > 0 {
		plan.resampler = c.Resamplers[level-1]
	}
	return plan
}

// levelWeights are a level's weights by the names that the graph of a level has for them.
func (c *StackConfig) levelWeights(stack nn.Weights, level int) nn.Weights {
	out := make(nn.Weights)
	add := func(name string, w nn.Weights) {
		for rest, t := range w {
			out[name+"."+rest] = t
		}
	}
	add("input", stack.In("input_blocks.%d", level))
	add("output", stack.In("output_blocks.%d", level))
	add("blocks", stack.In("res_blocks.%d", level))
	if level > 0 {
		add("resampler", stack.In("resamplers.%d", level-1))
	}
	return out
}

// climb is one level of a stack.
//
//	p       resampler (0, 1), input, blocks (0 and on), output
//	in      the map of the level before [1, Y/2, X/2, C'], not at the first level; then what comes in: a map [1, Y, X, I],
//	        or the coordinates u [X] and v [Y]
//	out     the level's map [1, Y, X, C] and, if it has an output convolution, what that gives [1, Y, X, O]; or the
//	        latter, or else the former, alone as planes [O, Y, X]
func climb(p nn.Params, plan levelPlan, in []*Node) []*Node {
	var x *Node
	if plan.resampler != "" {
		x = enlarge(p.In("resampler"), plan.resampler, in[0])
		in = in[1:]
	}
	var entering *Node
	switch {
	case plan.coordinates:
		entering = planePair(p.In("input"), in[0], in[1])
	case plan.input:
		entering = pointwise(p.In("input"), in[0])
	default:
		entering = in[0]
	}
	if x == nil {
		x = entering
	} else {
		x = Add(x, entering)
	}
	for i := range plan.blocks {
		x = OptimizationBarriers(x)[0] // one block after the other
		x = stackResidual(p.In("blocks.%d.layers", i), plan, x)
	}
	out := []*Node{x}
	if plan.output {
		out = append(out, pointwise(p.In("output"), x))
	}
	if plan.planes {
		out = []*Node{TransposeAllAxes(Squeeze(out[len(out)-1], 0), 2, 0, 1)}
	}
	return out
}

// planePair is the 1x1 convolution of the two planes of the pixels' coordinates.
//
//	p    weight [C, 2, 1, 1], bias [C]
//	u, v [X], [Y]
//	out  [1, Y, X, C]
func planePair(p nn.Params, u, v *Node) *Node {
	weight := Squeeze(p.As(u, "weight"), 2, 3) // [C, 2]
	rows, cols, channels := v.Shape().Dimensions[0], u.Shape().Dimensions[0], weight.Shape().Dimensions[0]
	part := func(coordinate *Node, i int) *Node {
		return Mul(ExpandAxes(coordinate, 1), Reshape(Slice(weight, AxisRange(), AxisElem(i)), 1, channels)) // [N, C]
	}
	alongX := Reshape(nn.AddLast(part(u, 0), p.As(u, "bias")), 1, 1, cols, channels)
	alongY := Reshape(part(v, 1), 1, rows, 1, channels)
	return Add(BroadcastToDims(alongX, 1, rows, cols, channels), BroadcastToDims(alongY, 1, rows, cols, channels))
}

// pointwise is a 1x1 convolution.
//
//	p   weight [O, I, 1, 1], bias [O]
//	x   [..., I]
//	out [..., O]
func pointwise(p nn.Params, x *Node) *Node {
	y := nn.MatMulT(x, Squeeze(p.As(x, "weight"), 2, 3))
	return nn.AddLast(y, p.As(y, "bias"))
}

// stackResidual is a residual block of two convolutions, each after ReLU and, before that, a norm if there is one.
//
//	p   2, 5 (convolutions), 0, 3 (norms)
//	x   [1, Y, X, C]
//	out [1, Y, X, C]
func stackResidual(p nn.Params, plan levelPlan, x *Node) *Node {
	norm := func(name string, kind Norm, x *Node) *Node {
		if groups := kind.groups(x.Shape().Dimensions[3]); groups > 0 {
			return nn.GroupNorm(p.In("%s", name), x, groups, normEpsilon)
		}
		return x
	}
	y := nn.Conv2D(p.In("2"), relu(norm("0", plan.inNorm, x)))
	y = nn.Conv2D(p.In("5"), relu(norm("3", plan.hiddenNorm, y)))
	return Add(x, y)
}

// enlarge doubles the size of a map.
//
//	p   0 (transposed convolution), 1 (3x3 convolution)
//	x   [1, Y, X, C]
//	out [1, 2Y, 2X, C']
func enlarge(p nn.Params, kind Resampler, x *Node) *Node {
	if kind == ConvTranspose {
		return nn.Conv2D(p.In("1"), nn.ConvTranspose2x2(p.In("0"), x))
	}
	return enlargeInterpolated(p.In("1"), phases[kind], x)
}

// phases say which pixels of a small map the three pixels below a 3x3 kernel are made of, when the kernel stands on
// pixel 2i or 2i+1 of the map enlarged twice: [2 phases, 3 taps, shares of the pixels i-1, i, i+1]. With the borders
// repeated these hold at the borders too.
var phases = map[Resampler][]float32{
	Bilinear: {.75, .25, 0, .25, .75, 0, 0, .75, .25 /**/, .25, .75, 0, 0, .75, .25, 0, .25, .75},
	Nearest:  {1, 0, 0, 0, 1, 0, 0, 1, 0 /**/, 0, 1, 0, 0, 1, 0, 0, 0, 1},
}

// enlargeInterpolated interpolates and convolves 3x3. Both are linear, so that each of the four kinds of pixels of the
// large map is a 3x3 convolution of the small one: no wide map of the large size is ever made.
//
//	p   weight [O, I, 3, 3], bias [O]
//	x   [1, Y, X, I]
//	out [1, 2Y, 2X, O]
func enlargeInterpolated(p nn.Params, phase []float32, x *Node) *Node {
	weight := p.As(x, "weight")
	out, in := weight.Shape().Dimensions[0], weight.Shape().Dimensions[1]
	shares := Reshape(ConstAs(x, phase), 2, 3, 3)                                 // [2, 3 taps, 3 pixels]
	weight = Dot(weight, shares).General([]int{2}, nil, []int{1}, nil)            // [O, I, kx, py, cy]
	weight = Dot(weight, shares).General([]int{2}, nil, []int{1}, nil)            // [O, I, py, cy, px, cx]
	weight = Reshape(TransposeAllAxes(weight, 3, 5, 1, 2, 4, 0), 3, 3, in, 4*out) // [cy, cx, I, py*px*O]
	y := nn.Correlate2D(x, weight)                                                // [1, Y, X, 4*O]
	dims := y.Shape().Dimensions
	y = TransposeAllAxes(Reshape(y, dims[1], dims[2], 2, 2, out), 0, 2, 1, 3, 4)
	return nn.AddLast(Reshape(y, 1, 2*dims[1], 2*dims[2], out), p.As(y, "bias"))
}
