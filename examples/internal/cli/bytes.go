// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bytes is a flag of a number of bytes: a number, or one with a unit as in "8GB", "7.5 GiB" or "500MB".
type Bytes int64

// units by their names, the longer ones of the same ending first.
var units = []struct {
	name string
	size float64
}{
	{"KIB", 1 << 10}, {"MIB", 1 << 20}, {"GIB", 1 << 30}, {"TIB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

// String implements flag.Value.
func (b *Bytes) String() string { return strconv.FormatInt(int64(*b), 10) }

// Set implements flag.Value.
func (b *Bytes) Set(text string) error {
	number, size := strings.ToUpper(strings.TrimSpace(text)), 1.0
	for _, unit := range units {
		if rest, ok := strings.CutSuffix(number, unit.name); ok {
			number, size = strings.TrimSpace(rest), unit.size
			break
		}
	}
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || !(value >= 0 && value*size < math.MaxInt64) {
		return fmt.Errorf("%q is no number of bytes, such as 8GB or 7.5GiB", text)
	}
	*b = Bytes(value * size)
	return nil
}
