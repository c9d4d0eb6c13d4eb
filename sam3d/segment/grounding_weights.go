// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import "github.com/gomlx3d/image3d/weights"

// textSpec lists the tensors of the text encoder.
func textSpec(cfg Config) weights.Spec { return weights.Spec{} }

// groundingSpec lists the tensors of the grounding head, its neck (which visionSpec has) and the text encoder aside.
func groundingSpec(cfg Config) weights.Spec { return weights.Spec{} }
