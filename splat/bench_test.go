// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package splat

import (
	"math/rand/v2"
	"testing"
)

const benchN = 640_000 // 20,000 voxels with 32 splats each

func BenchmarkDecode(b *testing.B) {
	raw := randomRaw(benchN, 1)
	b.SetBytes(14 * 4 * benchN)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DefaultActivation().Decode(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMakeScene(b *testing.B) {
	g := random(b, benchN, 1)
	pose := randomPose(rand.New(rand.NewPCG(1, 1)))
	b.SetBytes(2 * 14 * 4 * benchN)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := MakeScene([]Object{{g, pose}, {g, pose}}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkValidate(b *testing.B) {
	g := random(b, benchN, 1)
	b.SetBytes(14 * 4 * benchN)
	for b.Loop() {
		if err := g.Validate(); err != nil {
			b.Fatal(err)
		}
	}
}
