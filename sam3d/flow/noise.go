// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package flow

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// Stage separates the random streams of one seed.
type Stage uint64

// Stages of the pipeline that draw noise.
const (
	StructureStage Stage = 1
	LatentStage    Stage = 2
)

// Noise draws standard normal values. The same seed and stage give the same values in every run: ChaCha8, keyed with
// the text "image3d noise v1" and the little-endian seed and stage, read as 64-bit words; Box-Muller in float64 on the
// upper 53 bits of two words, cosine first; each rounded to float32.
//
// The values are not those of another implementation for the same seed: the original draws from its device's generator.
type Noise struct {
	source *rand.ChaCha8
	spare  float64
	saved  bool
}

// NewNoise returns the stream of a stage.
func NewNoise(seed uint64, stage Stage) *Noise {
	var key [32]byte
	copy(key[:], "image3d noise v1")
	binary.LittleEndian.PutUint64(key[16:], seed)
	binary.LittleEndian.PutUint64(key[24:], uint64(stage))
	return &Noise{source: rand.NewChaCha8(key)}
}

// Fill draws the next len(dst) values.
func (n *Noise) Fill(dst []float32) {
	for i := range dst {
		dst[i] = float32(n.next())
	}
}

func (n *Noise) next() float64 {
	if n.saved {
		n.saved = false
		return n.spare
	}
	const unit = 1.0 / (1 << 53)
	u := float64(n.source.Uint64()>>11+1) * unit // (0, 1], so that its logarithm is finite
	angle := 2 * math.Pi * unit * float64(n.source.Uint64()>>11)
	radius := math.Sqrt(-2 * math.Log(u))
	n.spare, n.saved = radius*math.Sin(angle), true
	return radius * math.Cos(angle)
}
