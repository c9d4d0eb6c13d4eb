// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flow

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gomlx3d/image3d/internal/nn"
)

const (
	timeFrequencies = 256  // values of a time's sinusoid
	blockEpsilon    = 1e-6 // of the layer norms inside the blocks
	finalEpsilon    = 1e-5 // of the layer norm before the output projection
)

// Graph functions of Structure, in calling order. Streams keep the order of cfg.streams() everywhere.

// enter embeds time and state.
//
//	in  sinusoid of t [B or 1, 256]; sinusoid of d likewise, if p has d_embedder; latents [B, tokens, channels]
//	out time embedding [B or 1, D], or the modulation [B or 1, 6D] if blocks share it; streams [B, T, D]
func (cfg StructureConfig) enter(p nn.Params, in []*Node) []*Node {
	time := nn.FeedForward(p.In("t_embedder.mlp"), "0", "2", nn.SiLU, in[0]) // [B, D]
	in = in[1:]
	if p.Has("d_embedder.mlp.0.weight") {
		time = Add(time, nn.FeedForward(p.In("d_embedder.mlp"), "0", "2", nn.SiLU, in[0]))
		in = in[1:]
	}
	if cfg.SharedModulation {
		time = nn.Linear(p.In("adaLN_modulation.1"), nn.SiLU(time)) // [B, 6D]
	}
	embedded := make(map[string]*Node)
	for i, name := range cfg.names() {
		latent := p.In("latent_mapping.%s", name)
		x := nn.Linear(latent.In("input_layer"), in[i]) // [B, tokens, D]
		embedded[name] = Add(x, ExpandAxes(latent.As(x, "pos_emb"), 0))
	}
	out := []*Node{time}
	for _, s := range cfg.streams() {
		parts := make([]*Node, len(s.Latents))
		for i, name := range s.Latents {
			parts[i] = embedded[name]
		}
		out = append(out, Concatenate(parts, 1)) // [B, T, D]
	}
	return out
}

// project turns condition tokens into the keys and values of one block.
//
//	in  tokens [B, S, cond]
//	out k, v [B, H, S, K] of each stream of many tokens in turn
func (cfg StructureConfig) project(p nn.Params, in []*Node) []*Node {
	var out []*Node
	for _, s := range cfg.streams() {
		if cfg.few(s) {
			continue
		}
		k, v := crossContext(p.In("cross_attn.%s", s.Name), in[0], cfg.Heads)
		out = append(out, k, v)
	}
	return out
}

// constants returns what the cross attentions of one block add without a condition.
//
//	out [D] of each stream
func (cfg StructureConfig) constants(p nn.Params, _ []*Node) []*Node {
	var out []*Node
	for _, s := range cfg.streams() {
		out = append(out, crossConstant(p.In("cross_attn.%s", s.Name)))
	}
	return out
}

// conditionalBlock is one transformer block.
//
//	in  time [B or 1, D] or modulation [B or 1, 6D]; streams [B, T, D]; condition tokens [B, S, cond];
//	    k, v [B, H, S, K] of each stream of many tokens in turn
//	out streams [B, T, D]
func (cfg StructureConfig) conditionalBlock(p nn.Params, in []*Node) []*Node {
	streams := cfg.streams()
	tokens, kv := in[1+len(streams)], in[2+len(streams):]
	return cfg.block(p, in, func(i int, x *Node) *Node {
		name := streams[i].Name
		h, cross := nn.LayerNorm(p.In("norm2.%s", name), x, blockEpsilon), p.In("cross_attn.%s", name)
		if cfg.few(streams[i]) {
			return crossFew(cross, h, tokens, cfg.Heads)
		}
		k, v := kv[0], kv[1]
		kv = kv[2:]
		return crossAttention(cross, h, k, v, cfg.Heads)
	})
}

// unconditionalBlock is conditionalBlock for condition tokens that are all zero.
//
//	in  as conditionalBlock, but the constants [D] of each stream instead of tokens, k and v
func (cfg StructureConfig) unconditionalBlock(p nn.Params, in []*Node) []*Node {
	constants := in[1+len(cfg.streams()):]
	return cfg.block(p, in, func(i int, x *Node) *Node {
		return ExpandLeftToRank(ConvertDType(constants[i], x.DType()), x.Rank())
	})
}

