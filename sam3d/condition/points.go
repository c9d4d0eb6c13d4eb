// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package condition

import (
	"context"
	"math"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/internal/nn"
)

const (
	pointEpsilon  = 1e-6 // of the layer norms
	pointMLPRatio = 2
	// windowsPerCall bounds the memory of the point embedder. With 128 windows of 64 points and width 512 an activation
	// takes 17 MB.
	windowsPerCall = 128
)

// pointNet is a point embedder with its weights.
type pointNet struct {
	cfg     PointEmbedder
	weights nn.Weights // of the windows
	table   nn.Weights // pos_embed
	windows *nn.Program
	gather  *nn.Program
}

func newPointNet(backend compute.Backend, cfg PointEmbedder, w nn.Weights) *pointNet {
	net := &pointNet{
		cfg: cfg,
		windows: nn.NewProgram(backend, "condition.windows", func(p nn.Params, in []*Node) []*Node {
			return []*Node{cfg.windowGraph(p, in[0], in[1])}
		}),
		gather: nn.NewProgram(backend, "condition.gather", func(p nn.Params, in []*Node) []*Node {
			return []*Node{cfg.gatherGraph(p, in)}
		}),
	}
	net.load(w)
	return net
}

// load takes weights, which unload frees.
func (n *pointNet) load(w nn.Weights) {
	n.weights = w.Only("point_proj", "invalid_xyz_token", "cls_token", "pos_embed_window", "blocks")
	n.table = w.Only("pos_embed")
}

func (n *pointNet) unload() {
	n.weights.Free()
	n.table.Free()
	n.weights, n.table = nil, nil
}

func (n *pointNet) close() {
	n.unload()
	n.windows.Close()
	n.gather.Close()
}

