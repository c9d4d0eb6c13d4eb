// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"context"
	"fmt"
	"math"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/dinov2"
	"github.com/gomlx3d/image3d/internal/imageio"
	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/weights"
)

// V2 is the released MoGe-2 with normals, moge-2-vitl-normal.
func V2() Config {
	return Config{
		Version: 2, Backbone: dinov2.ViTL14(), Layers: []int{5, 11, 17, 23},
		Remap: RemapExp, MaskThreshold: 0.5, MinTokens: 1200, MaxTokens: 3600,
		Pyramid: PyramidConfig{
			FeatureDim: 1024, Neck: releasedStack([]int{1026, 2, 2, 2, 2}, 2, 0),
			Points: *releasedHead(3), Mask: releasedHead(1), Normal: releasedHead(3), ScaleDims: []int{1024, 1024, 1024, 1},
		},
	}
}

func releasedHead(out int) *StackConfig {
	c := releasedStack([]int{1024, 256, 128, 64, 32}, 1, out)
	return &c
}

func releasedStack(in []int, blocks, out int) StackConfig {
	return StackConfig{
		In: in, Channels: []int{1024, 256, 128, 64, 32}, Out: []int{0, 0, 0, 0, out}, Blocks: []int{0, blocks, blocks, blocks, 0},
		HiddenRatio: 1, Resamplers: []Resampler{ConvTranspose, ConvTranspose, ConvTranspose, Bilinear},
		InNorm: NormNone, HiddenNorm: NormNone,
	}
}

// PyramidConfig is what follows the encoder in MoGe-2 and MoGe-3: a neck and heads that look at each of its levels.
type PyramidConfig struct {
	FeatureDim   int          // channels of the projected features (1024)
	Neck         StackConfig  // gets the features and the coordinates of the pixels
	Points       StackConfig  // 3 channels
	Mask, Normal *StackConfig // 1 and 3 channels; nil: there is none
	ScaleDims    []int        // widths of the perceptron of the metric scale (1024, 1024, 1024, 1); nil: there is none
}

// uvDim is the channels of the coordinates of the pixels.
const uvDim = 2

func (c PyramidConfig) validate(width int) error {
	if err := checkBounds(bound{"FeatureDim", c.FeatureDim, 1, maxChannels}); err != nil {
		return err
	}
	levels := c.Neck.levels()
	features, maps := make([]int, levels), make([]int, levels)
	for level := range features {
		features[level] = uvDim
	}
	if levels > 0 {
		features[0] += c.FeatureDim
	}
	if err := c.Neck.validate("Neck", features); err != nil {
		return err
	}
	for level := range maps {
		if level > 0 && c.Neck.In[level] == 0 {
			return fmt.Errorf("%w: level %d of Neck has no convolution for the coordinates", ErrConfig, level)
		}
		maps[level] = c.Neck.given(level)
	}
	for _, head := range c.heads() {
		if err := head.config.validate(head.name, maps); err != nil {
			return err
		}
		if got := head.config.Out[levels-1]; got != head.channels {
			return fmt.Errorf("%w: %s gives %d channels, not %d", ErrConfig, head.name, got, head.channels)
		}
	}
	if dims := c.ScaleDims; dims != nil {
		if len(dims) < 2 || len(dims) > maxLevels || dims[0] != width || dims[len(dims)-1] != 1 {
			return fmt.Errorf("%w: ScaleDims %v does not lead from %d to 1", ErrConfig, dims, width)
		}
		for _, dim := range dims {
			if err := checkBounds(bound{"ScaleDims", dim, 1, maxChannels}); err != nil {
				return err
			}
		}
	}
	return nil
}

// namedHead is a head that the network has.
type namedHead struct {
	name     string // of its tensors
	channels int
	config   *StackConfig
}

func (c *PyramidConfig) heads() []namedHead {
	heads := []namedHead{{"points_head", 3, &c.Points}}
	if c.Mask != nil {
		heads = append(heads, namedHead{"mask_head", 1, c.Mask})
	}
	if c.Normal != nil {
		heads = append(heads, namedHead{"normal_head", 3, c.Normal})
	}
	return heads
}

// spec lists the tensors after the encoder.
func (c *PyramidConfig) spec() weights.Spec {
	spec := make(weights.Spec)
	spec.Add("neck.", c.Neck.spec())
	for _, head := range c.heads() {
		spec.Add(head.name+".", head.config.spec())
	}
	for i := 1; i < len(c.ScaleDims); i++ {
		linear(spec, fmt.Sprintf("scale_head.%d", 2*(i-1)), c.ScaleDims[i], c.ScaleDims[i-1])
	}
	return spec
}

