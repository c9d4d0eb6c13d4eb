// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gomlx3d/image3d/moge"
	"github.com/gomlx3d/image3d/weights"
)

// depthFile is an open depth model. Its set is nil if there is none.
type depthFile struct {
	cfg moge.Config
	set *weights.Set
}

func (d depthFile) close() {
	if d.set != nil {
		_ = d.set.Close()
	}
}

// findDepth opens the depth model and checks it: the one of the options, or that of the checkpoint's folder, or of the
// repository that its pipeline.yaml names. The pipeline works from point maps and from pictures alone without it, so that
// a checkpoint without one is no error, nor is a repository that cannot be had, but the reason of a warning. A model that
// was asked for must be there, and a file that is there must be right.
func (p *Pipeline) findDepth(ctx context.Context, c *weights.Checkpoint, options Options) (depthFile, error) {
	set, err := depthSet(ctx, c, options)
	switch {
	case ctx.Err() != nil:
		if err == nil {
			_ = set.Close()
		}
		return depthFile{}, ctx.Err()
	case err != nil && (options.DepthModel != "" || c.Has(weights.Depth) || errors.Is(err, weights.ErrFormat)):
		return depthFile{}, fmt.Errorf("%s: %w", weights.Depth, err)
	case err != nil:
		p.noDepth = err.Error()
		return depthFile{}, nil
	}
	depth := depthFile{set: set}
	if depth.cfg, err = moge.ConfigFromMap(set.ModelConfig, set); err != nil {
		err = fmt.Errorf("%w: %s: %w", ErrConfig, weights.Depth, err)
	} else if err = set.Check(moge.Spec(depth.cfg)); err != nil {
		err = fmt.Errorf("%s: %w", weights.Depth, err)
	}
	if err != nil {
		depth.close()
		return depthFile{}, err
	}
	if options.DepthModel == "" {
		p.depthTokens = p.cfg.depthTokens
	}
	return depth, nil
}

// depthSet opens the file of the depth model.
func depthSet(ctx context.Context, c *weights.Checkpoint, options Options) (*weights.Set, error) {
	hub := options.Hub
	if options.DepthModel != "" {
		hub.Want = nil // it was about the checkpoint
		return weights.OpenDepth(ctx, options.DepthModel, hub)
	}
	if c.Has(weights.Depth) {
		return c.Component(weights.Depth)
	}
	if c.Layout == weights.MLX {
		return nil, fmt.Errorf("the bundle has none: %w", weights.ErrMissing)
	}
	t := tree{c.YAML["pipeline"], "pipeline.yaml", &faults{}}
	repository := t.at("depth_model", "model", "pretrained_model_name_or_path").string("")
	if repository == "" {
		return nil, fmt.Errorf("the folder has none: %w", weights.ErrMissing)
	}
	const file = "model.pt"
	hub.Want = func(name string) bool { return name == file }
	folder, err := weights.Resolve(ctx, repository, hub)
	if err != nil {
		return nil, err
	}
	return weights.Open(filepath.Join(folder, file))
}
