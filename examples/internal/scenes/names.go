// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package scenes

import (
	"strconv"
	"strings"
)

// Distinguish makes the names of objects fit to be those of different folders.
func Distinguish(objects []Object) {
	seen := make(map[string]bool)
	for i := range objects {
		base := strings.Trim(strings.Map(func(r rune) rune {
			if strings.ContainsRune(`<>:"/\|?*`, r) || r < ' ' {
				return '_'
			}
			return r
		}, objects[i].Name), ". ")
		if base == "" {
			base = "object"
		}
		name := base
		for n := 2; seen[strings.ToLower(name)]; n++ {
			name = base + "-" + strconv.Itoa(n)
		}
		seen[strings.ToLower(name)] = true
		objects[i].Name = name
	}
}
