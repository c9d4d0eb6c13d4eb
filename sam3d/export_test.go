// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import "github.com/gomlx/compute"

// UseBackend has OpenBackend return a backend of a test for a configuration.
func UseBackend(config string, backend compute.Backend) {
	backends.Lock()
	defer backends.Unlock()
	if backends.byConfig == nil {
		backends.byConfig = make(map[string]compute.Backend)
	}
	backends.byConfig[config] = backend
}