// embed returns the tokens of a map.
//
//	points [3, height, width] normalised, not finite where there is none
//	out    [1, N, C] float32 on the device, windows row-major
func (n *pointNet) embed(ctx context.Context, points []float32, height, width int) (*tensors.Tensor, error) {
	xyz, valid := n.cfg.split(points, height, width)
	grid, perWindow := n.cfg.grid(), n.cfg.PatchSize*n.cfg.PatchSize
	step := grid * rowsPerCall(grid)
	var parts []*tensors.Tensor
	defer func() { nn.Free(parts...) }()
	for first := 0; first < grid*grid; first += step {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		lo, hi := first*perWindow, (first+step)*perWindow
		places := tensors.FromFlatDataAndDimensions(xyz[3*lo:3*hi], step, perWindow, 3)
		known := tensors.FromFlatDataAndDimensions(valid[lo:hi], step, perWindow)
		part, err := n.windows.Call1(n.weights, places, known)
		nn.Free(places, known)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	in := make([]any, len(parts))
	for i, part := range parts {
		in[i] = part
	}
	return n.gather.Call1(n.table, in...)
}

// rowsPerCall is how many rows of windows are embedded together: the most that divides their number, so that all calls
// have one shape.
func rowsPerCall(grid int) int {
	rows := max(1, min(grid, windowsPerCall/grid))
	for grid%rows != 0 {
		rows--
	}
	return rows
}

// split resizes a map to the embedder's size by nearest neighbours, cuts it into windows and remaps the points. A point
// with a coordinate that is not finite is invalid, and its coordinates become zero.
//
//	points [3, height, width]
//	xyz    [N, P, 3], windows row-major, points row-major in each
//	valid  [N, P]
func (e PointEmbedder) split(points []float32, height, width int) (xyz []float32, valid []bool) {
	grid, size, area := e.grid(), e.PatchSize, height*width
	rows, cols := nearest(height, e.InputSize), nearest(width, e.InputSize)
	xyz = make([]float32, 0, 3*e.InputSize*e.InputSize)
	valid = make([]bool, 0, e.InputSize*e.InputSize)
	for window := range grid * grid {
		top, left := window/grid*size, window%grid*size
		for i := range size * size {
			at := rows[top+i/size]*width + cols[left+i%size]
			p := [3]float32{points[at], points[area+at], points[2*area+at]}
			ok := finite(p[0]) && finite(p[1]) && finite(p[2])
			if !ok {
				p = [3]float32{}
			}
			p = e.Remap.Apply(p)
			xyz, valid = append(xyz, p[:]...), append(valid, ok)
		}
	}
	return xyz, valid
}

func finite(v float32) bool { return math.Abs(float64(v)) <= math.MaxFloat32 }

// nearest returns the source of each position of an axis that is resized from in to out. The arithmetic is PyTorch's,
// in float32: exact arithmetic gives other sources for some sizes.
func nearest(in, out int) []int {
	sources := make([]int, out)
	scale := float32(in) / float32(out)
	for d := range sources {
		sources[d] = min(int(float32(d)*scale), in-1)
	}
	return sources
}

// windowGraph makes a token of each window: a transformer block over a class token and the window's points, of which
// only the class token is kept.
//
// Only what that token needs is computed. Its query is the same in all windows, so the projection to keys is applied to
// the query instead of to every point, and the projection to values to the weighted mean of the points. The bias of the
// keys moves all scores of a head alike and has no effect.
//
//	p      point_proj, invalid_xyz_token, cls_token, pos_embed_window, blocks.0.{norm1,attn,norm2,mlp}
//	xyz    [N, P, 3]
//	valid  [N, P] bool
//	out    [N, C]
func (e PointEmbedder) windowGraph(p nn.Params, xyz, valid *Node) *Node {
	x := nn.Linear(p.In("point_proj"), xyz) // [N, P, C]
	dims := x.Shape().Dimensions
	missing := BroadcastToDims(Reshape(p.As(x, "invalid_xyz_token"), 1, 1, e.Width), dims...)
	x = Where(BroadcastToDims(ExpandAxes(valid, -1), dims...), x, missing)

	position := p.As(x, "pos_embed_window")                                           // [1, 1+P, C]
	class := Add(p.As(x, "cls_token"), Slice(position, AxisRange(), AxisRange(0, 1))) // [1, 1, C]
	x = Add(x, Slice(position, AxisRange(), AxisRange(1)))                            // [N, P, C]
	x = Concatenate([]*Node{BroadcastToDims(class, dims[0], 1, e.Width), x}, 1)       // [N, 1+P, C]
	class = Reshape(class, 1, e.Width)                                                // [1, C]

	block := p.In("blocks.0")
	query := nn.LayerNorm(block.In("norm1"), class, pointEpsilon)
	tokens := nn.LayerNorm(block.In("norm1"), x, pointEpsilon)
	x = Add(class, e.attendClass(block.In("attn"), query, tokens)) // [N, C]
	h := nn.LayerNorm(block.In("norm2"), x, pointEpsilon)
	return Add(x, nn.FeedForward(block.In("mlp"), "fc1", "fc2", nn.GELU, h))
}

// attendClass attends from one query to the tokens of each window.
//
//	p      qkv, proj
//	query  [1, C]
//	tokens [N, T, C]
//	out    [N, C]
func (e PointEmbedder) attendClass(p nn.Params, query, tokens *Node) *Node {
	width, heads := e.Width, e.NumHeads
	part := func(name string, i int) *Node { // the queries', the keys' or the values' share of qkv
		return Slice(p.As(tokens, "qkv."+name), AxisRange(i*width, (i+1)*width))
	}
	perHead := func(weight *Node) *Node { return Reshape(weight, heads, width/heads, width) } // [H, K, C]

	query = nn.AddLast(nn.MatMulT(query, part("weight", 0)), part("bias", 0)) // [1, C]
	query = MulScalar(Reshape(query, heads, width/heads), 1/math.Sqrt(float64(width/heads)))
	query = Dot(query, perHead(part("weight", 1))).General([]int{1}, []int{0}, []int{1}, []int{0}) // [H, C]

	scores := nn.MatMulT(tokens, query) // [N, T, H]
	share := Exp(Sub(scores, ReduceAndKeep(scores, ReduceMax, 1)))
	share = Div(share, ReduceAndKeep(share, ReduceSum, 1))
	mean := Dot(share, tokens).General([]int{1}, []int{0}, []int{1}, []int{0})                     // [N, H, C]
	value := Dot(mean, perHead(part("weight", 2))).General([]int{2}, []int{1}, []int{2}, []int{0}) // [H, N, K]
	value = Reshape(TransposeAllAxes(value, 1, 0, 2), -1, width)                                   // [N, C]
	return nn.Linear(p.In("proj"), nn.AddLast(value, part("bias", 2)))
}

// gatherGraph joins the windows of a map and adds their positions.
//
//	p    pos_embed [1, C, grid, grid]
//	in   [n, C] each
//	out  [1, N, C]
func (e PointEmbedder) gatherGraph(p nn.Params, in []*Node) *Node {
	x := concatenate(in, 0) // [N, C]
	position := Reshape(p.As(x, "pos_embed"), e.Width, e.grid()*e.grid())
	return ExpandAxes(Add(x, TransposeAllAxes(position, 1, 0)), 0)
}

// concatenate joins nodes, of which there may be one.
func concatenate(in []*Node, axis int) *Node {
	if len(in) == 1 {
		return in[0]
	}
	return Concatenate(in, axis)
}
