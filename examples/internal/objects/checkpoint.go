// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"fmt"
	"io"

	"github.com/gomlx3d/image3d/testdata"
	"github.com/gomlx3d/image3d/weights"
)

// Checkpoint returns the folder of the model, and what removes it again if it is a copy of the embedded one.
func Checkpoint(ctx context.Context, model string, stderr io.Writer) (folder string, cleanUp func(), err error) {
	if model != "" {
		folder, err = weights.Resolve(ctx, model, weights.HubOptions{})
		return folder, func() {}, err
	}
	fmt.Fprintln(stderr, "No -model given: this is a small embedded model with random weights. It runs every stage and shows the\n"+
		"machinery; what it makes means nothing. Give -model a checkpoint of SAM 3D Objects.")
	return testdata.TempModel()
}
