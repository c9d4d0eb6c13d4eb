// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/dtypes/float16"

	"github.com/gomlx3d/image3d/weights"
)

// draw says how the values of a tensor are drawn: normal, or as listed.
type draw struct {
	mean, deviation float64
	repeat          int       // rows (of the first axis) that are equal, 1 for none
	listed          []float64 // repeated over the tensor; mean and deviation do not matter
}

// The last layers have less gain than the others, which keep the scale of what passes: a random velocity should be
// small beside the noise, so that it is noise of unit scale that the structure decoder sees and its bias was measured
// for; points of the depth model should lie about one unit away.
const (
	lastGain   = 0.1
	layerScale = 0.2  // of the residual branches of DINOv2
	positions  = 0.02 // of embeddings, biases and the spread of norms
	maskBias   = 1.5  // of the depth model's mask, so that most pixels are valid
	sdfBias    = 2    // of the mesh decoder's signed distances, in deviations: some small closed surfaces, no foam
)

var (
	embedding = regexp.MustCompile(`(^|\.)(pos_emb|pos_embed|pos_embed_window|cls_token|mask_token|register_tokens|idx_emb|invalid_xyz_token)$`)
	lastLayer = regexp.MustCompile(`(^|\.)out_layer\.weight$|^head\.output_block\.\d+\.[1-9]\d*\.weight$`)
	// transposed is the weight of a transposed convolution of the depth model, [in, out, k, k].
	transposed = regexp.MustCompile(`^head\.upsample_blocks\.\d+\.0\.0\.weight$`)
	// shuffled is the weight before a pixel shuffle of the structure decoder. Its eight rows for the corners of a cell
	// are equal: it enlarges cells to blocks, and noise to lumps that pruning can hollow.
	shuffled = regexp.MustCompile(`^blocks\.\d+\.conv\.weight$`)
)

// drawOf returns how a tensor of a component is drawn.
func drawOf(component, name string, shape []int, m model) draw {
	d := draw{deviation: positions, repeat: 1}
	size := elements(shape)
	switch {
	case name == "image_mean":
		d.listed = []float64{0.485, 0.456, 0.406} // of ImageNet: constants, not parameters
	case name == "image_std":
		d.listed = []float64{0.229, 0.224, 0.225}
	case name == "offset_perturbation":
		d.deviation = 0.3
	case strings.HasSuffix(name, "ls1.gamma"), strings.HasSuffix(name, "ls2.gamma"):
		d.mean = layerScale
	case strings.HasSuffix(name, ".gamma"):
		d.mean, d.deviation = 1, 0
	case embedding.MatchString(name):
	case len(shape) == 1 && strings.HasSuffix(name, ".weight"): // of a norm
		d.mean = 1
	case len(shape) > 1 && transposed.MatchString(name):
		d.deviation = 1 / math.Sqrt(float64(shape[0]))
	case len(shape) > 1:
		d.deviation = math.Sqrt(float64(shape[0]) / float64(size)) // one over the root of the inputs
		if lastLayer.MatchString(name) {
			d.deviation *= lastGain
		}
		if component == weights.SSDecoder && shuffled.MatchString(name) {
			d.repeat = 8
		}
	}
	if component == weights.SLATDecoderMesh && name == "out_layer.bias" {
		d.listed = make([]float64, size)
		for corner := range 8 {
			d.listed[corner] = sdfBias * lastGain
		}
	}
	if mask := m.depth.Trunk.LastResBlocks + 2; component == weights.Depth && name == fmt.Sprintf("head.output_block.1.%d.bias", mask) {
		d.listed = []float64{maskBias}
	}
	return d
}

func elements(shape []int) int {
	size := 1
	for _, dim := range shape {
		size *= dim
	}
	return size
}

// steps is the number of different values of a random tensor: the quantiles of the normal distribution in the middle
// of as many equal parts. Two random bytes choose one, which costs a table and a copy for each parameter.
const steps = 1 << 16

var quantiles = sync.OnceValue(func() []float64 {
	table := make([]float64, steps)
	for i := range table {
		table[i] = math.Sqrt2 * math.Erfinv((2*float64(i)+1)/steps-1)
	}
	return table
})

// write writes the values of a tensor, which depend on nothing but the seed, the component and the name.
func (d draw) write(w io.Writer, seed uint64, component, name string, shape []int, dtype dtypes.DType) error {
	size, width := elements(shape), dtype.Size()
	if d.listed != nil || size < steps {
		return d.writeSmall(w, seed, component, name, shape, dtype)
	}
	table := make([]byte, 0, steps*width)
	for _, q := range quantiles() {
		table = encode(table, d.mean+d.deviation*q, dtype)
	}
	random := source(seed, component, name)
	row := 1 << 14 // values drawn at a time
	if d.repeat > 1 {
		row = size / shape[0]
	}
	buffer := make([]byte, 0, row*width)
	for done := 0; done < size; done += row * d.repeat {
		buffer = buffer[:0]
		distinct := min(row, size-done)
		var bits uint64
		for i := range distinct {
			if i%4 == 0 {
				bits = random.Uint64()
			}
			at := int(bits&(steps-1)) * width
			buffer, bits = append(buffer, table[at:at+width]...), bits>>16
		}
		for range d.repeat {
			if _, err := w.Write(buffer); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeSmall is write for tensors that are not worth a table.
func (d draw) writeSmall(w io.Writer, seed uint64, component, name string, shape []int, dtype dtypes.DType) error {
	size, random := elements(shape), source(seed, component, name)
	buffer := make([]byte, 0, size*dtype.Size())
	row := 0
	if len(shape) > 0 {
		row = size / shape[0]
	}
	for i := 0; i < size; i++ {
		switch {
		case d.listed != nil:
			buffer = encode(buffer, d.listed[i%len(d.listed)], dtype)
		case d.repeat > 1 && i/row%d.repeat > 0:
			from := (i - row) * dtype.Size()
			buffer = append(buffer, buffer[from:from+dtype.Size()]...)
		default:
			buffer = encode(buffer, d.mean+d.deviation*random.NormFloat64(), dtype)
		}
	}
	_, err := w.Write(buffer)
	return err
}

// copied are the tensors of the image encoders, which are copies of one DINOv2 in the released checkpoint.
var copied = regexp.MustCompile(`^module_list\.\d+\.backbone\.`)

// source is the stream of one tensor.
func source(seed uint64, component, name string) *rand.Rand {
	key := component + "/" + name
	if at := copied.FindStringIndex(name); at != nil && component != weights.Depth {
		key = name[at[1]:]
	}
	hash := fnv.New64a()
	_, _ = io.WriteString(hash, key)
	return rand.New(rand.NewPCG(seed, hash.Sum64()))
}

// encode appends a number in a dtype.
func encode(to []byte, v float64, dtype dtypes.DType) []byte {
	switch dtype {
	case dtypes.BFloat16:
		return binary.LittleEndian.AppendUint16(to, uint16(bfloat16.FromFloat32(float32(v))))
	case dtypes.Float16:
		return binary.LittleEndian.AppendUint16(to, uint16(float16.FromFloat32(float32(v))))
	}
	return binary.LittleEndian.AppendUint32(to, math.Float32bits(float32(v)))
}
