// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// Limits of a JSON document, against small files that grow in memory.
const (
	maxJSONDepth  = 64
	maxJSONValues = 1 << 20
)

// checkJSON accepts one JSON object in valid UTF-8 in which no object has a key twice, at any depth. What follows may
// therefore use encoding/json, which repairs text and lets the last of equal keys win.
func checkJSON(data []byte) error {
	switch trimmed := bytes.TrimLeft(data, " \t\r\n"); {
	case !utf8.Valid(data):
		return faultf("invalid UTF-8 in header or configuration")
	case !json.Valid(data):
		return faultf("invalid JSON in header or configuration")
	case trimmed[0] != '{':
		return faultf("JSON header or configuration is not an object")
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var open []map[string]bool // keys of the objects around; nil for an array
	isKey := false
	for values := 0; ; values++ {
		token, err := decoder.Token()
		if err != nil { // the document is valid: this is its end
			return nil
		}
		if values > maxJSONValues {
			return faultf("JSON with more than %d values", maxJSONValues)
		}
		switch token := token.(type) {
		case json.Delim:
			if open, err = nest(open, token); err != nil {
				return err
			}
		case string:
			if isKey {
				if keys := open[len(open)-1]; keys[token] {
					return faultf("duplicate key or tensor name %q in JSON", token)
				} else {
					keys[token] = true
				}
				isKey = false
				continue
			}
		}
		isKey = len(open) > 0 && open[len(open)-1] != nil
	}
}

// nest follows an opening or closing delimiter.
func nest(open []map[string]bool, token json.Delim) ([]map[string]bool, error) {
	if len(open) == maxJSONDepth {
		return nil, faultf("JSON is nested too deep")
	}
	switch token {
	case '{':
		return append(open, make(map[string]bool)), nil
	case '[':
		return append(open, nil), nil
	}
	return open[:len(open)-1], nil
}
