// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package api

import (
	"bufio"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// Keys are the API keys of the clients. The zero value has none: then everybody may use the service, and a client is
// the address that a request comes from.
type Keys struct{ entries []keyEntry }

type keyEntry struct {
	client string
	hash   [sha256.Size]byte
}

// minKey is the fewest characters of a key.
const minKey = 16

// ReadKeys reads lines "client key". Empty lines and those that start with # are skipped.
func ReadKeys(r io.Reader) (Keys, error) {
	var keys Keys
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) == 0 || strings.HasPrefix(words[0], "#"):
			continue
		case len(words) != 2:
			return Keys{}, fmt.Errorf("api: keys, line %d: not a client and a key", n)
		case len(words[1]) < minKey:
			return Keys{}, fmt.Errorf("api: keys, line %d: the key has fewer than %d characters", n, minKey)
		}
		entry := keyEntry{client: words[0], hash: sha256.Sum256([]byte(words[1]))}
		for _, other := range keys.entries {
			if other.hash == entry.hash {
				return Keys{}, fmt.Errorf("api: keys, line %d: %s and %s have the same key", n, other.client, entry.client)
			}
		}
		keys.entries = append(keys.entries, entry)
	}
	if err := lines.Err(); err != nil {
		return Keys{}, fmt.Errorf("api: keys: %w", err)
	}
	if len(keys.entries) == 0 {
		return Keys{}, errors.New("api: keys: there is none")
	}
	return keys, nil
}

// Empty reports whether there are no keys.
func (k Keys) Empty() bool { return len(k.entries) == 0 }

// client tells who sends a request. It compares hashes, all of them and in constant time, so that the time of an answer
// tells nothing about a key.
func (k Keys) client(r *http.Request) (string, bool) {
	if k.Empty() {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		return "address " + host, err == nil
	}
	given := r.Header.Get("X-API-Key")
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		given = token
	}
	hash := sha256.Sum256([]byte(given))
	found := -1
	for i := range k.entries {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(hash[:], k.entries[i].hash[:]), i, found)
	}
	if found < 0 {
		return "", false
	}
	return k.entries[found].client, true
}
