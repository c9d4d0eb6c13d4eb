// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

//go:build !(linux && cgo && !noxla)

package sam3d

// releaseNative does nothing: there is no native library, or its allocator is not known.
func releaseNative() {}
