// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo && !noxla

package sam3d

/*
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
static void give_back(void) { malloc_trim(0); }
#else
static void give_back(void) {}
#endif
*/
import "C"

// releaseNative returns what XLA has freed to the system: glibc keeps the pages of all but its largest blocks.
func releaseNative() { C.give_back() }
