// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/sam3d/decoder"
	"github.com/gomlx3d/image3d/sam3d/flow"
	"github.com/gomlx3d/image3d/weights"
)

// occupancyBias is the tensor that decides how much is occupied.
const occupancyBias = "out_layer.2.bias"

// noiseSeed is that of examples/generate. Another seed gives other voxels, and about as many.
const noiseSeed = 42

// measureBias runs the structure decoder on the noise that a sampling starts from and returns the bias of its output
// that leaves about the wanted number of voxels after pruning.
func (j job) measureBias(ctx context.Context, wanted int) (bias float64, voxels int, err error) {
	config := j.backend
	if config == "go" {
		config = "go:ops_sequential" // as package sam3d does: in parallel it may hang
	}
	backend, err := compute.NewWithConfig(config)
	if err != nil {
		return 0, 0, err
	}
	defer backend.Finalize()
	set := make(map[string]weights.Tensor)
	for _, e := range j.entries(weights.SSDecoder, "", nil) {
		var data bytes.Buffer
		if err := e.Write(&data); err != nil {
			return 0, 0, err
		}
		set[e.Name] = weights.Tensor{DType: e.DType, Shape: e.Shape, Data: data.Bytes()}
	}
	structure, err := decoder.NewStructure(backend, j.model.structureDecoder, weights.NewSet(set))
	if err != nil {
		return 0, 0, err
	}
	defer structure.Close()
	noise, err := j.model.structure.Noise(noiseSeed, 1)
	if err != nil {
		return 0, 0, err
	}
	defer noise.Free()
	logits, err := structure.Decode(ctx, noise[flow.ShapeLatent])
	if err != nil {
		return 0, 0, err
	}
	defer nn.Free(logits)
	return chooseBias(logits, wanted)
}

// chooseBias halves the range of biases until the number of voxels is the wanted one. It stays below the bias that
// fills half of the cells, where more occupied cells still mean more voxels at the surface.
func chooseBias(logits *tensors.Tensor, wanted int) (bias float64, voxels int, err error) {
	values, err := tensors.CopyFlatData[float32](logits)
	if err != nil {
		return 0, 0, err
	}
	ordered := slices.Sorted(slices.Values(values))
	low, high := len(ordered)/2, len(ordered)-1 // the threshold's rank: too many voxels, too few
	for high-low > 1 {
		rank := (low + high) / 2
		if voxels, err = count(values, ordered[rank], logits.Shape().Dimensions); err != nil {
			return 0, 0, err
		}
		bias = -float64(ordered[rank])
		if voxels > wanted {
			low = rank
		} else {
			high = rank
		}
		if near := wanted / 100; voxels >= wanted-near && voxels <= wanted+near {
			break
		}
	}
	return bias, voxels, nil
}

// count is the number of voxels of the logits above a threshold.
func count(values []float32, threshold float32, dims []int) (int, error) {
	shifted := make([]float32, len(values))
	for i, v := range values {
		shifted[i] = v - threshold
	}
	t := tensors.FromFlatDataAndDimensions(shifted, dims...)
	defer nn.Free(t)
	coords, err := decoder.Coordinates(t)
	if errors.Is(err, decoder.ErrNoVoxels) {
		return 0, nil
	}
	if err == nil {
		coords, err = decoder.Prune(coords, decoder.PruneRadius)
	}
	if err != nil {
		return 0, fmt.Errorf("count voxels: %w", err)
	}
	return len(coords), nil
}
