// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTokens(t *testing.T) {
	cfg := smallGrounding()
	merges, err := mergesOf([]byte(smallMerges))
	require.NoError(t, err)
	tokens, err := newTokenizer(merges, cfg)
	require.NoError(t, err)
	const start, end, cat, dog, ca = 516, 517, 513, 515, 512
	letter := func(c byte) int32 { return int32(c - '!') }
	last := func(c byte) int32 { return letter(c) + 256 }
	for text, want := range map[string][]int32{
		"":                    {start, end},
		"  ":                  {start, end},
		"cat":                 {start, cat, end},
		"CAT  \t DOG":         {start, cat, dog, end},
		"cats":                {start, ca, letter('t'), last('s'), end},
		"cat's 12":            {start, cat, letter('\''), last('s'), last('1'), end},
		"x&amp;amp;y":         {start, last('x'), last('&'), last('y'), end},
		"cat<end_of_text>":    {start, cat, end, end},
		"dog dog dog dog dog": {start, dog, dog, dog, dog, end},
	} {
		got, err := tokens.encode(text)
		require.NoError(t, err)
		require.Equal(t, want, got, text)
	}
	got, err := tokens.encode("é\xff") // bytes c3 a9, and a character for what is no UTF-8
	require.NoError(t, err)
	require.Len(t, got, cfg.ContextLength)
	_, err = tokens.encode(strings.Repeat("x", maxText+1))
	require.ErrorIs(t, err, ErrInput)
	many, err := tokens.encode(strings.Repeat("dog \n", maxText))
	require.NoError(t, err)
	require.Equal(t, []int32{start, dog, dog, dog, dog, end}, many, "words that do not count are no reason to refuse")
}

func TestCleanText(t *testing.T) {
	for text, want := range map[string]string{
		" A\u00a0b \n\tC ":               "a b c",
		"caf\u00c3\u00a9":                "café",
		"cafe\u0301":                     "café",
		"na\u00efve \u201cx\u201d":       `naïve "x"`,
		"it\u2019s":                      "it's",
		"it\u00e2\u20ac\u2122s":          "it's",
		"\ufb01sh":                       "fish",
		"\u01c5\u01c8ep":                 "džljep",
		"\uff23\uff21\uff34\u3000\uff11": "cat 1",
		"&lt;b&gt; &amp;amp; &eacute;":   "<b> & é",
		"<b> &amp;amp;":                  "<b> &",
		"\x1b[31mred\x1b[0m":             "red",
		"a\x00b\ufeffc":                  "abc",
		"ΟΔΟΣ":                           "οδος",
		"Ünïcödé ©":                      "ünïcödé ©",
		"日本 ねこ":                          "日本 ねこ",
	} {
		require.Equal(t, want, cleanText(text), text)
	}
}

func TestVocabularyFiles(t *testing.T) {
	cfg := smallGrounding()
	folder := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, data, 0o666))
		return path
	}
	_, err := readTokenizer(folder, cfg)
	require.ErrorIs(t, err, ErrVocabulary)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Contains(t, err.Error(), "merges.txt")

	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err = w.Write([]byte(smallMerges + "one too many\n"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	pairs, err := json.Marshal(map[string]any{"model": map[string]any{"merges": []any{"c a", []string{"ca", "t</w>"}, "d o", []string{"do", "g</w>"}}}})
	require.NoError(t, err)
	want := []int32{516, 513, 515, 517}
	for name, data := range map[string][]byte{
		"merges.txt": []byte(strings.ReplaceAll(smallMerges, "\n", "\r\n")), "bpe_simple_vocab_16e6.txt.gz": packed.Bytes(),
		"tokenizer.json": pairs,
	} {
		path := write(name, data)
		for _, source := range []string{path, folder} {
			tokens, err := readTokenizer(source, cfg)
			require.NoError(t, err, name)
			got, err := tokens.encode("cat dog")
			require.NoError(t, err)
			require.Equal(t, want, got, name)
		}
		require.NoError(t, os.Remove(path))
	}

	var bomb bytes.Buffer
	w = gzip.NewWriter(&bomb)
	for range 40 {
		_, err = w.Write(make([]byte, 1<<20))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	for name, data := range map[string][]byte{
		"empty":      nil,
		"few":        []byte("#version\nc a\n"),
		"no pair":    []byte("#version\nca\nca t\nd o\ndo g\n"),
		"three":      []byte("#version\nc a t\nca t\nd o\ndo g\n"),
		"twice":      []byte("#version\nc a\nc a\nd o\ndo g\n"),
		"a byte":     []byte("#version\nc a\n a\nd o\ndo g\n"),
		"not JSON":   []byte("{"),
		"wrong JSON": []byte(`{"model":{"merges":[3]}}`),
		"not packed": {0x1f, 0x8b, 0},
		"bomb":       bomb.Bytes(),
	} {
		path := write("broken", data)
		_, err := readTokenizer(path, cfg)
		require.ErrorIs(t, err, ErrVocabulary, name)
		require.Contains(t, err.Error(), "broken", name)
	}
	cfg.VocabularySize = 64
	_, err = readTokenizer(write("merges.txt", []byte(smallMerges)), cfg)
	require.ErrorIs(t, err, ErrVocabulary, "a vocabulary without room for bytes")
}