// pyramid is the network of MoGe-2 (moge/model/v2.py) and, with a refiner, that of MoGe-3.
type pyramid struct {
	*stem
	neck    []nn.Weights            // by level
	heads   map[string][]nn.Weights // by name, then level
	scale   nn.Weights
	scaling *nn.Program
	climbs  map[levelPlan]*nn.Program
	refiner *refiner // nil: there is none
}

func newPyramid(s *stem) *pyramid {
	p := &pyramid{stem: s, heads: make(map[string][]nn.Weights), climbs: make(map[levelPlan]*nn.Program)}
	layers := len(s.cfg.Pyramid.ScaleDims) - 1
	p.scaling = s.program("scale", func(p nn.Params, in []*Node) *Node { return metricScale(p, layers, in[0]) })
	if s.cfg.Refiner != nil {
		p.refiner = newRefiner(s.backend, *s.cfg.Refiner)
	}
	return p
}

func (p *pyramid) load(set *weights.Set) (err error) {
	cfg := &p.cfg.Pyramid
	if p.neck, err = p.stack(&cfg.Neck, set, "neck"); err != nil {
		return err
	}
	for _, head := range cfg.heads() {
		if p.heads[head.name], err = p.stack(head.config, set, head.name); err != nil {
			return err
		}
	}
	if p.scale, err = p.upload(set, "scale_head."); err == nil && p.refiner != nil {
		p.refiner.weights, err = p.upload(set, "refiner.")
	}
	return err
}

// stack uploads the weights of a stack and makes the programs of its levels.
func (p *pyramid) stack(c *StackConfig, set *weights.Set, name string) (levels []nn.Weights, err error) {
	uploaded, err := p.upload(set, name+".")
	if err != nil {
		return nil, err
	}
	for level := range c.levels() {
		levels = append(levels, c.levelWeights(uploaded, level))
		plan := p.plan(c, level)
		if p.climbs[plan] == nil {
			p.climbs[plan] = nn.NewProgram(p.backend, "moge."+name, func(p nn.Params, in []*Node) []*Node { return climb(p, plan, in) })
		}
	}
	return levels, nil
}

// plan returns the plan of a level. The neck alone looks at coordinates, and a head gives planes at its end.
func (p *pyramid) plan(c *StackConfig, level int) levelPlan {
	neck := c == &p.cfg.Pyramid.Neck
	return c.plan(level, neck && level > 0, !neck && level == c.levels()-1)
}

func (p *pyramid) close() {
	p.scaling.Close()
	for _, program := range p.climbs {
		program.Close()
	}
	if p.refiner != nil {
		p.refiner.close()
	}
}

// patchGrid returns the sides of the grid of about numTokens patches, of the picture's aspect. Halves round to even.
func patchGrid(height, width, numTokens int) (rows, cols int, err error) {
	aspect := float64(width) / float64(height)
	rows = int(math.RoundToEven(math.Sqrt(float64(numTokens) / aspect)))
	cols = int(math.RoundToEven(math.Sqrt(float64(numTokens) * aspect)))
	if rows < 1 || cols < 1 {
		return 0, 0, fmt.Errorf("%w: a %dx%d picture is too narrow for %d patches", ErrInput, width, height, numTokens)
	}
	return rows, cols, nil
}

func (p *pyramid) forward(ctx context.Context, image Image, numTokens, rounds int) (*Raw, error) {
	rows, cols, err := patchGrid(image.Height, image.Width, numTokens)
	if err != nil {
		return nil, err
	}
	picture, err := imageio.Resize(image.planes(), patch*rows, patch*cols, imageio.BilinearAntialias)
	if err != nil {
		return nil, fmt.Errorf("moge: %w", err)
	}
	layers, err := p.encode(ctx, picture)
	defer func() { nn.Free(layers...) }()
	if err != nil {
		return nil, err
	}
	raw := &Raw{Height: image.Height, Width: image.Width}
	if raw.MetricScale, err = p.metricScale(layers[len(layers)-1]); err != nil {
		return nil, err
	}
	maps, err := p.maps(ctx, layers, rows, cols, float64(image.Width)/float64(image.Height), rounds)
	if err != nil {
		return nil, err
	}
	for name, values := range maps {
		if values, err = imageio.Resize(values, image.Height, image.Width, imageio.Bilinear); err != nil {
			return nil, fmt.Errorf("moge: %w", err)
		}
		switch name {
		case "points_head":
			raw.Points = p.cfg.Remap.points(values)
		case "mask_head":
			raw.Mask = probabilities(values.Data)
		case "normal_head":
			raw.Normals = unitVectors(values)
		}
	}
	return raw, ctx.Err()
}

