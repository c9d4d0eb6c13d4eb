// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

import (
	"context"

	"github.com/gomlx/compute"

	"github.com/gomlx3d/image3d/weights"
)

// Open loads a model of any version from a file, a folder or a repository of the model hub; see weights.OpenDepth. The
// weights say which version it is.
//
// Errors wrap ErrConfig, or are those of package weights or the context's.
func Open(ctx context.Context, backend compute.Backend, source string, hub weights.HubOptions) (*Model, error) {
	set, err := weights.OpenDepth(ctx, source, hub)
	if err != nil {
		return nil, err
	}
	defer func() { _ = set.Close() }()
	cfg, err := ConfigFromMap(set.ModelConfig, set)
	if err != nil {
		return nil, err
	}
	return New(backend, cfg, set)
}
