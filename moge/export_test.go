// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"context"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/weights"
)

// NewResult is newResult, for the tests outside the package.
var NewResult = newResult

// NewRefiner makes a refiner by itself, of the configuration that m holds. It returns its evaluation on a map, and what
// frees it.
func NewRefiner(backend compute.Backend, m map[string]any, featureDim int, set *weights.Set) (
	refine func(ctx context.Context, rows, cols int, values []float32, bins []int32, features *tensors.Tensor) ([]float32, error),
	done func(), err error,
) {
	r := &reader{m: m, err: new(error)}
	cfg := r.refiner(featureDim)
	if *r.err != nil {
		return nil, nil, *r.err
	}
	if err := set.Check(cfg.spec()); err != nil {
		return nil, nil, err
	}
	s := &stem{backend: backend}
	uploaded, err := s.upload(set, "")
	if err != nil {
		return nil, nil, err
	}
	refiner := newRefiner(backend, *cfg)
	refiner.weights = uploaded
	return func(ctx context.Context, rows, cols int, values []float32, bins []int32, features *tensors.Tensor) ([]float32, error) {
			return refiner.delta(ctx, values, newVoxels(rows, cols, bins), features)
		}, func() {
			refiner.close()
			uploaded.Free()
		}, nil
}
