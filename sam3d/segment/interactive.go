// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/internal/nn"
)

const (
	pointLabels  = 4 // negative, positive, upper left and lower right corner
	maskTokens   = 4 // one for a single mask, three for the whole, a part and a part of that
	twoWayLayers = 2
)

// What a prompt token means, as an index into the table of label embeddings.
const (
	tokenBackground = iota
	tokenForeground
	tokenUpperLeft
	tokenLowerRight
	tokenNoPoint // ends every prompt that has others
	tokenZero    // of transformers, which fills up shorter prompts of a batch with it
)

// minTokens is the smallest number of prompt tokens that a program is compiled for; the others are its doubles.
const minTokens = 4

// clickFeatures are what the interactive head needs of a picture.
type clickFeatures struct {
	fine, middle *tensors.Tensor // [B, 4g, 4g, D/8], [B, 2g, 2g, D/4]
	coarse       *tensors.Tensor // [B, g*g, D]
	position     *tensors.Tensor // [1, g*g, D], the same for every picture
}

func (f clickFeatures) free() { nn.Free(f.fine, f.middle, f.coarse, f.position) }

// interactive is the head for clicks: the prompt encoder and the mask decoder of SAM 2 (Ravi et al., 2024), on feature
// maps of its own.
type interactive struct {
	cfg                     Config
	feature                 nn.Weights
	withoutMask, withPrompt nn.Weights // by whether the prompt has a mask

	prepare, decode *nn.Program
}

func newInteractive(backend compute.Backend, cfg Config, w nn.Weights) *interactive {
	prompts, decoder := w.In(promptEncoder), w.In(maskDecoder)
	h := &interactive{cfg: cfg}
	h.feature = decoder.Only("conv_s0", "conv_s1")
	h.feature["no_mem_embed"] = w[noMemory]
	h.feature["positions"] = prompts["pe_layer.positional_encoding_gaussian_matrix"]
	decode := func(without string) nn.Weights {
		sub := make(nn.Weights)
		for name, t := range decoder {
			if _, used := h.feature[name]; !used {
				sub["decoder."+name] = t
			}
		}
		for name, t := range prompts {
			sub["prompt."+name] = t
		}
		for name := range sub.Only(without) {
			delete(sub, name)
		}
		return sub
	}
	h.withoutMask, h.withPrompt = decode("prompt.mask_downscaling"), decode("prompt.no_mask_embed")
	h.prepare = nn.NewProgram(backend, "segment.click.features", cfg.clickFeatures)
	h.decode = nn.NewProgram(backend, "segment.click", cfg.click)
	return h
}

func (h *interactive) close() {
	h.prepare.Close()
	h.decode.Close()
}

// features makes what the head needs of the maps of its neck.
func (h *interactive) features(levels []*tensors.Tensor) (clickFeatures, error) {
	out, err := h.prepare.Call(h.feature, levels[0], levels[1], levels[2])
	if err != nil {
		return clickFeatures{}, err
	}
	return clickFeatures{fine: out[0], middle: out[1], coarse: out[2], position: out[3]}, nil
}

// clickTokens are the prompt tokens of one object: places in the working picture, in 0..1, and their meanings.
type clickTokens struct {
	places [][2]float32
	kinds  []int32
}

func (t *clickTokens) add(x, y float64, kind int32) {
	t.places, t.kinds = append(t.places, [2]float32{float32(x), float32(y)}), append(t.kinds, kind)
}

// decoded are the head's answers.
type decoded struct {
	side   int         // 4g, of the masks
	masks  [][]float32 // [maskTokens][side*side] logits
	scores []float32   // [maskTokens], how well each mask fits, estimated intersection over union
	object float32     // logit of there being an object
}

// run decodes one prompt.
//
//	mask [4g*4g] logits, or nil
func (h *interactive) run(f clickFeatures, tokens clickTokens, mask []float32) (*decoded, error) {
	return h.runPadded(f, tokens, powerAbove(len(tokens.kinds), minTokens), mask)
}

// runPadded is run with tokens that do not count added up to a number.
func (h *interactive) runPadded(f clickFeatures, tokens clickTokens, padded int, mask []float32) (*decoded, error) {
	places, kinds, valid := make([]float32, 2*padded), make([]int32, padded), make([]bool, padded)
	for i, place := range tokens.places {
		places[2*i], places[2*i+1], kinds[i], valid[i] = place[0], place[1], tokens.kinds[i], true
	}
	side := 4 * h.cfg.grid()
	host := []*tensors.Tensor{
		tensors.FromFlatDataAndDimensions(places, 1, padded, 2), tensors.FromFlatDataAndDimensions(kinds, 1, padded),
		tensors.FromFlatDataAndDimensions(valid, 1, padded),
	}
	w := h.withoutMask
	if mask != nil {
		w, host = h.withPrompt, append(host, tensors.FromFlatDataAndDimensions(mask, 1, side, side, 1))
	}
	defer nn.Free(host...)
	in := []any{f.fine, f.middle, f.coarse, f.position}
	for _, t := range host {
		in = append(in, t)
	}
	out, err := h.decode.Call(w, in...)
	if err != nil {
		return nil, err
	}
	defer nn.Free(out...)
	return newDecoded(side, out)
}

func newDecoded(side int, out []*tensors.Tensor) (*decoded, error) {
	var flat [3][]float32
	for i, t := range out {
		var err error
		if flat[i], err = tensors.CopyFlatData[float32](t); err != nil {
			return nil, err
		}
	}
	d := &decoded{side: side, scores: flat[1], object: flat[2][0]}
	for i := range maskTokens {
		d.masks = append(d.masks, flat[0][i*side*side:(i+1)*side*side])
	}
	return d, nil
}

// single returns the index of the mask for prompts that leave little doubt: that of the first token, or, if small
// changes of the threshold move its border far, the best of the others.
func (d *decoded) single(delta, threshold float64) int {
	inside, around := 0, 0
	for _, v := range d.masks[0] {
		if float64(v) > delta {
			inside++
		}
		if float64(v) > -delta {
			around++
		}
	}
	if around == 0 || float64(inside)/float64(around) >= threshold {
		return 0
	}
	return d.best()
}

// best returns the index of the mask with the highest score among those for doubtful prompts.
func (d *decoded) best() int {
	best := 1
	for i := best + 1; i < maskTokens; i++ {
		if d.scores[i] > d.scores[best] {
			best = i
		}
	}
	return best
}
