// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package moge

// NewResult is newResult, for the tests outside the package.
var NewResult = newResult
