// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ErrVocabulary is wrapped by every error about the vocabulary of the text encoder: there is none, or it does not fit.
var ErrVocabulary = errors.New("segment: vocabulary of the text encoder")

// vocabularyFiles are the names of vocabularies in a folder, the preferred first.
var vocabularyFiles = []string{"bpe_simple_vocab_16e6.txt.gz", "merges.txt", "tokenizer.json"}

// maxVocabularyFile bounds a vocabulary in bytes, packed and unpacked.
const maxVocabularyFile = 1 << 25

// readTokenizer reads the vocabulary in a file or a folder.
func readTokenizer(path string, cfg Config) (*tokenizer, error) {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		folder := path
		has := func(name string) bool {
			_, err := os.Stat(filepath.Join(folder, name))
			return err == nil
		}
		i := slices.IndexFunc(vocabularyFiles, has)
		if i < 0 {
			return nil, fmt.Errorf("%w: %s holds none of %s: %w", ErrVocabulary, folder, strings.Join(vocabularyFiles, ", "), os.ErrNotExist)
		}
		path = filepath.Join(folder, vocabularyFiles[i])
	} else if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrVocabulary, err)
	}
	data, err := readVocabularyFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrVocabulary, err)
	}
	merges, err := mergesOf(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrVocabulary, path, err)
	}
	t, err := newTokenizer(merges, cfg)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrVocabulary, path, err)
	}
	return t, nil
}

// readVocabularyFile reads a file, unpacking it if it is packed.
func readVocabularyFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is no regular file", path))
	}
	data, err := readLimited(file)
	if err != nil || !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return data, err
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if data, err = readLimited(unpacked); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

func readLimited(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxVocabularyFile+1))
	if err == nil && len(data) > maxVocabularyFile {
		err = fmt.Errorf("more than %d bytes", maxVocabularyFile)
	}
	return data, err
}

// mergesOf returns the pairs of symbols that are joined, the most frequent first, as "first second". They tell the whole
// vocabulary.
func mergesOf(data []byte) ([]string, error) {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return jsonMerges(data)
	}
	lines := strings.Split(string(data), "\n")[1:] // the first is a comment on the version
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, "\r")
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines, nil
}

// jsonMerges takes the pairs out of a tokenizer.json, which holds them as texts or as lists of two.
func jsonMerges(data []byte) ([]string, error) {
	var file struct {
		Model struct {
			Merges []json.RawMessage `json:"merges"`
		} `json:"model"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	out := make([]string, len(file.Model.Merges))
	for i, raw := range file.Model.Merges {
		var pair [2]string
		if err := json.Unmarshal(raw, &out[i]); err == nil {
			continue
		}
		if err := json.Unmarshal(raw, &pair); err != nil {
			return nil, fmt.Errorf("merge %d: %w", i, err)
		}
		out[i] = pair[0] + " " + pair[1]
	}
	return out, nil
}
