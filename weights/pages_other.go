// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

//go:build !linux

package weights

// dropPages leaves it to the system to take pages out of memory.
func dropPages([]byte) {}
