// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package nn

// LimitGraphs sets how many graphs all programs keep and returns a function that sets the usual number again.
func LimitGraphs(n int) (undo func()) {
	graphs.mu.Lock()
	defer graphs.mu.Unlock()
	graphs.limit = n
	return func() { LimitGraphs(MaxGraphs) }
}

// Crowd makes room be asked for with every graph, until undo.
func Crowd() (undo func()) {
	graphs.mu.Lock()
	defer graphs.mu.Unlock()
	before := graphs.crowded
	graphs.crowded = func() bool { return true }
	return func() { graphs.crowded = before }
}

// KeptGraphs returns how many graphs there are.
func KeptGraphs() int {
	graphs.mu.Lock()
	defer graphs.mu.Unlock()
	return graphs.order.Len()
}