// block adds self attention, cross attention and a perceptron to every stream. The modulation is the same for all
// streams and tokens; cross attention has none, and no gate. It is called for one stream after the other.
func (cfg StructureConfig) block(p nn.Params, in []*Node, cross func(i int, x *Node) *Node) []*Node {
	streams := cfg.streams()
	modulation := in[0]
	if !cfg.SharedModulation {
		modulation = nn.Linear(p.In("adaLN_modulation.1"), nn.SiLU(modulation)) // [B, 6D]
	}
	m := Split(modulation, -1, 6) // [B, D] each: shift, scale and gate of the attention, then of the perceptron
	normed := make([]*Node, len(streams))
	for i := range streams {
		normed[i] = nn.Modulate(nn.Standardize(in[1+i], blockEpsilon), m[0], m[1])
	}
	attended := cfg.selfAttention(p.In("self_attn"), normed)
	out := make([]*Node, len(streams))
	for i, s := range streams {
		x := Add(in[1+i], Mul(ExpandAxes(m[2], 1), attended[i]))
		x = Add(x, cross(i, x))
		h := nn.Modulate(nn.Standardize(x, blockEpsilon), m[3], m[4])
		h = nn.FeedForward(p.In("mlp.%s.mlp", s.Name), "0", "2", nn.GELUTanh, h)
		out[i] = Add(x, Mul(ExpandAxes(m[5], 1), h))
	}
	return out
}

// selfAttention attends within and between streams: shape to itself, the others together to themselves and to shape.
//
//	x   streams [B, T, D]
//	out streams [B, T, D]
func (cfg StructureConfig) selfAttention(p nn.Params, x []*Node) []*Node {
	var q, k, v []*Node // of the streams but shape, then of shape, [B, H, T, K]
	var order []int     // their streams
	project := func(i int, name string) {
		qkv := nn.SplitHeads(nn.Linear(p.In("to_qkv.%s", name), x[i]), 3, cfg.Heads)
		q = append(q, nn.HeadsFirst(nn.HeadRMSNorm(p.In("q_rms_norm.%s", name), qkv[0])))
		k = append(k, nn.HeadsFirst(nn.HeadRMSNorm(p.In("k_rms_norm.%s", name), qkv[1])))
		v = append(v, nn.HeadsFirst(qkv[2]))
		order = append(order, i)
	}
	streams := cfg.streams()
	shape := 0
	for i, s := range streams {
		if s.Name == ShapeLatent {
			shape = i
		} else {
			project(i, s.Name)
		}
	}
	others := len(order)
	project(shape, ShapeLatent)

	out := make([]*Node, len(x))
	out[shape] = nn.Attend(q[others], k[others], v[others], nil) // [B, T, D]
	if others > 0 {
		joint := nn.Attend(Concatenate(q[:others], 2), Concatenate(k, 2), Concatenate(v, 2), nil) // [B, sum of T, D]
		start := 0
		for _, i := range order[:others] {
			end := start + x[i].Shape().Dimensions[1]
			out[i] = Slice(joint, AxisRange(), AxisRange(start, end))
			start = end
		}
	}
	for i, s := range streams {
		out[i] = nn.Linear(p.In("to_out.%s", s.Name), out[i])
	}
	return out
}

// leave turns streams into the velocities of the latents.
//
//	in  streams [B, T, D]
//	out latents [B, tokens, channels], in the order of cfg.Latents
func (cfg StructureConfig) leave(p nn.Params, in []*Node) []*Node {
	velocity := make(map[string]*Node)
	for i, s := range cfg.streams() {
		start := 0
		for _, name := range s.Latents {
			end := start + cfg.latent(name).Tokens
			h := nn.Standardize(Slice(in[i], AxisRange(), AxisRange(start, end)), finalEpsilon)
			velocity[name] = nn.Linear(p.In("latent_mapping.%s.out_layer", name), h)
			start = end
		}
	}
	out := make([]*Node, len(cfg.Latents))
	for i, name := range cfg.names() {
		out[i] = velocity[name]
	}
	return out
}
