// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx/compute"

	"github.com/gomlx3d/image3d/weights"
)

// checkpointFiles are the names of released files in a folder, the preferred first.
var checkpointFiles = []string{"sam3.1_multiplex.pt", "sam3.pt", "sam3.1_multiplex.safetensors", "sam3.safetensors", "model.safetensors"}

// Open loads a released network: a file of any layout, a folder that holds one, or a repository owner/name[@revision] of
// the model hub, such as facebook/sam3, which wants a token. The layout and the heads are those that the file has.
//
// The vocabulary of the text encoder is read from the same folder. Without one, prompts of Segment fail with
// ErrVocabulary; see LoadVocabulary. A network of other sizes than those released has a file sam3_config.json beside it,
// with the fields of Config, by their tags, that differ.
//
// Errors wrap ErrConfig, or are those of package weights.
func Open(ctx context.Context, backend compute.Backend, source string, hub weights.HubOptions) (*Model, error) {
	path, err := checkpointFile(ctx, source, hub)
	if err != nil {
		return nil, fmt.Errorf("segment: %w", err)
	}
	set, err := weights.Open(path)
	if err != nil {
		return nil, fmt.Errorf("segment: %w", err)
	}
	defer set.Close()
	cfg, err := Released(set)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if cfg.Layout != MetaSAM3 && cfg.Layout != MetaSAM31 {
		if cfg.ViTEpsilon, err = transformersEpsilon(filepath.Join(filepath.Dir(path), "config.json")); err != nil {
			return nil, err
		}
	}
	if err := readSizes(filepath.Join(filepath.Dir(path), sizesFile), &cfg); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	model, err := New(backend, cfg, set)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if cfg.Grounding {
		model.lexicon.missing = model.LoadVocabulary(filepath.Dir(path)) // texts need it, clicks do not
	}
	return model, nil
}

// checkpointFile finds the file of a source.
func checkpointFile(ctx context.Context, source string, hub weights.HubOptions) (string, error) {
	if info, err := os.Stat(source); err == nil && !info.IsDir() {
		return source, nil
	}
	if hub.Want == nil {
		hub.Want = func(name string) bool {
			return slices.Contains(checkpointFiles[:2], name) || slices.Contains(vocabularyFiles, name)
		}
	}
	dir, err := weights.Resolve(ctx, source, hub)
	if err != nil {
		return "", err
	}
	for _, name := range checkpointFiles {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() {
			return filepath.Join(dir, name), nil
		}
	}
	return "", fmt.Errorf("%s holds none of %s: %w", dir, strings.Join(checkpointFiles, ", "), weights.ErrMissing)
}

// Released returns the configuration of a released network whose tensors are those of set: its layout and its heads are
// told by their names. It fails with ErrConfig if there is no SAM 3.
func Released(set *weights.Set) (Config, error) {
	names := set.Names()
	has := func(prefix string) bool {
		i, found := slices.BinarySearch(names, prefix)
		return found || i < len(names) && strings.HasPrefix(names[i], prefix)
	}
	cfg := SAM3()
	const vision = "backbone.vision_backbone."
	switch {
	case has("detector_model."):
		cfg.Layout = TransformersVideo
	case has("vision_encoder.") && has("mask_decoder.transformer."):
		cfg.Layout = TransformersTracker
	case has("vision_encoder."):
		cfg.Layout = TransformersModel
	case has("tracker.model."), has(vision + "interactive_convs."), has(metaPrefix + vision + "interactive_convs."),
		has(vision + "propagation_convs."), has(metaPrefix + vision + "propagation_convs."):
		cfg = SAM31()
	case !has(vision) && !has(metaPrefix+vision):
		return Config{}, fmt.Errorf("%w: none of the %d tensors has a name of SAM 3", ErrConfig, len(names))
	}
	file := fileNames(cfg.Layout, set)
	hasHead := func(modules ...string) bool {
		for _, module := range modules {
			if _, ok := file[cfg.Layout.source(module).names[0]]; ok {
				return true
			}
		}
		return false
	}
	cfg.Grounding = hasHead("detector.transformer.decoder.query_embed.weight", "detector.geometry_encoder.cls_embed.weight",
		"detector.backbone.language_backbone.resizer.weight", "detector.segmentation_head.instance_seg_head.weight")
	cfg.Interactive = hasHead(maskDecoder+".iou_token.weight", maskDecoder+".mask_tokens.weight",
		promptEncoder+".not_a_point_embed.weight", promptEncoder+".no_mask_embed.weight")
	if !cfg.Grounding && !cfg.Interactive {
		return Config{}, fmt.Errorf("%w: an image encoder without any head", ErrConfig)
	}
	return cfg, nil
}

// maxConfigFile bounds a configuration file in bytes.
const maxConfigFile = 1 << 20

// sizesFile tells the sizes of a network that was not released.
const sizesFile = "sam3_config.json"

// readSizes reads a sizesFile over a configuration. A missing one changes nothing.
func readSizes(path string, cfg *Config) error {
	data, err := readConfigFile(path)
	if data == nil || err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(cfg); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrConfig, path, err)
	}
	return nil
}

// readConfigFile reads a small file. It returns nothing for one that is missing.
func readConfigFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("segment: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxConfigFile {
		return nil, fmt.Errorf("%w: %s is no file of at most %d bytes", ErrConfig, path, maxConfigFile)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("segment: %w", err)
	}
	return data, nil
}

// transformersEpsilon reads the epsilon of the image encoder's norms from a configuration of transformers. Where nothing
// is said, it is that of its classes.
func transformersEpsilon(path string) (float64, error) {
	const missing = 1e-6
	data, err := readConfigFile(path)
	if err != nil {
		return 0, err
	}
	if data == nil {
		return missing, nil
	}
	type model struct {
		Vision struct {
			Backbone struct {
				Epsilon float64 `json:"layer_norm_eps"`
			} `json:"backbone_config"`
		} `json:"vision_config"`
	}
	var config struct {
		model
		Detector model `json:"detector_config"`
	}
	if err := json.Unmarshal(data, &config); err != nil {
		return 0, fmt.Errorf("%w: %s: %w", ErrConfig, path, err)
	}
	for _, m := range []model{config.Detector, config.model} {
		if m.Vision.Backbone.Epsilon != 0 {
			return m.Vision.Backbone.Epsilon, nil
		}
	}
	return missing, nil
}
