// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSetsAreApart(t *testing.T) {
	one, other := New(), New() // a registry of the process would refuse the second
	one.Queued.Set(3)
	one.Failures.WithLabelValues("no_object").Inc()
	for set, text := range map[*Set]string{one: "image3d_jobs_queued 3", other: "image3d_jobs_queued 0"} {
		answer := httptest.NewRecorder()
		set.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
		require.Contains(t, answer.Body.String(), text)
		require.Contains(t, answer.Body.String(), "process_resident_memory_bytes")
	}
}