// metricScale returns metres to a unit of the points, or 0 if the network does not know.
func (p *pyramid) metricScale(layer *tensors.Tensor) (float32, error) {
	if p.cfg.Pyramid.ScaleDims == nil {
		return 0, nil
	}
	scale, err := p.scaling.Call1(p.scale, layer)
	if err != nil {
		return 0, err
	}
	defer nn.Free(scale)
	values, err := tensors.CopyFlatData[float32](scale)
	if err != nil {
		return 0, err
	}
	return values[0], nil
}

// maps evaluates neck, heads and refiner. The result holds the last maps of the heads, by their names: [3 or 1, Y, X].
func (p *pyramid) maps(ctx context.Context, layers []*tensors.Tensor, rows, cols int, aspect float64, rounds int) (map[string]imageio.Planes, error) {
	u, v := coordinates(rows, cols, aspect)
	features, err := p.sum(layers, u, v)
	defer func() { nn.Free(features) }()
	if err != nil {
		return nil, err
	}
	neck := &p.cfg.Pyramid.Neck
	inputs := [][]any{{features}}
	for level := 1; level < neck.levels(); level++ {
		u, v := coordinates(rows<<level, cols<<level, aspect)
		inputs = append(inputs, []any{u, v})
	}
	levels, err := p.climb(ctx, neck, p.neck, inputs, true)
	defer func() { nn.Free(levels...) }()
	if err != nil {
		return nil, err
	}
	inputs = inputs[:0]
	for _, level := range levels {
		inputs = append(inputs, []any{level})
	}
	out := make(map[string]imageio.Planes)
	for _, head := range p.cfg.Pyramid.heads() {
		given, err := p.climb(ctx, head.config, p.heads[head.name], inputs, false)
		if err == nil {
			out[head.name], err = hostPlanes(given[0])
		}
		nn.Free(given...)
		if err != nil {
			return nil, err
		}
	}
	nn.Free(levels...)
	if rounds > 0 && p.refiner != nil {
		err = p.refiner.refine(ctx, features, out["points_head"], rounds)
	}
	return out, err
}

// climb evaluates a stack on what comes in at each level. It returns what every level gives, or the last alone, on the
// device. Also with an error the caller frees what it returns.
func (p *pyramid) climb(ctx context.Context, c *StackConfig, w []nn.Weights, inputs [][]any, all bool) (given []*tensors.Tensor, err error) {
	var x *tensors.Tensor // the map of the level before
	temporary := false    // whether it is not among those given
	for level, in := range inputs {
		var out []*tensors.Tensor
		if err = ctx.Err(); err == nil {
			if level > 0 {
				in = append([]any{x}, in...)
			}
			out, err = p.climbs[p.plan(c, level)].Call(w[level], in...)
		}
		if temporary {
			nn.Free(x)
		}
		if err != nil {
			return given, err
		}
		x = out[0]
		last, wanted := len(out)-1, all || level == len(inputs)-1
		if wanted {
			given = append(given, out[last])
		} else {
			nn.Free(out[1:]...)
		}
		temporary = last > 0 || !wanted
	}
	if temporary {
		nn.Free(x)
	}
	return given, nil
}

// hostPlanes copies planes [C, Y, X] to the host.
func hostPlanes(x *tensors.Tensor) (imageio.Planes, error) {
	dims := x.Shape().Dimensions
	values, err := tensors.CopyFlatData[float32](x)
	return imageio.Planes{C: dims[0], H: dims[1], W: dims[2], Data: values}, err
}

// metricScale is a perceptron on the class token.
//
//	p   0, 2 and on
//	x   [1, T, D]
//	out [1, 1]
func metricScale(p nn.Params, layers int, x *Node) *Node {
	x = Squeeze(Slice(x, AxisRange(), AxisElem(0)), 1) // [1, D]
	for i := range layers {
		if i > 0 {
			x = relu(x)
		}
		x = nn.Linear(p.In("%d", 2*i), x)
	}
	return Exp(x)
}
