// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

//go:build !(((linux && (amd64 || arm64)) || (darwin && arm64) || (windows && amd64)) && cgo && !noxla)

package sam3d

import "errors"

func checkPlugin(string) error {
	return errors.New("this program was built without XLA; build it with cgo and without the tag noxla, or choose the backend \"go\"")
}
